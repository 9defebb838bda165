"""Reads a Hugging Face ``config.json``. Every value has bounds, and errors name the field."""

from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from advisor.errors import InputError
from advisor.foundation.files.structured import MAX_VALUES, NotPlainError, read_json
from advisor.foundation.names import printable
from advisor.foundation.noun import Noun, shipped

MAX_CONFIG_BYTES: Final = 2_500_000
MAX_DEPTH: Final = 40
BYTES_PER_VALUE: Final = 10
"""Fewest bytes of text per value, on average over a file. It bounds the memory of the values."""


class FieldFacts(Noun):
    """Content of the file."""

    about: str
    aliases: dict[str, tuple[str, ...]]
    limits: dict[int, tuple[str, ...]]
    sizes: frozenset[str]
    identity: frozenset[str]
    """Whole configurations without one of these, which decide the size, are incomplete."""
    llama: tuple[str, ...]
    """A configuration with an unknown ``model_type`` needs these to count as Llama-like."""
    foreign: tuple[str, ...]
    """No Llama-like model has these; with one of them, the guess would be wrong."""
    unchecked: tuple[str, ...]
    """Of models without a published class to compare: the table follows the fields' names."""


field_facts = shipped("config_fields.json", FieldFacts)

ALIASES: Final = field_facts().aliases
"""Other spellings of fields in older configurations."""
LIMITS: Final = {name: most for most, names in field_facts().limits.items() for name in names}
"""Largest accepted value by field."""
DEFAULT_LIMIT: Final = 100_000_000
"""Largest accepted value of a field without an entry in ``LIMITS``."""

REMEDY: Final = "Correct the field, or give the model's parameter count instead."


class ConfigFields:
    """A configuration, with readers that check each field's type and range.

    ``config``: parsed ``config.json``. ``defaults``: values of absent fields. A null in the file
    stays a null. ``names``: fields of the family by the names that its reader takes.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        defaults: Mapping[str, object] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config
        self._defaults = defaults or {}
        self._names = names or {}

    def _spellings(self, name: str) -> tuple[str, ...]:
        if name in self._names:
            return (self._names[name],)
        return (name, *ALIASES.get(name, ()))

    def _find(self, name: str) -> tuple[str, object]:
        """Return the spelling in the file and its value, or the name itself and None."""
        spellings = self._spellings(name)
        for spelling in spellings:
            if self._config.get(spelling) is not None:
                return spelling, self._config[spelling]
        if any(spelling in self._config for spelling in spellings):
            return spellings[0], None
        return spellings[0], self._class_default(name)

    def _class_default(self, name: str) -> object:
        """Return the class's default for a field that is null but must not be."""
        spellings = self._spellings(name)
        return next((self._defaults[item] for item in spellings if item in self._defaults), None)

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null."""
        return self._find(name)[1] is not None

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the ``names`` whose field is absent or null."""
        return tuple(name for name in names if not self.has(name))

    def count(
        self, name: str, default: int | None = None, *, minimum: int = 1, maximum: int | None = None
    ) -> int:
        """Return a whole number within its bounds.

        Raises InputError if the field is absent without a default, has another type or is out of
        bounds.
        """
        spelling, value = self._find(name)
        if value is None and default is None and name not in field_facts().sizes:
            value = self._class_default(name)
        limit = maximum if maximum is not None else LIMITS.get(name, DEFAULT_LIMIT)
        allowed = f"a whole number from {minimum:,} to {limit:,}"
        if value is None:
            if default is None:
                self.refuse(name, "is missing", None, allowed)
            return default
        if isinstance(value, list) and len(value) > 1 and all(item == value[0] for item in value):
            value = value[0]  # one for each layer, all alike (Hunyuan)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(spelling, "is not a whole number", value, allowed)
        if not minimum <= value <= limit:
            self.refuse(spelling, "is out of bounds", value, allowed)
        return value

    def optional_count(self, name: str) -> int | None:
        """Return a whole number of at least one, or None if the field is absent or null."""
        return self.count(name) if self.has(name) else None

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean, or ``default`` if neither the file nor its class has one.

        Raises InputError if the value is neither true nor false.
        """
        spelling, value = self._find(name)
        if value is None and (value := self._class_default(name)) is None:
            return default
        if not isinstance(value, bool):
            self.refuse(spelling, "is not a boolean", value, "true or false")
        return value

    def number(
        self, name: str, default: float | None = None, *, minimum: float, maximum: float
    ) -> float:
        """Return a number within its bounds.

        Raises InputError if the value has another type or is out of bounds.
        """
        spelling, value = self._find(name)
        allowed = f"{minimum:g} to {maximum:g}"
        if value is None:
            value = self._class_default(name) if default is None else default
        if value is None:
            self.refuse(name, "is missing", None, allowed)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not minimum <= value <= maximum
        ):
            self.refuse(spelling, "is not usable", value, allowed)
        return float(value)

    def share(self, name: str, default: float | None = None) -> float:
        """Return a number from 0 to 1, as :meth:`number`."""
        return self.number(name, default, minimum=0, maximum=1)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string, or ``default`` if neither the file nor its class has one.

        Raises InputError if the value has another type or is not printable.
        """
        spelling, value = self._find(name)
        if value is None:
            value = self._class_default(name) or default
        if value is None:
            self.refuse(name, "is missing", None, "a string")
        if not isinstance(value, str):
            self.refuse(spelling, "is not text", value, "a string")
        return printable(value, field=f"config field {spelling}")

    def texts(self, name: str, *, length: int, allowed: Iterable[str]) -> tuple[str, ...] | None:
        """Return a list of ``length`` known strings, or None if the field is absent."""
        spelling, value = self._find(name)
        if value is None:
            return None
        known = tuple(allowed)
        wanted = f"a list of {length} values out of {', '.join(known)}"
        if not isinstance(value, list) or len(value) != length:
            self.refuse(spelling, "does not match the layers", value, wanted)
        if any(item not in known for item in value if isinstance(item, str)) or not all(
            isinstance(item, str) for item in value
        ):
            self.refuse(spelling, "has an unknown value", value, wanted)
        return tuple(value)

    def counts(self, name: str, *, maximum: int) -> tuple[int, ...]:
        """Return a list of whole numbers from 0 to ``maximum``; empty if there is none."""
        spelling, value = self._find(name)
        if value is None and (value := self._class_default(name)) is None:
            return ()
        wanted = f"a list of whole numbers from 0 to {maximum:,}"
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= maximum
            for item in value
        ):
            self.refuse(spelling, "is not usable", value, wanted)
        return tuple(value)

    def names(self, name: str) -> tuple[str, ...]:
        """Return the strings of a list and of lists in it; empty if absent or not a list."""
        value = self._find(name)[1]
        if not isinstance(value, list):
            return ()
        items = (item if isinstance(item, list) else [item] for item in value)
        return tuple(text for item in items for text in item if isinstance(text, str))

    def length(self, name: str) -> int | None:
        """Return the length of a list, or None if the field is absent or not a list."""
        value = self._find(name)[1]
        return len(value) if isinstance(value, list) else None

    def is_text(self, name: str) -> bool:
        """Return whether a field is a string."""
        return isinstance(self._find(name)[1], str)

    def mapping(self, name: str) -> Mapping[str, object] | None:
        """Return a nested object, or None if the field is absent."""
        value = self._config.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.refuse(name, "is not an object", value, "an object")
        return value

    def must_divide(self, name: str, value: int, whole: int, of: str = "the heads") -> None:
        """Refuse a field whose value does not divide ``whole``, which messages call ``of``.

        Raises InputError if the division leaves a remainder.
        """
        if whole % value:
            self.refuse(name, f"does not divide {of}", value, f"a divisor of {whole:,}")

    def must_match(self, name: str, found: int, layers: int) -> None:
        """Refuse a list whose length differs from the number of layers.

        Raises InputError if the lengths differ.
        """
        if found != layers:
            wanted = f"a list of {layers} values"
            self.refuse(name, "does not match the layers", f"{found} values", wanted)

    def refuse(self, name: str, what: str, value: object, allowed: str) -> NoReturn:
        """Refuse the configuration because of the field ``name``: ``config field NAME WHAT``."""
        name = self._names.get(name, name)
        self.fail(f"config field {name} {what}", name, value, allowed)

    def fail(self, what: str, field: str, value: object, allowed: str) -> NoReturn:
        """Refuse the configuration because of one field."""
        raise InputError(
            what, value=value, allowed=allowed, remedy=REMEDY, field=f"model.config.{field}"
        )


def load_config_text(text: str | bytes, *, most: int = MAX_CONFIG_BYTES) -> dict[str, object]:
    """Parse the text of a ``config.json``.

    The parsed object; its values are not validated yet. Raises InputError if the text is larger
    than 2.5 MB, not UTF-8, not JSON, not an object, or nested deeper than 40 levels, or holds
    ``NaN``, a key twice or a number of more than 30 digits. Infinities are accepted: published
    files have them in fields that no size depends on.

    ``text``: JSON; bytes are read as UTF-8. ``most``: largest accepted size. [bytes]
    """
    raw = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
    if len(raw) > most:
        _refuse("the config is too large", f"{len(raw):,} bytes", f"{most:,} bytes")
    try:
        parsed = read_json(
            raw.decode("utf-8"), deepest=MAX_DEPTH, most=min(MAX_VALUES, most // BYTES_PER_VALUE)
        )
    except UnicodeDecodeError:
        _refuse("the config is not UTF-8 text", _size(raw), "UTF-8 JSON")
    except NotPlainError as error:
        raise error.as_input_error(
            "the config",
            form="JSON",
            value=_size(raw),
            allowed="JSON of ordinary depth and size",
            field="model.config",
        ) from None
    if not isinstance(parsed, dict):
        _refuse("the config is not a JSON object", _size(raw), "an object like {...}")
    return parsed


def _size(raw: bytes) -> str:
    # Show only the size: the text may come from a file that must not be revealed.
    return f"{len(raw):,} bytes"


def _refuse(what: str, value: object, allowed: str) -> NoReturn:
    remedy = "Paste the whole config.json of the model's page."
    raise InputError(what, value=value, allowed=allowed, remedy=remedy, field="model.config")
