"""The project's exceptions: all of them, on one screen.

An exception is a caller's mistake, told as: what is wrong, the value, what is allowed, how to
mend it. A configuration that does not fit or is too slow is not an exception but a
``Rejection`` value.
"""

from __future__ import annotations

from enum import Enum


class AdvisorError(ValueError):
    """Base of everything this project raises on purpose."""


class InputError(AdvisorError):
    """A value that the user gave cannot be used.

    Parameters
    ----------
    what : str
        The field and what is wrong with it, e.g. ``"tokens is negative"``.
    value : object
        What was given.
    allowed : str
        What would be accepted.
    remedy : str
        The next step, as an instruction.
    field : str, optional
        Dotted path of the input, so that an interface can show the message beside it.
    """

    def __init__(
        self, what: str, *, value: object, allowed: str, remedy: str, field: str = ""
    ) -> None:
        self.what, self.value, self.allowed, self.remedy = what, value, allowed, remedy
        self.field = field
        shown = repr(value.value if isinstance(value, Enum) else value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        super().__init__(f"{what}: got {shown}; allowed: {allowed}. {remedy}")


class UnsupportedArchitectureError(InputError):
    """A model description is well-formed, but the engine has no builder for it."""


class CatalogError(AdvisorError):
    """A data file is broken: names file, entry, field, value and how to mend it."""

    def __init__(self, *, file: str, entry: str, field: str, value: object, remedy: str) -> None:
        self.file, self.entry, self.field, self.value = file, entry, field, value
        self.remedy = remedy
        super().__init__(f"{file}: entry {entry!r}, field {field!r}: got {value!r}. {remedy}")


class ResourceError(AdvisorError):
    """A file that ships with the package is missing or unreadable."""


class RefreshError(AdvisorError):
    """Live prices were not taken over; the prices in use stay as they are.

    Parameters
    ----------
    what : str
        What went wrong.
    remedy : str
        The next step, as an instruction.
    """

    def __init__(self, what: str, *, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(f"{what}. The prices in use stay as they are. {remedy}")


class TransferError(AdvisorError):
    """Something cannot be written or read on the way: no room, no right, a closed stream.

    Parameters
    ----------
    what : str
        What went wrong.
    remedy : str
        The next step, as an instruction.
    """

    def __init__(self, what: str, *, remedy: str) -> None:
        self.what, self.remedy = what, remedy
        super().__init__(f"{what}. {remedy}")


class ProbeError(AdvisorError):
    """A measurement of this machine could not be made; the message says which and why."""
