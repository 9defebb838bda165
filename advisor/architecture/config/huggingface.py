"""Builds the operator table from a Hugging Face ``config.json``, or from its text tower."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from pydantic import ValidationError

from advisor.architecture.config.class_defaults import (
    BUILT_WHOLE,
    class_defaults,
    default_towers,
    text_tower_defaults,
)
from advisor.architecture.config.fields import REMEDY, ConfigFields, field_facts
from advisor.architecture.config.quantization import weight_format
from advisor.architecture.families import registry
from advisor.architecture.mixers.transformer import Tower, TransformerShape
from advisor.architecture.table.model import ModelArchitecture, Network, SampleSize
from advisor.architecture.table.operators import OperatorKind, Part
from advisor.errors import UnsupportedArchitectureError
from advisor.foundation.names import display_name, visible
from advisor.foundation.quantities import Evidence

TEXT_CONFIGS: Final = ("text_config", "llm_config", "language_config")
"""Fields that hold the text tower's configuration in multimodal ones."""

_THINKER_ONLY: Final = (
    "only the thinker's text tower is counted; talker and other towers are left out"
)
_TEXT_ONLY: Final = "the parameters are those of the text tower alone"


def text_tower(
    config: Mapping[str, object],
) -> tuple[Mapping[str, object], tuple[str, ...], tuple[Tower, ...]]:
    """Find the text configuration of a multimodal one.

    The nested one with its class's defaults, or ``config`` itself; notes on parts that are left out
    or assumed; and the towers that the class builds by default, which count although the file does
    not describe them. Raises InputError if a nested configuration is not an object.
    """
    outer = ConfigFields(config)
    kind = outer.text("model_type", "").lower()
    thinker = outer.mapping("thinker_config")
    if thinker is not None:
        alone = {name: value for name, value in thinker.items() if name != "thinker_config"}
        text, _, towers = text_tower(alone)
        return text, (_THINKER_ONLY,), towers
    nested = next((outer.mapping(name) for name in TEXT_CONFIGS if outer.has(name)), None)
    if kind in BUILT_WHOLE:
        return config, (), ()
    if nested is None and default_towers(kind):
        return _built_by_default(config, kind)
    if nested is None:
        seen = any(outer.has(key) for key in ("vision_config", "audio_config"))
        return config, (_TEXT_ONLY,) if seen else (), ()
    text = {**text_tower_defaults(kind), **nested}
    # The class that holds the towers decides whether the head is tied.
    if outer.has("tie_word_embeddings"):
        text["tie_word_embeddings"] = outer.flag("tie_word_embeddings", False)
    return text, (_TEXT_ONLY,), ()


def _built_by_default(
    config: Mapping[str, object], kind: str
) -> tuple[Mapping[str, object], tuple[str, ...], tuple[Tower, ...]]:
    """Return what a class builds by default if the file has no nested configurations."""
    inner = text_tower_defaults(kind)
    defaults = class_defaults(str(inner["model_type"]), sizes=True)
    ignored = [
        f"{name} {defaults[name]} (the file says {visible(str(config[name])[:40])})"
        for name in defaults
        if config.get(name, defaults[name]) != defaults[name]
    ]
    towers = tuple(Tower(name=name, parameters=n) for name, n in default_towers(kind).items())
    notes = [
        "the file has no text_config and no vision_config, so the class's defaults are counted: "
        + ", ".join(f"{tower.name} {tower.parameters:,}" for tower in towers)
    ]
    if ignored:
        notes.append(
            f"the class reads sizes inside text_config only, hence its default {', '.join(ignored)}"
            "; the published checkpoint may hold what the file says"
        )
    return {**config, **inner, **defaults}, tuple(notes), towers


def architecture_from_config(
    config: Mapping[str, object],
    *,
    name: str | None = None,
    hub_id: str | None = None,
    source: str = "config",
    sample: SampleSize | None = None,
    pruning: float = 0.0,
) -> ModelArchitecture:
    """Return the architecture of a Hugging Face configuration.

    Exact for supported families. An unknown ``model_type`` with complete Llama-like fields has
    ``evidence`` ``assumed``.

    ``config``: parsed ``config.json``. Only the text tower of a multimodal model is built.
    ``name``: name for display. Default: the configuration's own name, or its family. ``hub_id``:
    repository that published the model. ``source``: ``preset``, ``config`` or ``weights``.
    ``sample``: size of one input, for networks whose table depends on it. ``pruning``: share of
    heads and inner widths to leave out.

    Raises UnsupportedArchitectureError if the family is not supported, or unknown and not
    Llama-like. Raises InputError if a field is missing or unusable.
    """
    outer = ConfigFields(config).text("model_type", "").lower()
    if outer in registry.refused_types():
        raise _unsupported(outer)
    text, notes, towers = text_tower(config)
    kind = registry.named_type(ConfigFields(text))
    known = registry.family_of(kind) if kind in registry.supported_types() else None
    sizes = text is not config or (known is not None and known.sized_by_class)
    names = known.names if known else {}
    fields = ConfigFields(text, class_defaults(kind, sizes=sizes), names)
    family, guessed = _family(kind, fields)
    shape = _shape(family, fields, towers)
    defaulted = _defaulted(text, fields) if text is not config else ()
    trimmed: tuple[str, ...] = ()
    if pruning:
        from advisor.architecture.pruning import pruned

        shape, note = pruned(shape, pruning)
        trimmed = (note,)
    published = text if "quantization_config" in text else config
    stored, rounded = weight_format(published)
    path = fields.text("_name_or_path", "").strip().rstrip("/")
    shown = name or path.rpartition("/")[2] or kind or "pasted config"
    positions = fields.optional_count("max_position_embeddings")
    facts: dict[str, Any] = {
        "name": display_name(shown, field="the model's name"),
        "family": family.title,
        "hub_id": hub_id,
        "source": source,
        "evidence": Evidence.ASSUMED if guessed else Evidence.DERIVED,
        "max_position_embeddings": positions and max(positions - family.reserved_positions, 1),
        "weight_format": stored,
        "prediction_layers": _prediction_layers(fields),
    }
    notes = (*notes, *defaulted, *guessed, *trimmed, *_left_out(fields), *rounded)
    model = shape.architecture(sample=sample, assumptions=notes, **facts)
    if isinstance(shape, TransformerShape) and _is_headless(fields, kind):
        model = _without_head(model)
    if not ConfigFields(published).has("quantization_config"):
        return model
    from advisor.architecture.weights.stored_weights import with_stored_bytes

    return model.changed(operators=with_stored_bytes(model.operators, published))


def _is_headless(fields: ConfigFields, kind: str) -> bool:
    """Whether the class is the bare network, which gives vectors: embedding models load it.

    Code beside the weights may give such a class a head (ChatGLM's ``auto_map``).
    """
    bare = f"{kind.replace('_', '')}model"
    named = {name.lower() for name in fields.names("architectures")}
    return named == {bare} and "AutoModelForCausalLM" not in (fields.mapping("auto_map") or {})


def _without_head(model: ModelArchitecture) -> ModelArchitecture:
    """Return a decoder that reads texts and writes none: no logits, and no keys that stay."""
    ends = {OperatorKind.MATMUL, OperatorKind.CROSS_ENTROPY}
    kept = (op for op in model.operators if op.part is not Part.HEAD or op.kind not in ends)
    still = {"cache_elements_per_token": 0.0, "state_elements_per_sequence": 0.0}
    return model.changed(operators=tuple(op.changed(**still) for op in kept))


def _shape(family: registry.Family, fields: ConfigFields, towers: tuple[Tower, ...]) -> Network:
    """Return what the family's reader makes of the fields, with the towers beside it."""
    try:
        shape = family.read(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = "the config has a layer that is out of bounds"
        fields.fail(what, where, first["input"], first["msg"])
    if isinstance(shape, TransformerShape):
        return shape.changed(towers=towers)
    return shape


def _defaulted(text: Mapping[str, object], fields: ConfigFields) -> tuple[str, ...]:
    """Return a note on the sizes that a nested configuration leaves to its class."""
    absent = [
        f"{name} {fields.count(name):,}"
        for name in ConfigFields(text).missing(field_facts().llama)
        if fields.has(name)
    ]
    return (f"defaults of its class, absent in the config: {', '.join(absent)}",) if absent else ()


def _left_out(fields: ConfigFields) -> tuple[str, ...]:
    """Return notes on the parts of the published checkpoint that are not counted."""
    predicted = _prediction_layers(fields)
    note = f"without the checkpoint's layers for multi-token prediction: {predicted}"
    return (note,) if predicted else ()


def _prediction_layers(fields: ConfigFields) -> int:
    """Return the layers for multi-token prediction, which families name differently."""
    names = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers")
    return next(filter(None, (fields.count(name, 0, minimum=0) for name in names)), 0)


def _family(kind: str, fields: ConfigFields) -> tuple[registry.Family, tuple[str, ...]]:
    """Return the reader of a ``model_type``, and the assumptions for an unknown one."""
    if kind in registry.supported_types():
        unchecked = [name for name in field_facts().unchecked if fields.has(name)]
        note = f"{' and '.join(unchecked)}: interpreted by name, without a published class"
        return registry.family_of(kind), (note,) if unchecked else ()
    if kind in registry.refused_types():
        raise _unsupported(kind)
    missing = fields.missing(field_facts().llama)
    if missing:
        raise UnsupportedArchitectureError(
            f"model_type is unknown and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing",
            value=kind,
            allowed=f"{_supported()}, or complete Llama-like fields",
            remedy=_suggestion(kind) + REMEDY,
            field="model.config.model_type",
        )
    foreign = [name for name in field_facts().foreign if fields.has(name)]
    if foreign or fields.flag("is_encoder_decoder", False):
        raise UnsupportedArchitectureError(
            f"model_type is unknown and {(foreign or ['is_encoder_decoder'])[0]} says that it is "
            "not Llama-like",
            value=kind,
            allowed=_supported(),
            remedy=_suggestion(kind) + "Give the model's parameter count instead.",
            field="model.config.model_type",
        )
    shown = kind[:40] or "none"
    return registry.family_of("llama").changed(title=shown), (
        f"model_type {shown!r} is unknown; computed as a Llama-like model from its fields",
    )


def _unsupported(kind: str) -> UnsupportedArchitectureError:
    return UnsupportedArchitectureError(
        f"this model_type is not supported yet: {registry.refused_types()[kind]}",
        value=kind,
        allowed=_supported(),
        remedy="Give the model's parameter count instead, e.g. model: {parameters: 7e9}.",
        field="model.config.model_type",
    )


def _supported() -> str:
    known = len(registry.supported_types())
    return f"one of {known} model types, which `python -m advisor.architecture` lists"


def _suggestion(kind: str) -> str:
    near = get_close_matches(kind, registry.supported_types(), n=1)
    return f"Did you mean {near[0]}? " if near else ""
