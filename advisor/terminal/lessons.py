"""Lessons: one in full, or all with their first sentence."""

from rich.console import Console

from advisor.lessons.results import Lessons
from advisor.terminal.console import definitions, heading, paragraph, references


def show_lessons(console: Console, found: Lessons) -> None:
    """Print one lesson in full, or the answer of each of several."""
    lessons = found.lessons
    if len(lessons) > 1:
        lines = (
            (item.topic, " ".join((item.question, *item.figures.sentences))) for item in lessons
        )
        console.print(definitions(*lines))
        paragraph(console, "--topic NAME shows one with its figures and the reasons.")
        return
    for item in lessons:
        console.print(item.question, style="bold")
        paragraph(console, f'Many believe: "{item.belief}"')
        for sentence in (*item.figures.sentences, *item.teaches):
            paragraph(console, sentence)
        if item.figures.bars:
            heading(console, item.figures.axis)
            console.print(definitions(*((bar.label, bar.text) for bar in item.figures.bars)))
        if item.figures.limit_words:
            paragraph(console, f"Limit: {item.figures.limit_words}.")
        references(console, item.references)
