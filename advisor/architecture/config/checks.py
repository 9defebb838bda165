"""Refusals that many families share: what must divide, and lists that must fit the layers."""

from __future__ import annotations

from advisor.architecture.config.fields import ConfigFields


def check_divides(
    fields: ConfigFields, name: str, value: int, whole: int, of: str = "the heads"
) -> None:
    """Refuse a field whose value does not divide a whole.

    Parameters
    ----------
    name : str
        The field.
    of : str
        What the whole is.

    Raises
    ------
    InputError
        If a rest is left.
    """
    if whole % value:
        what = f"config field {name} does not divide {of}"
        fields.fail(what, name, value, f"a divisor of {whole:,}")


def check_length(fields: ConfigFields, name: str, found: int, layers: int) -> None:
    """Refuse a list that has another number of values than there are layers.

    Parameters
    ----------
    name : str
        The field.

    Raises
    ------
    InputError
        If the numbers differ.
    """
    if found != layers:
        what = f"config field {name} does not fit the layers"
        fields.fail(what, name, f"{found} values", f"a list of {layers} values")
