"""Block layouts of ggml's tensor types: exact bytes of every quantisation.

A quantised tensor is stored in blocks along its first dimension: a few scales, then the values.
The sizes come from ``GGML_QUANT_SIZES`` in ``gguf-py/gguf/constants.py`` of llama.cpp (MIT), which
restates the structures of ``ggml/src/ggml-common.h``; read on 2026-11-21.
"""

from typing import Final, NamedTuple

QK: Final = 256
"""Values in a super-block of the K-quants and most IQ types."""


class GgmlType(NamedTuple):
    """Storage layout of one tensor type."""

    name: str
    block: int
    """Values in a block."""
    block_bytes: int
    """Size of a block, including scales. [bytes]"""

    @property
    def bytes_per_value(self) -> float:
        """Bytes of one value, including its share of the scales."""
        return self.block_bytes / self.block


GGML_TYPES: Final[dict[int, GgmlType]] = {
    0: GgmlType("f32", 1, 4),
    1: GgmlType("f16", 1, 2),
    2: GgmlType("q4_0", 32, 2 + 16),
    3: GgmlType("q4_1", 32, 2 + 2 + 16),
    6: GgmlType("q5_0", 32, 2 + 4 + 16),
    7: GgmlType("q5_1", 32, 2 + 2 + 4 + 16),
    8: GgmlType("q8_0", 32, 2 + 32),
    9: GgmlType("q8_1", 32, 4 + 4 + 32),
    10: GgmlType("q2_k", QK, 2 + 2 + QK // 16 + QK // 4),
    11: GgmlType("q3_k", QK, 2 + QK // 4 + QK // 8 + 12),
    12: GgmlType("q4_k", QK, 2 + 2 + QK // 2 + 12),
    13: GgmlType("q5_k", QK, 2 + 2 + QK // 2 + QK // 8 + 12),
    14: GgmlType("q6_k", QK, 2 + QK // 2 + QK // 4 + QK // 16),
    15: GgmlType("q8_k", QK, 4 + QK + QK // 8),
    16: GgmlType("iq2_xxs", QK, 2 + QK // 4),
    17: GgmlType("iq2_xs", QK, 2 + QK // 4 + QK // 32),
    18: GgmlType("iq3_xxs", QK, 2 + QK // 4 + QK // 8),
    19: GgmlType("iq1_s", QK, 2 + QK // 8 + QK // 16),
    20: GgmlType("iq4_nl", 32, 2 + 16),
    21: GgmlType("iq3_s", QK, 2 + QK // 4 + QK // 8 + QK // 32 + 4),
    22: GgmlType("iq2_s", QK, 2 + QK // 4 + QK // 16),
    23: GgmlType("iq4_xs", QK, 2 + 2 + QK // 2 + QK // 64),
    24: GgmlType("i8", 1, 1),
    25: GgmlType("i16", 1, 2),
    26: GgmlType("i32", 1, 4),
    27: GgmlType("i64", 1, 8),
    28: GgmlType("f64", 1, 8),
    29: GgmlType("iq1_m", QK, QK // 8 + QK // 16 + QK // 32),
    30: GgmlType("bf16", 1, 2),
    34: GgmlType("tq1_0", QK, 2 + 4 * 13),
    35: GgmlType("tq2_0", QK, 2 + 64),
    39: GgmlType("mxfp4", 32, 1 + 16),
    40: GgmlType("nvfp4", 64, 4 + 32),
    41: GgmlType("q1_0", 128, 2 + 16),
    42: GgmlType("q2_0", 64, 2 + 16),
}
"""Tensor types by their number in a file. Numbers 4, 5, 31 to 33 and 36 to 38 were removed."""

BY_NAME: Final[dict[str, GgmlType]] = {item.name: item for item in GGML_TYPES.values()}
"""The same types by name."""
