"""Reads from ``quantization_config`` how a published checkpoint stores its weights."""

from collections.abc import Mapping
from typing import Final

from advisor.architecture.config.fields import ConfigFields
from advisor.foundation.noun import Noun, shipped


class QuantizationFacts(Noun):
    """Content of the file, which explains its fields."""

    about: str
    sixteen_bit: dict[str, str]
    methods: dict[str, str]
    whole_bits: frozenset[str]
    words: dict[str, str]
    algorithms: dict[str, str]
    groups: dict[str, str]
    experts: dict[str, str]
    stored: dict[str, tuple[float, int, float]]
    grouped: frozenset[str]
    skipped: tuple[str, ...]
    places: dict[str, tuple[str, ...]]
    projections: dict[str, tuple[str, ...]]
    mixers: tuple[str, ...]
    elsewhere: tuple[str, ...]
    never: frozenset[str]
    heads: frozenset[str]
    stacks: frozenset[str]


quantization_facts = shipped("quantization.json", QuantizationFacts)
"""Reads what quantised checkpoints call their formats and modules."""

NARROW_BITS: Final = 4
"""Widths that no engine serves count as 4 bits up to this width, and as 8 bits above it."""
MXFP4_GROUP: Final = 32
"""Weights per scale in MXFP4; NVFP4 has 16 (OCP Microscaling 1.0, table 1)."""

_MIXED: Final = "weights of mixed formats: computed as {found}, as the {part} are stored"
_INNER: Final = ("mlp", "ffn", "experts")
"""Parts of the names of feed-forward layers, which hold most of the weights."""


def weight_format(config: Mapping[str, object]) -> tuple[str, tuple[str, ...]]:
    """Return the storage format of the published weights, a key of ``WEIGHT_FORMATS``.

    The second value are assumptions. Raises InputError if a field of the block has the wrong type.

    ``config``: a ``config.json``, or the nested configuration of its text tower.
    """
    fields = ConfigFields(config)
    plain = fields.text("dtype", fields.text("torch_dtype", "bfloat16"))
    sixteen = quantization_facts().sixteen_bit.get(plain, "bf16")
    block = fields.mapping("quantization_config")
    if block is None:
        return sixteen, ()
    found = _quantized(ConfigFields(block))
    experts = quantization_facts().experts.get(fields.text("expert_dtype", ""))
    if experts is not None and found == "fp8":
        return experts, (_MIXED.format(part="routed experts", found=experts),)
    if found is not None:
        mixed = ConfigFields(block).text("quant_algo", "").upper() == "MIXED_PRECISION"
        part = "feed-forward layers" if fields.missing(("expert_dtype",)) else "routed experts"
        notes = (_MIXED.format(part=part, found=found),) if mixed else ()
        return found, (*notes, *_rounded(ConfigFields(block), found))
    method = ConfigFields(block).text("quant_method", "unnamed")
    note = f"quantisation {method[:40]!r} is not known; weights are counted in {sixteen}"
    return sixteen, (note,)


def _quantized(block: ConfigFields) -> str | None:
    inner = ConfigFields(block.mapping("quantization") or {})
    algorithm = block.text("quant_algo", inner.text("quant_algo", "")).upper()
    if algorithm == "MIXED_PRECISION":
        algorithm = block.text("moe_quant_algo", "").upper()
    facts = quantization_facts()
    if algorithm in facts.algorithms:
        return facts.algorithms[algorithm]
    method = block.text("quant_method", "").lower()
    if method == "bitsandbytes":
        if block.flag("load_in_4bit", False):
            return "nf4"
        return "int8" if block.flag("load_in_8bit", False) else None
    if method in facts.methods:
        return facts.methods[method]
    if method in facts.whole_bits:
        return "w4a16" if _bits(block) <= NARROW_BITS else "int8"
    said = _said(block)
    named = next((name for word, name in facts.words.items() if word in said), None)
    return named or _grouped(block)


def _rounded(block: ConfigFields, found: str) -> tuple[str, ...]:
    """Return a note on a width that no engine supports."""
    method = block.text("quant_method", "").lower()
    if method not in quantization_facts().whole_bits or _bits(block) in {4, 8}:
        return ()
    return (f"weights of {_bits(block):g} bits are computed as {found}",)


def _bits(block: ConfigFields) -> float:
    """Return the bits of a weight: 4 if the block does not state them."""
    nested = ConfigFields(block.mapping("quant_config") or {})
    parameters = ConfigFields(nested.mapping("weight_quant_params") or {})
    given = parameters.number("nbits", 4, minimum=1, maximum=32)
    return block.number("bits", given, minimum=1, maximum=32)


def _said(block: ConfigFields) -> str:
    """Return torchao's, quanto's or Quark's name of the weight format, in lower case."""
    if block.is_text("quant_type") or block.is_text("weights"):
        return block.text("quant_type", block.text("weights", "")).lower()
    default = ConfigFields(block.mapping("quant_type") or {}).mapping("default") or {}
    everywhere = ConfigFields(block.mapping("global_quant_config") or {})
    weight = ConfigFields(everywhere.mapping("weight") or {})
    return (ConfigFields(default).text("_type", "") + weight.text("dtype", "")).lower()


def _grouped(block: ConfigFields) -> str | None:
    """Return the format of the group with most weights (compressed-tensors, modelopt)."""
    groups = block.mapping("config_groups")
    if not groups:
        return None
    described = [ConfigFields(group) for group in groups.values() if isinstance(group, Mapping)]
    inner = [
        group
        for group in described
        if any(part in name for name in group.names("targets") for part in _INNER)
    ]
    if not described:
        return None
    first = (inner or described)[0]
    weights = first.mapping("weights")
    if weights is None:
        return None
    stored = ConfigFields(weights)
    # -1 means one scale for a whole row.
    shared = stored.number("group_size", 0, minimum=-1, maximum=1e6)
    if stored.text("type", "int") == "float" and shared == MXFP4_GROUP:
        return "mxfp4" if stored.count("num_bits", 16, maximum=32) == NARROW_BITS else "fp8"
    kind, bits = stored.text("type", "int"), stored.count("num_bits", 16, maximum=32)
    return quantization_facts().groups.get(f"{kind} {bits}")
