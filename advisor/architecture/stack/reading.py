"""Reads and checks a user's own stack of layers from YAML, within bounds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple, NoReturn

from pydantic import Field, ValidationError

from advisor.architecture import stack as nn
from advisor.architecture.stack.layers import Label
from advisor.architecture.weights.tensor_table import read_start
from advisor.errors import InputError
from advisor.foundation.files.structured import NotPlainError, read_yaml
from advisor.foundation.names import Name, holds_content
from advisor.foundation.noun import Noun

MAX_STACK_BYTES: Final = 200_000
MAX_DEPTH: Final = 20
MAX_ITEMS: Final = 20_000
REMEDY: Final = "Correct the stack as docs/models-input.md shows."
FIELD: Final = "model.stack"


class Word(NamedTuple):
    """A word of the vocabulary, as users write it."""

    model: type[nn.Layer]
    fixed: Mapping[str, object] = {}
    scalar: str | None = None
    """Field that a bare value sets: ``linear: 10``."""


WORDS: Final[dict[str, Word]] = {
    "conv": Word(nn.Convolution, scalar="out"),
    "linear": Word(nn.Linear, scalar="out"),
    **{
        f"{kind}_norm": Word(nn.Normalization, {"kind": kind})
        for kind in ("batch", "layer", "group", "rms", "frozen")
    },
    **{
        name: Word(nn.Activation, {"function": name})
        for name in (
            *("relu", "relu6", "gelu", "silu", "quick_gelu", "hardswish", "hardsigmoid"),
            *("sigmoid", "tanh"),
        )
    },
    "gated": Word(nn.GatedProduct, scalar="function"),
    "max_pool": Word(nn.Pool, {"kind": "max"}, scalar="kernel"),
    "average_pool": Word(nn.Pool, {"kind": "average"}, scalar="kernel"),
    "global_pool": Word(nn.Pool, {"kind": "average", "kernel": None}, scalar="out"),
    "flatten": Word(nn.Flatten),
    "dropout": Word(nn.Dropout),
    "scale": Word(nn.Scale),
    "embedding": Word(nn.Embedding),
    "class_token": Word(nn.ExtraTokens),
    "learned": Word(nn.Learned, scalar="elements"),
    "attention": Word(nn.Attention, scalar="heads"),
    "lstm": Word(nn.Recurrent, {"cell": "lstm"}, scalar="hidden"),
    "gru": Word(nn.Recurrent, {"cell": "gru"}, scalar="hidden"),
    "squeeze_excite": Word(nn.SqueezeExcite, scalar="hidden"),
    "upsample": Word(nn.Upsample, scalar="factor"),
    "merge": Word(nn.Merge, scalar="factor"),
    "regions": Word(nn.Regions, scalar="count"),
    "focal_loss": Word(nn.FocalLoss),
    "matching": Word(nn.Matching, scalar="host_s"),
    "save": Word(nn.Save, scalar="name"),
    "take": Word(nn.Take, scalar="name"),
    "concatenate": Word(nn.Concatenate, scalar="name"),
    "residual": Word(nn.Residual, scalar="body"),
    "repeat": Word(nn.Repeat),
    "section": Word(nn.Section),
}
"""The words that a stack may contain."""


class WrittenInput(Noun):
    """The input of a stack: an image, a vector of features, or tokens."""

    image: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Side of the image if the workload does not state it. [pixels]"""
    channels: Annotated[int, Field(ge=1, le=4096)] = 3
    features: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    tokens: bool = False


class WrittenStack(Noun):
    """The fields that a user writes, without the layers."""

    name: Annotated[Name, Field(min_length=1, max_length=96)] = "custom stack"
    input: WrittenInput
    others: dict[Label, nn.StackInput] = Field(default_factory=dict)
    layers: tuple[nn.Layer, ...] = Field(min_length=1)


def read_stack(given: str | Mapping[str, object]) -> tuple[str, nn.Stack]:
    """Return the name and the stack of a mapping, a YAML text, or the path of a YAML file."""
    if isinstance(given, Mapping):
        return stack_from_mapping(given)
    if holds_content(given):
        return stack_from_text(given)
    try:
        text = read_start(Path(given).expanduser(), MAX_STACK_BYTES + 1).decode("utf-8")
    except InputError:
        raise
    except (ValueError, RuntimeError) as error:
        what = f"the stack's file cannot be read ({error.__class__.__name__})"
        _refuse(what, given, "a YAML file in UTF-8")
    return stack_from_text(text)


def stack_from_text(text: str) -> tuple[str, nn.Stack]:
    """Return the name of a stack and the stack.

    Raises InputError if the text is too large, not YAML, or not a stack.

    ``text``: YAML or JSON; at most 200 kB.
    """
    if len(text) > MAX_STACK_BYTES:
        _refuse("the stack is too large", f"{len(text):,} bytes", f"{MAX_STACK_BYTES:,} bytes")
    try:
        content = read_yaml(text)
    except NotPlainError as error:
        raise error.as_input_error(
            "the stack",
            form="YAML or JSON",
            value=f"{len(text):,} bytes",
            allowed="name, input and layers",
            field=FIELD,
        ) from None
    if not isinstance(content, Mapping):
        _refuse("the stack is not a mapping", type(content).__name__, "name, input and layers")
    return stack_from_mapping(content)


def stack_from_mapping(content: Mapping[str, object]) -> tuple[str, nn.Stack]:
    """Check a stack of layers, as :func:`stack_from_text` reads it.

    Raises InputError if the mapping is not a stack.
    """
    counter = [0]
    layers = _layers(content.get("layers"), "layers", 1, counter)
    try:
        written = WrittenStack.model_validate({**content, "layers": layers})
    except ValidationError as error:
        _invalid(error, "")
    source = written.input
    given = (source.image is not None) + (source.features is not None) + source.tokens
    if given != 1:
        _refuse("the stack needs one kind of input", given, "image, features or tokens: true")
    unit = nn.Unit.TOKEN if source.tokens else nn.Unit.IMAGE if source.image else nn.Unit.SAMPLE
    width = source.channels if source.image else source.features or 1
    body, last = written.layers[:-1], written.layers[-1]
    if isinstance(last, nn.Linear):
        head: nn.Layer = nn.Section(name="head", part=nn.Part.HEAD, layers=(last,))
        outputs = last.out
    else:
        head, outputs = last, 1
    return written.name, nn.Stack(
        unit=unit,
        input=nn.StackInput(width=width, image=source.image),
        others=written.others,
        layers=(*body, head),
        outputs=outputs,
    )


def _layers(raw: object, where: str, depth: int, counter: list[int]) -> nn.Layers:
    """Parse a list of layers; errors name the place, e.g. ``layers[3].residual.body[0]``."""
    if depth > MAX_DEPTH:
        _refuse("layers are nested too deeply", depth, f"{MAX_DEPTH} levels", where)
    if not isinstance(raw, list | tuple) or not raw:
        _refuse("a list of layers is missing or empty", raw, "a list of layers", where)
    counter[0] += len(raw)
    if counter[0] > MAX_ITEMS:
        _refuse("the stack has too many layers", counter[0], f"{MAX_ITEMS:,}", where)
    return tuple(
        _layer(item, f"{where}[{index}]", depth, counter) for index, item in enumerate(raw)
    )


def _layer(raw: object, where: str, depth: int, counter: list[int]) -> nn.Layer:
    key: object
    value: object
    if isinstance(raw, str):
        key, value = raw, None
    elif isinstance(raw, Mapping) and len(raw) == 1:
        key, value = next(iter(raw.items()))
    else:
        _refuse("a layer needs exactly one word", raw, "e.g. relu, or conv: {out: 64}", where)
    word = WORDS.get(key) if isinstance(key, str) else None
    if word is None:
        _refuse("an unknown layer", key, ", ".join(WORDS), where)
    if value is None:
        fields: dict[str, object] = {}
    elif isinstance(value, Mapping):
        fields = {str(name): item for name, item in value.items()}
    elif word.scalar is not None:
        fields = {word.scalar: value}
    else:
        _refuse(f"{key} needs named fields, not a single value", value, "named fields", where)
    for name in word.model.inner:
        if name in fields:
            fields[name] = _layers(fields[name], f"{where}.{key}.{name}", depth + 1, counter)
    try:
        return word.model.model_validate({**fields, **word.fixed})
    except ValidationError as error:
        _invalid(error, f"{where}.{key}")


def _invalid(error: ValidationError, where: str) -> NoReturn:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in (where, *first["loc"]) if part != "")
    own = first.get("ctx", {}).get("error")
    if isinstance(own, InputError):
        own.field = f"{FIELD}.{place[:160]}"
        raise own from None
    _refuse(f"{place[:160]} is not usable", first["input"], first["msg"][:160], place[:160])


def _refuse(what: str, value: object, allowed: str, where: str = "") -> NoReturn:
    field = f"{FIELD}.{where}" if where else FIELD
    raise InputError(what, value=value, allowed=allowed, remedy=REMEDY, field=field) from None
