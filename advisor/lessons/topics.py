"""All lessons by topic, in the order in which people ask."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final

from pydantic import Field

from advisor import api
from advisor.catalog import load_catalog
from advisor.errors import InputError
from advisor.foundation.names import check_known
from advisor.foundation.noun import Noun, read_record, refuse
from advisor.foundation.references import references
from advisor.foundation.resources import data_path
from advisor.lessons import memory, money, speed
from advisor.lessons.asked import Asked
from advisor.lessons.results import Figures, Lesson
from advisor.nouns.case import Case
from advisor.planning.prepared import as_case
from advisor.planning.results import Recommendation

TEXTS: Final = "lessons.yaml"
FIGURES: Final[dict[str, Callable[[Asked], Figures]]] = {
    "memory": memory.parts,
    "any-card": money.any_card,
    "processor": speed.processor,
    "limit": speed.limit,
    "batch": memory.batch,
    "precision": memory.formats,
    "sharding": memory.sharding,
    "cards": speed.cards,
    "more-memory": money.more_memory,
    "token": money.token,
    "own": money.own,
    "energy": money.energy,
    "sure": speed.sure,
}
"""What computes the figures of each topic."""
Sentence = Annotated[str, Field(min_length=1, max_length=300)]


class LessonText(Noun):
    """The words of one lesson: a row of ``data/lessons.yaml``."""

    question: Sentence
    belief: Sentence
    both: tuple[Sentence, ...] = ()
    training: tuple[Sentence, ...] = ()
    serving: tuple[Sentence, ...] = ()
    references: tuple[Sentence, ...] = ()


class _Texts(Noun):
    lessons: dict[str, LessonText]


@cache
def lesson_texts() -> Mapping[str, LessonText]:
    """Return the words of all lessons by topic."""
    texts = read_record(data_path(TEXTS), _Texts, under="lessons").lessons
    if [*texts] != [*FIGURES]:
        refuse(TEXTS, ", ".join(texts)[:200], f"The topics are {', '.join(FIGURES)}.")
    for topic, text in texts.items():
        for key in text.references:
            if key not in references():
                refuse(TEXTS, key, "Name a key of references.csv.", entry=topic, field="references")
    return texts


def _figures(topic: str, asked: Asked) -> Figures:
    assert asked.plan is not None  # it raises where nothing does the work
    try:
        return FIGURES[topic](asked)
    except InputError as error:  # a user's own card may have no price and no power
        return Figures(sentences=(f"This case has no figures here: {error.what}.",))


def lesson(
    case: Case | Mapping[str, Any],
    topic: str,
    *,
    recommendation: Recommendation | None = None,
) -> Lesson:
    """Answer one question with figures of a case.

    Raises InputError if there is no such topic, or nothing does the work of the case.

    ``case``: the case; its plan is searched. ``topic``: a key of ``FIGURES``. ``recommendation``:
    the answer to this case, if it is known already.
    """
    check_known(topic, FIGURES, what="topic", field="topic")
    catalog = load_catalog()
    found = recommendation or api.recommend(as_case(case), catalog=catalog)
    asked = Asked(found.case, found, catalog)
    text = lesson_texts()[topic]
    return Lesson(
        topic=topic,
        question=text.question,
        belief=text.belief,
        figures=_figures(topic, asked),
        teaches=(*text.both, *(text.serving if asked.serves else text.training)),
        references=text.references,
    )
