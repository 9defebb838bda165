"""Attention over packed documents: each is a sequence of its own (FlashAttention, ``varlen``)."""

from __future__ import annotations

import pytest

from advisor import Estimate, estimate


def tuned(sequence: int, micro_batch: int, **workload: object) -> Estimate:
    return estimate(
        {
            "model": {"preset": "qwen2.5-7b"},
            "workload": {
                "kind": "fine_tuning",
                "method": "full",
                "tokens": 1e8,
                "sequence_length": sequence,
                "global_batch": 8 * micro_batch,
                "optimizer": "adamw",
                **workload,
            },
            "hardware": {"accelerator": "h200-sxm", "count": 8},
            "layout": {"sharding": "zero3", "recompute": "full", "micro_batch": micro_batch},
        }
    )


def test_documents_in_one_sequence_cost_what_sequences_of_their_length_cost() -> None:
    packed, apart = tuned(32_768, 1, document_length=4096), tuned(4096, 8)
    assert packed.time is not None
    assert apart.time is not None
    assert packed.time.step_s.expected == pytest.approx(apart.time.step_s.expected, rel=1e-3)
    # 28 layers of 3,584: of 12 s h L operations a token, those of 2,048 keys remain of 16,384.
    whole = tuned(32_768, 1)
    spared = 12 * 28 * 3584 * (16_384 - 2_048) * 8 * 32_768
    assert whole.flops.model_per_step - packed.flops.model_per_step == pytest.approx(spared)


def test_a_document_fills_at_most_its_sequence() -> None:
    whole, longer = tuned(4096, 1), tuned(4096, 1, document_length=1_000_000)
    assert whole.time is not None
    assert longer.time is not None
    assert whole.time.step_s == longer.time.step_s
