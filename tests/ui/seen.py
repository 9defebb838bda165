"""What a page says, as a reader sees it."""

HIDDEN = str.maketrans({"\\": "", "\N{WORD JOINER}": "", "\N{NO-BREAK SPACE}": " "})


def seen(text: object) -> str:
    """Return a text of the page without its escapes and what keeps its numbers together."""
    return str(text).translate(HIDDEN)
