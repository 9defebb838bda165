"""Attention that no fused kernel of PyTorch takes."""

from __future__ import annotations

import pytest

import advisor
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration


def attention_s(model: str, **work: object) -> float:
    """Return the time of attention in a step of four sequences of 2,048 tokens, in fp32."""
    case = {
        "model": {"preset": model},
        "workload": {
            "kind": "fine_tuning",
            "method": "full",
            "tokens": 1e6,
            "sequence_length": 2048,
            "global_batch": 4,
            "precision": "fp32",
            **work,
        },
        "hardware": {"accelerator": "a100-sxm-80gb", "count": 1},
        "layout": {"data": 1, "micro_batch": 1},
    }
    found = advisor.estimate(case).time
    assert found is not None
    return next(term.value for term in found.terms if term.name == "attention")


def test_the_math_kernel_passes_over_the_scores_more_often_and_repeats_keys_and_values() -> None:
    # 27 passes forward and backward instead of 17 over 32 x 2,048^2 scores in fp32; keys and
    # values, each 32 heads of 64, written and read three times; 16 layers, four sequences.
    moved = 4 * (10 * 134_217_728 + 3 * 4 * 2048 * 2048) * 16 * 4
    card = load_catalog().accelerator("a100-sxm-80gb")
    share = load_calibration().kernels_for(card)[0].elementwise_bandwidth
    longer = attention_s("llama-3.2-1b") - attention_s("llama-3.2-1b", attention="eager")

    assert longer == pytest.approx(moved / (card.memory_bandwidth_bytes_per_s * share))


@pytest.mark.parametrize(
    ("model", "work"),
    [
        ("gpt2-large", {"sequence_length": 1024}),  # as many heads of keys as of queries
        ("llama-3.2-1b", {"software": "compiled"}),
        ("llama-3.2-1b", {"precision": "bf16_amp"}),
    ],
)
def test_fused_attention_is_faster_than_the_score_matrix_where_there_is_a_kernel(
    model: str, work: dict[str, object]
) -> None:
    assert attention_s(model, **work) < attention_s(model, attention="eager", **work)
