"""The commands that answer a case.

The engine is imported once the arguments are read, so that a mistake is told at once.
"""

from argparse import Namespace
from pathlib import Path

import advisor
from advisor.commands.answering import answered, stated_case
from advisor.errors import MAX_PART, shortened
from advisor.foundation.files.writing import write_whole
from advisor.foundation.parsing import parse_count
from advisor.terminal.streams import print_content


def recommend(arguments: Namespace) -> None:
    """Rank what to rent or use."""
    top = parse_count(arguments.top, field="--top")
    case = stated_case(arguments)
    one_screen = top == 1 and not (arguments.json or arguments.everything)
    answered(arguments, advisor.recommend(case, beside=not one_screen), top=top)


def estimate(arguments: Namespace) -> None:
    """Estimate one configuration."""
    answered(arguments, advisor.estimate(stated_case(arguments), curves=True))


def own(arguments: Namespace) -> None:
    """Compare renting with buying."""
    answered(arguments, advisor.own(stated_case(arguments)))


def learn(arguments: Namespace) -> None:
    """Answer questions about GPUs with figures of the case."""
    case = stated_case(arguments)
    from advisor.lessons.results import Lessons
    from advisor.lessons.topics import lesson, lesson_texts

    found = advisor.recommend(case)
    topics = [arguments.topic] if arguments.topic else [*lesson_texts()]
    lessons = tuple(lesson(case, topic, recommendation=found) for topic in topics)
    answered(arguments, Lessons(lessons=lessons))


def export(arguments: Namespace) -> None:
    """Write a plan as a file."""
    case = stated_case(arguments)
    written = advisor.export(
        case,
        arguments.to,
        checkpoint=arguments.checkpoint,
        log_to=arguments.log_to,
        platform=arguments.platform,
    )
    output: str | None = arguments.output
    if output is not None:
        write_whole(Path(output), written.content.removesuffix("\n") + "\n")
    if arguments.json:
        print_content(written.to_json())
    elif output is None:
        print_content(written.content.rstrip("\n"))
    else:
        print(f"Wrote {shortened(output, MAX_PART)}.")
