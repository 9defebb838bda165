"""Bytes of each row in a quantised file, with groups, zero-points and unquantised modules."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Final

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.config.quantization import quantization_facts
from advisor.architecture.table.operators import Division, Operator, OperatorKind
from advisor.architecture.weights.module_names import HEAD, LINEAR, Coverage, coverage
from advisor.foundation.record import record

SIXTEEN_BITS: Final = 16.0
SCALE_BITS: Final = 16.0
"""Bits of a scale: fp16 or bf16 (AutoAWQ, GPTQModel, compressed-tensors)."""
WIDE_SCALE_BITS: Final = 32.0
"""Bits of an fp32 scale: blocks of fp8 weights, bitsandbytes without double quantisation."""
INDEX_BITS: Final = 32.0
"""Bits of an index: GPTQ files always store the group of each input as an int32."""
NF4_BLOCK: Final = 64
NF4_NESTED: Final = 256
"""Weights per constant, and constants per fp32 number (arXiv:2305.14314, section 3)."""
HQQ_GROUP: Final = 64
DEFAULT_GROUP: Final = 128
"""Group size of AWQ, GPTQ and AutoRound if the file does not state it."""

_FP8: Final = frozenset({"fp8", "finegrained_fp8"})


@record
class StoredFormat:
    """Storage format of a quantised matrix."""

    bits: float
    group: int = 0
    """Inputs, or weights of a block, that share the scale; 0 means the matrix, -1 an input row."""
    shared_bits: float = 0.0
    """Scale and zero-point of a group. [bits]"""
    index_bits: float = 0.0
    """Size of the group index of each input. [bits]"""

    def bits_of(self, row: Operator) -> float:
        """Return the mean bits per weight of ``row``, including its last incomplete group."""
        if not (row.in_features and row.out_features):
            return self.bits
        bits = self.bits + self.index_bits / row.out_features
        if self.group == -1 or self.group > row.in_features:
            return bits + self.shared_bits / row.in_features
        if self.group and row.in_features % self.group:
            return bits + self.shared_bits * ceil(row.in_features / self.group) / row.in_features
        return bits + (self.shared_bits / self.group if self.group else 0.0)


@record
class StoredPart:
    """A format and the modules that use it."""

    format: StoredFormat
    modules: tuple[str, ...]


def with_stored_bytes(
    operators: Sequence[Operator], config: Mapping[str, object]
) -> tuple[Operator, ...]:
    """Return the rows with the bytes per parameter of a published quantised file.

    The rows, unchanged if the block states no sizes that this module knows. Raises InputError if a
    field of the block has the wrong type.

    ``config``: configuration with the file's ``quantization_config``.
    """
    fields = ConfigFields(config)
    block = ConfigFields(fields.mapping("quantization_config") or {})
    parts = _parts(block)
    if not parts:
        return tuple(operators)
    found = [(part.format, coverage(part.modules, operators)) for part in parts]
    # Modules that NVIDIA leaves out of a file that was fp8 stay in fp8.
    base = _single(block.text("quant_method", "").lower(), block) if _requantized(block) else None
    left = coverage(() if base else _skipped(block), operators)
    if base is not None:
        found.append((base, coverage((LINEAR,), operators)))
    experts = fields.text("expert_dtype", "")
    # NVIDIA's files keep the field of the model that they were made from.
    apart = experts == "fp4" and not block.mapping("config_groups")
    routed = StoredFormat(4.0, 32, 8.0) if apart else None
    return tuple(_stored(row, found, left, routed) for row in operators)


def _stored(
    row: Operator,
    found: Iterable[tuple[StoredFormat, Coverage]],
    left: Coverage,
    routed: StoredFormat | None,
) -> Operator:
    if row.kind is not OperatorKind.MATMUL or not row.parameters:
        return row
    if routed is not None and row.division is Division.EXPERT:
        return row.changed(stored_bytes=routed.bits_of(row) / 8)
    bits, rest = 0.0, 1.0
    for stored, covered in found:
        share = min(covered.share(row), rest)
        bits, rest = bits + share * stored.bits_of(row), rest - share
    wide = left.share(row)
    mean = (1 - wide) * (bits + rest * SIXTEEN_BITS) + wide * SIXTEEN_BITS
    return row.changed(stored_bytes=mean / 8)


def _requantized(block: ConfigFields) -> bool:
    """Return whether some layers of an fp8 file have a narrower format, listed in the block."""
    method = block.text("quant_method", "").lower()
    return method in _FP8 and block.mapping("quantized_layers") is not None


def _skipped(block: ConfigFields) -> tuple[str, ...]:
    """Return the modules that stay at 16 bits; GPTQModel marks them with ``-:``."""
    listed = [name for field in quantization_facts().skipped for name in block.names(field)]
    dynamic = block.mapping("dynamic") or {}
    return (*listed, *(name[2:] for name in dynamic if name.startswith("-:")))


def _parts(block: ConfigFields) -> tuple[StoredPart, ...]:
    """Return the formats of a block and their modules; empty if the block does not state them."""
    method = block.text("quant_method", "").lower()
    if block.mapping("config_groups") and not _requantized(block):
        return _compressed(block)
    if block.mapping("quantized_layers"):
        return _listed(block)
    stored = _single(method, block)
    if stored is None:
        return ()
    modules = block.names("modules_in_block_to_quantize") or (LINEAR,)
    return (StoredPart(stored, (*modules, *((HEAD,) if block.flag("lm_head", False) else ()))),)


def _single(method: str, block: ConfigFields) -> StoredFormat | None:
    """Return the single format of a method without groups of modules."""
    if method in quantization_facts().grouped:
        bits = block.number("bits", 4, minimum=1, maximum=32)
        zero = 0.0 if method == "awq" and not block.flag("zero_point", True) else bits
        return StoredFormat(
            bits=bits,
            group=_group(block, DEFAULT_GROUP),
            shared_bits=SCALE_BITS + zero,
            index_bits=INDEX_BITS if method.startswith("gptq") else 0.0,
        )
    if method == "hqq":
        nested = ConfigFields(block.mapping("quant_config") or {})
        weights = ConfigFields(nested.mapping("weight_quant_params") or {})
        bits = weights.number("nbits", 4, minimum=1, maximum=32)
        return StoredFormat(bits, _group(weights, HQQ_GROUP), 2 * SCALE_BITS)
    if method in {"exl2", "exl3"}:
        return StoredFormat(block.number("bits", 4, minimum=1, maximum=32))
    if method == "bitsandbytes" and block.flag("load_in_4bit", False):
        double = block.flag("bnb_4bit_use_double_quant", False)
        constant = 8 + WIDE_SCALE_BITS / NF4_NESTED if double else WIDE_SCALE_BITS
        return StoredFormat(4, NF4_BLOCK, constant)
    if method in _FP8:
        block_size = block.counts("weight_block_size", maximum=65_536)
        if len(block_size) == 2 and all(block_size):
            return StoredFormat(8 + WIDE_SCALE_BITS / (block_size[0] * block_size[1]))
        return StoredFormat(8)
    if method == "mxfp4" and _skipped(block):
        return StoredFormat(4, 32, 8)
    algorithm = block.text("quant_algo", "").upper()
    stored = quantization_facts().stored.get(algorithm)
    return StoredFormat(*stored) if stored else None


def _group(block: ConfigFields, default: int) -> int:
    """Return the inputs per group; -1 means a whole row."""
    size = int(block.number("group_size", default, minimum=-1, maximum=1e6))
    return size or -1


def _compressed(block: ConfigFields) -> tuple[StoredPart, ...]:
    """Return the groups of compressed-tensors and NVIDIA's files; listed modules come first."""
    parts = []
    for group in (block.mapping("config_groups") or {}).values():
        if not isinstance(group, Mapping):
            continue
        weights = ConfigFields(group).mapping("weights")
        if weights is None:
            continue
        targets = ConfigFields(group).names("targets") or (LINEAR,)
        if LINEAR in targets:
            targets = (*targets, HEAD)
        parts.append(StoredPart(_of_weights(ConfigFields(weights)), targets))
    return tuple(sorted(parts, key=lambda part: LINEAR in part.modules))


def _of_weights(weights: ConfigFields) -> StoredFormat:
    bits = weights.number("num_bits", 16, minimum=1, maximum=32)
    size = int(weights.number("group_size", 0, minimum=-1, maximum=1e6))
    if weights.text("type", "int") == "float" and bits < 16:
        # Scales of 4-bit and microscaled weights have 8 bits.
        return StoredFormat(bits, size, 8.0 if size > 0 else 0.0)
    zero = 0.0 if weights.flag("symmetric", True) else bits
    ordered = weights.is_text("actorder") and weights.text("actorder", "") == "group"
    index = INDEX_BITS if ordered and size > 0 else 0.0
    grouped = size if size > 0 else -1
    return StoredFormat(bits, grouped, SCALE_BITS + zero, index)


def _listed(block: ConfigFields) -> tuple[StoredPart, ...]:
    """Return the formats that NVIDIA's files list for each layer."""
    modules: dict[str, list[str]] = {}
    for name, stated in (block.mapping("quantized_layers") or {}).items():
        if isinstance(stated, Mapping):
            algorithm = ConfigFields(stated).text("quant_algo", "").upper()
            modules.setdefault(algorithm, []).append(name)
    stored = quantization_facts().stored
    return tuple(
        StoredPart(StoredFormat(*stored[algorithm]), tuple(names))
        for algorithm, names in modules.items()
        if algorithm in stored
    )
