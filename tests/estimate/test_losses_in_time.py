"""Time of losses over a vocabulary, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.architecture.presets import load_preset
from advisor.architecture.table.operators import OperatorKind
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import node_for
from advisor.estimate.candidates import Candidates
from advisor.estimate.hardware.kernel_times import elementwise_forward
from advisor.estimate.training.run import resolve_training
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import recipe_named
from advisor.nouns.workload import Pretraining

CARD = load_catalog().accelerator("a100-sxm-80gb")
CALIBRATION = load_calibration()
KERNELS = CALIBRATION.kernels_for(CARD)[0]


@pytest.mark.parametrize(
    ("model", "precision", "each"),
    [
        # 16-bit logits go to fp32 (read 2, write 4), where log-softmax reads 4 thrice and writes 4.
        # Backward, zeros are written (4), gradient and result read twice (16), 4 written, 4 cast to
        # 2: 52 bytes in what the table counts as three passes.
        ("bert-base-uncased", "bf16_amp", 52 / 3),
        ("llama-3.2-1b", "bf16_pure", 52 / 3),
        # BERT's class does not cast: log-softmax reads and writes the logits in their own format.
        ("bert-base-uncased", "bf16_pure", 4),
        ("bert-base-uncased", "fp32", 8),
    ],
)
def test_a_loss_moves_each_logit_in_the_format_that_it_runs_in(
    model: str, precision: str, each: float
) -> None:
    architecture, recipe = load_preset(model), recipe_named(precision)
    workload = Pretraining(tokens=1e6, sequence_length=512, global_batch=8, precision=precision)
    run = resolve_training(workload, architecture, recipe)
    place = Candidates.of(
        [ParallelLayout()], CARD, node_for(CARD, None), KERNELS, compute=recipe.compute
    )
    (row,) = (op for op in architecture.operators if op.kind is OperatorKind.CROSS_ENTROPY)
    plain, tokens = CALIBRATION.software["plain"], np.array([4096.0])
    found = elementwise_forward(row, run, place, plain, tokens)

    moved = each * 4096 * architecture.vocab_size
    bare = moved / (CARD.memory_bandwidth_bytes_per_s * KERNELS.elementwise_bandwidth)
    assert float(np.ravel(found)[0]) == pytest.approx(bare, rel=0.02)
