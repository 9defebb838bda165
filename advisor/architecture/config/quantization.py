"""Reads from ``quantization_config`` how a published checkpoint stores its weights."""

from collections.abc import Mapping
from typing import Final

from advisor.architecture.config.fields import ConfigFields

SIXTEEN_BIT: Final = {"float16": "fp16", "torch.float16": "fp16", "half": "fp16"}
"""Formats by ``dtype``. All others, including fp32, are served as bf16."""

_BY_METHOD: Final = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "finegrained_fp8": "fp8",
    "mxfp4": "mxfp4",
    "nvfp4": "nvfp4",
    "eetq": "int8",
}
"""Quantisation methods with a single format."""

_WHOLE_BITS: Final = frozenset(
    {"awq", "gptq", "gptq_marlin", "auto-round", "intel/auto-round", "exl2", "exl3", "hqq"}
)
"""Quantisation methods with integers that share scales; ``bits`` states their width."""

_BY_WORD: Final = (
    ("fp8", "fp8"),
    ("float8", "fp8"),
    ("int8", "int8"),
    ("fp4", "mxfp4"),
    ("int4", "w4a16"),
)
"""Formats by their names in torchao, quanto and Quark."""

_BY_ALGORITHM: Final = {
    "FP8": "fp8",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_AWQ": "w4a16",
    "INT4_AWQ": "w4a16",
    "INT8_SQ": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
}
_BY_GROUP: Final = {
    ("float", 8): "fp8",
    ("float", 4): "nvfp4",
    ("int", 8): "int8",
    ("int", 4): "w4a16",
}

NARROW_BITS: Final = 4
"""Widths that no engine serves count as 4 bits up to this width, and as 8 bits above it."""
MXFP4_GROUP: Final = 32
"""Weights per scale in MXFP4; NVFP4 has 16 (OCP Microscaling 1.0, table 1)."""

_EXPERTS: Final = {"fp4": "mxfp4"}
"""Format of routed experts by ``expert_dtype``. The other weights are then in fp8."""
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
    sixteen = SIXTEEN_BIT.get(plain, "bf16")
    block = fields.mapping("quantization_config")
    if block is None:
        return sixteen, ()
    found = _quantized(ConfigFields(block))
    experts = _EXPERTS.get(fields.text("expert_dtype", ""))
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
    """Return the format that a quantisation block describes, or None."""
    inner = ConfigFields(block.mapping("quantization") or {})
    algorithm = block.text("quant_algo", inner.text("quant_algo", "")).upper()
    if algorithm == "MIXED_PRECISION":
        algorithm = block.text("moe_quant_algo", "").upper()
    if algorithm in _BY_ALGORITHM:
        return _BY_ALGORITHM[algorithm]
    method = block.text("quant_method", "").lower()
    if method == "bitsandbytes":
        if block.flag("load_in_4bit", False):
            return "nf4"
        return "int8" if block.flag("load_in_8bit", False) else None
    if method in _BY_METHOD:
        return _BY_METHOD[method]
    if method in _WHOLE_BITS:
        return "w4a16" if _bits(block) <= NARROW_BITS else "int8"
    said = _said(block)
    return next((name for word, name in _BY_WORD if word in said), None) or _grouped(block)


def _rounded(block: ConfigFields, found: str) -> tuple[str, ...]:
    """Return a note on a width that no engine supports."""
    if block.text("quant_method", "").lower() not in _WHOLE_BITS or _bits(block) in {4, 8}:
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
    return _BY_GROUP.get((stored.text("type", "int"), stored.count("num_bits", 16, maximum=32)))
