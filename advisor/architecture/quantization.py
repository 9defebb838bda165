"""How a published checkpoint stores its weights: the ``quantization_config`` block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from advisor.architecture.config_fields import ConfigFields

SIXTEEN_BIT: Final = {"float16": "fp16", "torch.float16": "fp16", "half": "fp16"}
"""Formats by ``dtype``; every other one is served as bf16, fp32 checkpoints included."""

_BY_METHOD: Final = {
    ("fp8", 8): "fp8",
    ("fbgemm_fp8", 8): "fp8",
    ("awq", 4): "w4a16",
    ("gptq", 4): "w4a16",
    ("gptq", 8): "int8",
    ("awq", 8): "int8",
    ("mxfp4", 4): "mxfp4",
    ("nvfp4", 4): "nvfp4",
}
_DEFAULT_BITS: Final = {"fp8": 8, "fbgemm_fp8": 8, "mxfp4": 4, "nvfp4": 4, "awq": 4, "gptq": 4}
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

_EXPERTS: Final = {"fp4": "mxfp4"}
"""Format of routed experts by ``expert_dtype``, beside which the other weights are in fp8."""
_MIXED: Final = "weights of mixed formats: all are counted in {found}, as the {part} are stored"
_INNER: Final = ("mlp", "ffn", "experts")
"""In the names of feed-forward layers, which hold most of the weights."""


def weight_format(config: Mapping[str, object]) -> tuple[str, tuple[str, ...]]:
    """Storage format of the published weights.

    Parameters
    ----------
    config : mapping
        A ``config.json``, or the nested configuration of its text tower.

    Returns
    -------
    str
        Key into ``advisor.precision.WEIGHT_FORMATS``.
    tuple of str
        What had to be assumed.

    Raises
    ------
    InputError
        If a field of the block is of the wrong type.
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
        return found, (_MIXED.format(part=part, found=found),) if mixed else ()
    method = ConfigFields(block).text("quant_method", "unnamed")
    note = f"quantisation {method[:40]!r} is not known; weights are counted in {sixteen}"
    return sixteen, (note,)


def _quantized(block: ConfigFields) -> str | None:
    """Return the format that a quantisation block describes, or None."""
    algorithm = block.text("quant_algo", "").upper()
    if algorithm == "MIXED_PRECISION":
        algorithm = block.text("moe_quant_algo", "").upper()
    if algorithm in _BY_ALGORITHM:
        return _BY_ALGORITHM[algorithm]
    method = block.text("quant_method", "").lower()
    if method == "bitsandbytes":
        if block.flag("load_in_4bit", False):
            return "nf4"
        return "int8" if block.flag("load_in_8bit", False) else None
    if method in _DEFAULT_BITS:
        bits = block.count("bits", _DEFAULT_BITS[method], maximum=32)
        return _BY_METHOD.get((method, bits))
    return _grouped(block)


def _grouped(block: ConfigFields) -> str | None:
    """Return the weights' format of the group of most weights (compressed-tensors, modelopt)."""
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
    return _BY_GROUP.get((stored.text("type", "int"), stored.count("num_bits", 16, maximum=32)))
