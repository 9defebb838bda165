"""Lessons: one in full, or all with their first sentence."""

from advisor.lessons.results import Lessons
from advisor.terminal.console import Report


def show_lessons(console: Report, found: Lessons) -> None:
    """Print one lesson in full, or the answer of each of several."""
    lessons = found.lessons
    if len(lessons) > 1:
        lines = (
            (item.topic, " ".join((item.question, *item.figures.sentences))) for item in lessons
        )
        console.definitions(*lines)
        console.paragraph("--topic NAME shows one with its figures and the reasons.")
        return
    for item in lessons:
        console.print(item.question, style="bold")
        console.paragraph(f'Many believe: "{item.belief}"')
        for sentence in (*item.figures.sentences, *item.teaches):
            console.paragraph(sentence)
        if item.figures.bars:
            console.heading(item.figures.axis)
            console.definitions(*((bar.label, bar.text) for bar in item.figures.bars))
        if item.figures.limit_words:
            console.paragraph(f"Limit: {item.figures.limit_words}.")
        console.references(item.references)
