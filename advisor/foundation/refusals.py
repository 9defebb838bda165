"""Errors of a user's input whose sentences stand in data/refusals.yaml."""

from functools import cache
from typing import Any, Literal

from advisor.errors import InputError

Part = Literal["what", "value", "allowed", "remedy", "field"]
"""Of an error."""


def refusal(entry: str, /, **facts: Any) -> InputError:
    """Return the error of an entry of the file, its sentences filled with facts.

    A fact with the name of one of the error's parts is that part: mostly the ``value``, and what
    is ``allowed`` where a list of the program says it. A list is written with commas.

    >>> str(refusal("no_number", value="ten", field="share")).partition(":")[0]
    'share is not a number'
    """
    value = {"value": facts.pop("value", None)}
    words = {name: _words(fact) for name, fact in facts.items()}
    said = {part: text.format(**words) for part, text in sentences()[entry].items()}
    given = {part: words[part] for part in ("allowed", "remedy", "field") if part in words}
    return InputError(**value | given | said)


def _words(fact: Any) -> Any:
    return ", ".join(map(str, fact)) if isinstance(fact, list | tuple | dict | frozenset) else fact


@cache
def sentences() -> dict[str, dict[Part, str]]:
    """Return the entries of the file."""
    # A command without an error reads no sentence.
    from advisor.foundation.data_records import read_mapping

    return read_mapping("refusals.yaml", dict[str, dict[Part, str]])
