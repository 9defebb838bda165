"""fp32 is PyTorch's default, without TF32; tf32 is a precision of its own."""

import pytest

import advisor
from advisor.errors import InputError


def step_s(precision: str, accelerator: str = "h200-sxm") -> float:
    """Time of a step of GPT-2 with 16 sequences of 1,024 tokens."""
    case = {
        "model": {"preset": "gpt2"},
        "workload": {
            "kind": "pretraining",
            "tokens": 1e8,
            "sequence_length": 1024,
            "global_batch": 16,
            "precision": precision,
            "software": "huggingface",
        },
        "hardware": {"accelerator": accelerator, "count": 1},
        "layout": {"micro_batch": 16},
    }
    found = advisor.estimate(advisor.load_case(case))
    assert found.time is not None
    return found.time.step_s.expected


def test_fp32_multiplies_on_vector_units() -> None:
    """335 ms measured (one H200, PyTorch 2.11 as it starts, SDPA, 2026-11-27)."""
    assert step_s("fp32") == pytest.approx(0.3355, rel=0.15)
    # The data sheet's rates of products differ by 494.7 / 67.
    assert 1.5 < step_s("fp32") / step_s("tf32") < 494.7 / 67


def test_cards_without_tf32_refuse_it() -> None:
    with pytest.raises(InputError, match="has no tf32 rate"):
        step_s("tf32", "v100-sxm2-16gb")
