"""What autocast costs beside the products, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.operators import Part
from advisor.architecture.table.rows import Rows
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import node_for
from advisor.estimate.candidates import Candidates
from advisor.estimate.hardware.eager_modules import cast_passes
from advisor.estimate.hardware.kernel_times import misaligned
from advisor.estimate.training.run import resolve_training
from advisor.nouns.case import ModelSource
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import RECIPES
from advisor.nouns.workload import Pretraining

CARD = load_catalog().accelerator("a100-sxm-80gb")
KERNELS = load_calibration().kernels_for(CARD)[0]
RUN = resolve_training(
    Pretraining(tokens=1e9), resolve_model(ModelSource(preset="gpt2")), RECIPES["bf16_amp"]
)
ONE = Candidates.of([ParallelLayout()], CARD, node_for(CARD, None), KERNELS, compute="bf16")


def test_weights_and_inputs_are_cast_and_their_gradients_cast_back() -> None:
    row = Rows("block", 12, Part.BLOCK).lone_linear("up", 768, 3072)
    seconds, kernels = cast_passes(row, RUN, ONE, np.array([8192.0]))

    # Weights and input, each read in four bytes and written in two; the gradients likewise.
    moved = 2 * 6 * (768 * 3072 + 8192 * 768)
    bare = moved / (CARD.memory_bandwidth_bytes_per_s * KERNELS.elementwise_bandwidth)
    launched = 2 * KERNELS.matmul["default"].overhead_s
    assert float(seconds[0]) == pytest.approx(bare + launched, rel=1e-3)
    assert kernels == 4


def test_rows_of_a_matrix_start_at_sixteen_bytes_or_not() -> None:
    # 50,304 = 64 x 786; 30,522 is even; 50,257 is odd.
    assert misaligned(768, 50304, element_bytes=2) == 0
    assert misaligned(768, 50257, element_bytes=2) == 1
    assert 0 < misaligned(768, 30522, element_bytes=2) < 1
    assert misaligned(768, 30524, element_bytes=4) == 0
