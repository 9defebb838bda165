"""Checks that many families share: values that must divide, lists that must match the layers."""

from __future__ import annotations

from advisor.architecture.config.fields import ConfigFields


def check_divides(
    fields: ConfigFields, name: str, value: int, whole: int, of: str = "the heads"
) -> None:
    """Refuse a field whose value does not divide ``whole``.

    Parameters
    ----------
    name : str
        Name of the field.
    of : str
        What ``whole`` is, for the message.

    Raises
    ------
    InputError
        If the division leaves a remainder.
    """
    if whole % value:
        what = f"config field {name} does not divide {of}"
        fields.fail(what, name, value, f"a divisor of {whole:,}")


def check_length(fields: ConfigFields, name: str, found: int, layers: int) -> None:
    """Refuse a list whose length differs from the number of layers.

    Parameters
    ----------
    name : str
        Name of the field.

    Raises
    ------
    InputError
        If the lengths differ.
    """
    if found != layers:
        what = f"config field {name} does not match the layers"
        fields.fail(what, name, f"{found} values", f"a list of {layers} values")
