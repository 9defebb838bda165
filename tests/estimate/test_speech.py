"""Speech recognition: published encoder passes, decoder tokens and transcribed samples."""

import pytest

from advisor import Estimate, estimate


def served(model: str, card: str, **workload: object) -> Estimate:
    return estimate(
        {
            "model": {"preset": model},
            "workload": {"kind": "serving", **workload},
            "hardware": {"accelerator": card, "count": 1},
        }
    )


@pytest.mark.parametrize(
    ("model", "card", "encoder_ms", "token_ms"),
    [
        ("whisper-large-v2", "rtx-5090", 24.73, 2.92),
        ("whisper-medium", "rtx-5090", 15.43, 1.81),
        ("whisper-large-v3-turbo", "rtx-5090", 21.36, None),
        ("whisper-medium", "dgx-spark-gb10", 53.12, 5.10),
        ("whisper-base", "dgx-spark-gb10", 5.08, 0.90),
    ],
)
def test_whisper_cpp(model: str, card: str, encoder_ms: float, token_ms: float | None) -> None:
    """Its own benchmark in fp16 with flash attention (github ggml-org/whisper.cpp@233fe1f,
    scripts/bench-all-gg.txt): the encoder reads 30 s at once, the decoder writes one token."""
    found = served(model, card, engine="whisper-cpp", weight_format="fp16", concurrency=1).serving
    assert found is not None
    assert found.ttft_ms.expected == pytest.approx(encoder_ms, rel=0.25)
    if token_ms is not None:
        assert found.tpot_ms.expected == pytest.approx(token_ms, rel=0.25)


@pytest.mark.parametrize(
    ("card", "tokens_per_s"),
    [("l40s", 9272 / 8), ("h100-nvl", 8301.9 / 3), ("h200-nvl", 31674.1 / 8)],
)
def test_saturated_servers(card: str, tokens_per_s: float) -> None:
    """MLPerf Inference v5.1, closed, Offline: TensorRT, 63.5 tokens a sample of up to 30 s."""
    found = served("whisper-large-v3", card, concurrency=512, output_tokens=64).serving
    assert found is not None
    assert found.output_tokens_per_s.expected == pytest.approx(tokens_per_s, rel=0.35)
    assert found.sound_s_per_s is not None
    assert found.sound_s_per_s.expected == pytest.approx(30 * found.requests_per_s.expected)


def test_a_window_has_the_tokens_that_people_speak_in_it() -> None:
    found = served("whisper-large-v3", "rtx-4090")
    assert "answers of 100 tokens, as people speak in 30 s (--output-tokens)" in found.assumptions
    assert served("t5-small", "rtx-4090").serving.sound_s_per_s is None  # type: ignore[union-attr]


def test_each_token_reads_the_decoder_but_not_what_reads_the_encoder() -> None:
    """Of 906,521,600 parameters of the decoder (transformers 5.23.0), the keys and values of 32
    layers over the encoder's output (2 x 1,280 x 1,280) run once, and 448 positions are looked up;
    the embedding is read as the head. 16 bits each from 1.79 TB/s, at best."""
    read = 2 * (906_521_600 - 32 * 2 * 1280**2 - 448 * 1280)
    found = served("whisper-large-v3", "rtx-5090", engine="whisper-cpp", weight_format="fp16",
                   concurrency=1).serving  # fmt: skip
    assert found is not None
    [weights] = [term.value for term in found.terms if term.name == "weights"]
    assert 0.8 < read / 1.792e12 / weights < 1.0
