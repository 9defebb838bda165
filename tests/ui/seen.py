"""What a page says, as a reader sees it."""

import re

HIDDEN = str.maketrans({"\\": "", "\N{WORD JOINER}": "", "\N{NO-BREAK SPACE}": " "})


def seen(text: object) -> str:
    """Return a text of the page without its escapes, its styles and what joins its numbers."""
    return re.sub("</?span[^>]*>", "", str(text)).translate(HIDDEN)
