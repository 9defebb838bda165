"""T5 under PyTorch's fused attention, which takes its learned bias and keeps no scores.

Own measurement, one H200, 2026-11-27: torch 2.11, transformers 5.23, T5 base (222,903,552
parameters), 16 full sequences of 512 tokens in and 128 out, fused AdamW; peaks of PyTorch's
allocator. The class then passes one bias for the whole batch to the kernel.
"""

from __future__ import annotations

import pytest

import advisor

GIB = 2**30


def allocated_gib(precision: str, attention: str = "flash") -> float:
    """Return the peak without the driver's context and the allocator's fragmentation. [GiB]"""
    case = {
        "model": {"preset": "t5-base"},
        "workload": {
            "kind": "fine_tuning",
            "method": "full",
            "samples": 1e5,
            "sequence_length": 512,
            "decoder_sequence_length": 128,
            "global_batch": 16,
            "precision": precision,
            "attention": attention,
            "software": "huggingface",
        },
        "hardware": {"accelerator": "h200-sxm", "count": 1},
        "layout": {"data": 1, "micro_batch": 16, "recompute": "none"},
    }
    memory = advisor.estimate(case).memory
    beside = memory.context_bytes.expected + memory.fragmentation_bytes.expected
    return (memory.total_bytes.expected - beside) / GIB


@pytest.mark.parametrize(("precision", "measured"), [("bf16_amp", 9.464), ("fp32", 11.346)])
def test_the_peak_is_the_measured_one(precision: str, measured: float) -> None:
    assert allocated_gib(precision) == pytest.approx(measured, rel=0.04)


def test_eager_attention_keeps_the_scores_of_every_layer() -> None:
    # fp32 softmax, one byte of dropout's mask and the dropped result in 16 bits, in 12 layers of
    # 12 heads that read 512 x 512, 128 x 128 and 128 x 512 positions, for 16 samples.
    scores = 7 * 12 * 12 * 16 * (512 * 512 + 128 * 128 + 128 * 512)
    more = allocated_gib("bf16_amp", "eager") - allocated_gib("bf16_amp")
    assert more == pytest.approx(scores / GIB, rel=0.01)
