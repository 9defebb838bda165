"""EXL2 and EXL3 files: exact bytes, published speed, a wide range where nothing was measured."""

import pytest

from advisor import Estimate, InputError, estimate


def served(model: str, card: str, **workload: object) -> Estimate:
    return estimate(
        {
            "model": {"preset": model},
            "workload": {"kind": "serving", "concurrency": 1, **workload},
            "hardware": {"accelerator": card, "count": 1},
        }
    )


@pytest.mark.parametrize(("name", "bits"), [("exl2_4.0", 4), ("exl3_3.0", 3)])
def test_the_head_has_six_bits_and_the_embedding_stays_on_the_host(name: str, bits: int) -> None:
    """Llama 3.1 8B: 32 x (2 x 4096^2 + 2 x 4096 x 1024 + 3 x 4096 x 14336) weights in matrices of
    blocks, 128,256 x 4,096 in the head, 65 norms of 4,096 (config.json); -hb is 6 in convert.py."""
    blocks = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    expected = (bits * blocks + 6 * 128_256 * 4096) / 8 + 2 * 65 * 4096
    found = served("llama-3.1-8b", "rtx-3090", weight_format=name)
    assert found.memory.weights_bytes.expected == pytest.approx(expected, rel=1e-9)


def test_seventy_billion_parameters_run_on_one_card_as_published() -> None:
    """38 tokens/s: Llama 2 70B at 2.5 bits on an RTX 4090, README of turboderp-org/exllamav2."""
    asked = {"engine": "exllamav2", "weight_format": "exl2_2.5", "input_tokens": 64}
    found = served("llama-2-70b", "rtx-4090", output_tokens=128, **asked)
    assert found.memory.fits
    assert found.serving is not None
    assert 1000 / found.serving.tpot_ms.expected == pytest.approx(38, rel=0.1)


def test_speeds_of_exllamav3_are_those_of_its_forerunner_in_a_wider_range() -> None:
    two, three = (
        served("llama-3.1-8b", "rtx-4090", weight_format=f"{name}_4.0") for name in ("exl2", "exl3")
    )
    assert two.serving is not None
    assert three.serving is not None
    old, new = two.serving.tpot_ms, three.serving.tpot_ms
    assert new.expected == pytest.approx(old.expected)
    assert new.low < old.low
    assert new.high > old.high
    assert any("those of ExLlamaV2" in text for text in three.assumptions)
    assert any("perplexity +0.82 % (MiniMax-M2)" in text for text in three.assumptions)


def test_other_cards_do_not_read_the_files() -> None:
    with pytest.raises(InputError, match=r"exl2_4\.0"):
        served("llama-3.1-8b", "apple-m4-max", weight_format="exl2_4.0")
