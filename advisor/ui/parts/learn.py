"""The parts of the page *Learn*."""

import functools
from typing import Final

import pandas as pd
import streamlit as st

from advisor.charts.lessons import lesson_chart
from advisor.errors import InputError
from advisor.foundation.references import citation
from advisor.lessons.glossary import glossary
from advisor.lessons.results import Lesson
from advisor.lessons.topics import lesson, lesson_texts
from advisor.ui.parts import question
from advisor.ui.parts.chart_view import draw, table_below
from advisor.ui.parts.results import status
from advisor.ui.parts.widgets import box, show_mistake
from advisor.ui.parts.wording import on_phone, plain
from advisor.ui.session import address, state
from advisor.ui.session.kept import kept
from advisor.ui.session.links import Page, choice

TOPIC: Final = "learn_topic"
FEWEST_BARS: Final = 2


@functools.cache
def inputs() -> Page:
    """Return the inputs as they stand in the address."""
    titles = {topic: text.question for topic, text in lesson_texts().items()}
    first = next(iter(titles))
    return state.beside("learn", {"topic": choice(TOPIC, "Question", first, lambda: titles)})


def page() -> None:
    """Ask for a question; answer it with figures of the case."""
    asked = question.asked(inputs(), title="Learn", heading="What should I know?")
    titles = {topic: text.question for topic, text in lesson_texts().items()}
    if on_phone():  # the list would fill the screen
        box(inputs(), "topic")
        right = st.container()
    else:
        left, right = st.columns([1, 2], gap="large")
        left.radio(
            "Question",
            [*titles],
            format_func=titles.__getitem__,
            key=TOPIC,
            persist_state="session",
        )
    state.write(inputs())
    topic = str(address.values(inputs())["topic"])
    found = state.answer(asked, lambda *_: None)
    with right:
        if isinstance(found, state.Unanswered):
            st.error(plain(" ".join(found.problems.values())), icon=":material/error:")
            return
        case = found.recommendation.case
        try:
            shown: Lesson = kept(
                lambda: lesson(case, topic, recommendation=found.recommendation),
                "lesson",
                topic,
                case.to_json(indent=None),
            )
        except InputError as error:
            show_mistake(error)
        else:
            _show(shown, found.recommendation.catalog_date)
    _words()


def _words() -> None:
    """List the words of the field, those that hold a text first asked for."""
    with st.expander("Words of the field", key="learn_words", on_change="rerun") as words:
        if not words.open:
            return
        wanted = st.text_input("Find a word", key="learn_word", max_chars=40).strip().casefold()
        for word, term in glossary().items():
            names = ", ".join((word, *term.also))
            if wanted in f"{names} {term.means}".casefold():
                st.markdown(f"**{plain(names)}**: {plain(term.means)}")


def _show(shown: Lesson, newest: str) -> None:
    st.header(shown.question, anchor=False)
    st.caption(plain(f"Many believe: “{shown.belief}”"))
    first, *rest = (*shown.figures.sentences, "")
    status(first)
    for sentence in (*filter(None, rest), *shown.teaches):
        st.markdown(plain(sentence))
    if len(shown.figures.bars) >= FEWEST_BARS:
        draw(lesson_chart, shown.figures, key="learn_chart")
        rows = [{"": bar.label, shown.figures.axis: bar.text} for bar in shown.figures.bars]
        table_below("learn", lambda: pd.DataFrame(rows), lambda: pd.DataFrame(rows))
    for key in shown.references:
        st.markdown(plain(citation(key), links=True))
    st.caption(
        f"Figures: computed for your question, with prices up to {newest}. *Catalog* names the "
        "source of each card and price, *Accuracy* that of each measured run."
    )
