"""What a person is told about a field of a case, declared once on the field.

Options, page and documents are built from these declarations.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum, StrEnum
from typing import Any, Final, Literal, Self, get_args, get_origin

from pydantic import Field

from advisor.foundation import parsing
from advisor.foundation.noun import Noun, annotated
from advisor.foundation.record import record
from advisor.foundation.units import HOUR_S


class Labelled(StrEnum):
    """Names of a case that also have a label for people."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        """Take the name, and its label where it has one."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label or value
        return member


class Task(Labelled):
    """What is to be done."""

    LORA = "lora", "Fine-tune (LoRA)"
    QLORA = "qlora", "Fine-tune (QLoRA)"
    FULL = "full", "Fine-tune (all weights)"
    PRETRAIN = "pretrain", "Pretrain"
    SERVE = "serve", "Serve"

    @property
    def workload(self) -> dict[str, str]:
        """Fields of a workload that make it this task.

        >>> Task.LORA.workload
        {'kind': 'fine_tuning', 'method': 'lora'}
        """
        kinds = {Task.PRETRAIN: "pretraining", Task.SERVE: "serving"}
        if self in kinds:
            return {"kind": kinds[self]}
        return {"kind": "fine_tuning", "method": self.value}


ADAPTERS: Final = frozenset({Task.LORA, Task.QLORA})
FINE_TUNING: Final = ADAPTERS | {Task.FULL}
TRAINING: Final = FINE_TUNING | {Task.PRETRAIN}
SERVING: Final = frozenset({Task.SERVE})
TASKS: Final = frozenset(Task)


class Network(Labelled):
    """What a network takes and makes."""

    LANGUAGE = "language", "Language"
    VISION = "vision", "Vision"
    DIFFUSION = "diffusion", "Diffusion"
    RECURRENT = "recurrent", "Recurrent"
    ENCODER = "encoder", "Encoder (embeddings)"
    PAIRS = "pairs", "Encoder-decoder"


NETWORKS: Final = frozenset(Network)
WRITING: Final = frozenset({Network.LANGUAGE, Network.RECURRENT})
"""What answers token after token."""
TEXT: Final = WRITING | {Network.ENCODER}
"""What is counted in tokens."""
BATCHES: Final = NETWORKS - WRITING
"""What answers a batch at once."""
DIFFUSION: Final = frozenset({Network.DIFFUSION})
VISION: Final = frozenset({Network.VISION})
IMAGES: Final = VISION | DIFFUSION
PAIRS: Final = frozenset({Network.PAIRS})
SAMPLES: Final = NETWORKS - TEXT
"""What is counted in images or samples."""


def _hours(text: str, *, field: str) -> float:
    return parsing.parse_duration(text, field=field) / HOUR_S


class Reads(StrEnum):
    """How a typed text becomes the value of a field."""

    parse: Callable[..., float] | None
    """What reads a number, in the unit of the case."""
    metavar: str
    """Stands for the value in the help."""
    unit: str
    example: str
    """What people should have typed."""

    def __new__(
        cls,
        value: str,
        parse: Callable[..., float] | None = None,
        metavar: str = "N",
        unit: str = "",
        example: str = "",
    ) -> Self:
        """Take the name, and how numbers are read."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.parse, member.metavar, member.unit, member.example = parse, metavar, unit, example
        return member

    TEXT = "text", None, "NAME"
    CHOICE = "choice", None, "NAME"
    YES = "yes", None, "yes|no"
    COUNT = "count", parsing.parse_amount, "N", "", "a number like 50M or 2e9"
    """A positive number."""
    BYTES = "bytes", parsing.parse_bytes, "BYTES", "", "a size like 64GB"
    """Bytes, or bytes a second: 64GB, 2GB/s."""
    WHOLE = "whole", parsing.parse_count, "N", "", "a whole number"
    LENGTH = "length", parsing.parse_length, "N", "tokens", "a whole number, such as 32768 or 32K"
    """Of a sequence: 32K is 32,768."""
    HOURS = "hours", _hours, "TIME", "hours", "a time like 24h or 3 days"
    USD = "usd", parsing.parse_money, "USD", "USD", "an amount like 500"
    MS = "ms", parsing.parse_latency, "MS", "ms", "a time like 2 s or 500 ms"
    ARRIVALS = (
        "arrivals",
        parsing.parse_arrivals,
        "RATE",
        "requests/s",
        "a rate like 10/s or 600/min",
    )
    """Requests in a time, also as 500 users x 12/h."""
    SOUND = "sound", parsing.parse_sound, "HOURS", "a day", "hours like 1000/day or 5000 in 3 days"
    """Hours of sound in a time."""
    RATE = "rate", parsing.parse_amount, "RATE", "", "a rate like 1.12"
    """USD for one unit of another currency."""
    PLAIN = "plain", parsing.parse_number, "X", "", "a number like 0.3 or 30%"
    """Any number, or a share in percent."""
    CARDS = "cards"
    """Cards with their number, or the report of a probe."""


NAMED: Final = "--"
"""Of an option with the field's own name: ``--draft-tokens`` of ``draft_tokens``."""


@record
class Input:
    """What a person is told about one field, and how they enter it."""

    help: str
    """Behind the option, in the command's help and in docs/cli.md."""
    flag: str = ""
    """Option of the command line: `NAMED` for that of the field's name, empty for none."""
    label: str = ""
    """On the page; empty keeps the field off it."""
    unit: str = ""
    """Behind the label, where the text that is typed has no unit of its own."""
    reads: Reads | None = None
    """None follows from the type, which may hold one of them beside its bounds."""
    metavar: str = ""
    choices: Callable[[], Iterable[str]] | None = None
    """Values, where the type does not name them."""
    labels: Callable[[], Mapping[str, str]] | None = None
    """Labels of these values, for the page."""
    many: bool = False
    """The values are too many for the command's help, which says where they are."""
    tasks: frozenset[Task] = TASKS
    """Tasks that have the field, among those of the noun that holds it."""
    networks: frozenset[Network] = NETWORKS
    """Networks for which the page asks."""
    advanced: bool = True
    blank: str = ""
    """What an empty box means."""
    explained: str = ""
    """On the page, when asked for."""
    sets: str = ""
    """Value that the option sets; it then takes none."""
    needs: str = ""
    """Field of the same noun without which this one does nothing."""


def asked(help: str, flag: str = NAMED, *, default: object = None, **settings: Any) -> Any:
    """Declare a field that a person enters: what :class:`Input` takes, and its default."""
    field: Any = Field(default=default)
    field.metadata.append(Input(help, flag, **settings))
    return field


@record
class Declared:
    """One field of a case, with all that its noun says of it."""

    path: str
    """Fields from the case down to this one, joined by dots."""
    input: Input | None
    """None where no person enters the field by itself."""
    default: object
    types: tuple[object, ...]
    """Types and checks in the annotation, flat."""
    tasks: frozenset[Task]

    @property
    def told(self) -> Input:
        """Return what a person is told; the field has to be declared."""
        if self.input is None:
            raise TypeError(f"{self.path} has no Input")
        return self.input

    @property
    def name(self) -> str:
        """Return the field's own name."""
        return self.path.rpartition(".")[2]

    @property
    def dest(self) -> str:
        """Return the option as an attribute: ``global_batch`` of ``--global-batch``."""
        return self.told.flag.removeprefix("--").replace("-", "_")

    @property
    def repeat(self) -> bool:
        """Return whether the field is a list, of which each item is typed."""
        return tuple in self.types

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the values that the field can have; empty where they are open."""
        if self.input is not None and self.input.choices is not None:
            return tuple(self.input.choices())
        for item in self.types:
            if isinstance(item, type) and issubclass(item, Enum):
                return tuple(item)
            if get_origin(item) is Literal:
                return get_args(item)
        return ()

    @property
    def labels(self) -> dict[str, str]:
        """Return the values that the field can have, each with its label."""
        known = self.input.labels() if self.input and self.input.labels else {}
        return {
            str(one): known.get(one, one.label if isinstance(one, Labelled) else str(one))
            for one in self.choices
        }

    @property
    def reads(self) -> Reads:
        """Return how a typed text becomes the value."""
        if self.input is not None and self.input.reads is not None:
            return self.input.reads
        stated = next((item for item in self.types if isinstance(item, Reads)), None)
        if stated or self.choices:
            return stated or Reads.CHOICE
        known = {bool: Reads.YES, int: Reads.WHOLE, float: Reads.COUNT}
        return next((kind for one, kind in known.items() if one in self.types), Reads.TEXT)

    @property
    def metavar(self) -> str:
        """Return what stands for the value in the help."""
        return self.told.metavar or self.reads.metavar

    @property
    def title(self) -> str:
        """Return the label, with the unit where the text that is typed has none."""
        return f"{self.told.label} ({self.told.unit})" if self.told.unit else self.told.label

    @property
    def unit(self) -> str:
        """Return the unit of the value; a field with ``%`` is typed in percent on the page."""
        return self.told.unit or self.reads.unit

    @property
    def low(self) -> float | None:
        """Return the least value, which itself is too little if `above`."""
        return self._bound("ge") if self._bound("gt") is None else self._bound("gt")

    @property
    def high(self) -> float | None:
        """Return the largest value."""
        return self._bound("le")

    @property
    def above(self) -> bool:
        """Return whether the value must be above `low`."""
        return self._bound("gt") is not None

    def _bound(self, name: str) -> float | None:
        bounds = (getattr(item, name, None) for item in self.types)
        return next((bound for bound in bounds if bound is not None), None)


def declared(
    noun: type[Noun], path: str = "", tasks: frozenset[Task] = TASKS
) -> dict[str, Declared]:
    """Return every field of a noun and of the nouns inside it, by path.

    ``path`` is that of the noun itself, ``tasks`` those that have it; a ``kind`` of workload
    narrows them. A noun without any declared field counts as one field.
    """
    found: dict[str, Declared] = {}
    kind = noun.model_fields["kind"].default if "kind" in noun.model_fields else None
    if kind is not None:
        tasks &= {task for task in Task if task.workload["kind"] == kind}
    for name, field in noun.model_fields.items():
        here = f"{path}.{name}" if path else name
        types = tuple(annotated(field))
        told = next((item for item in types if isinstance(item, Input)), None)
        if told and told.flag == NAMED:
            told = replace(told, flag=f"--{name.replace('_', '-')}")
        having = tasks & told.tasks if told else tasks
        inside: dict[str, Declared] = {}
        for part in types:
            if isinstance(part, type) and issubclass(part, Noun):
                for key, item in declared(part, here, having).items():
                    known = inside.get(key)
                    inside[key] = replace(item, tasks=item.tasks | known.tasks) if known else item
        inputs = any(item.input for item in inside.values())
        if told or not inputs:
            found[here] = Declared(here, told, field.default, types, having)
        if inputs:
            found |= inside
    return found
