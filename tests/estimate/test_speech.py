"""Speech recognition: published encoder passes, decoder tokens and transcribed samples."""

import pytest

import advisor
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
    scripts/bench-all-gg.txt): the encoder reads 30 s at once, then the decoder writes the first
    token. A transcription builds graphs and samples too, so no token takes less."""
    found = served(model, card, engine="whisper-cpp", weight_format="fp16", concurrency=1).serving
    assert found is not None
    first_ms = encoder_ms + (token_ms or 0.0)
    assert found.ttft_ms.expected == pytest.approx(first_ms, rel=0.25)
    if token_ms is not None:
        assert found.tpot_ms.expected > 0.9 * token_ms


@pytest.mark.parametrize(
    ("engine", "model", "card", "beams", "times_real_time"),
    [
        # README of SYSTRAN/faster-whisper v1.1.0: 13 minutes in 65 s. The fit has read this one.
        ("whisper-cpp", "whisper-large-v2", "rtx-3070-ti", 5, 780 / 65),
        # SYSTRAN/faster-whisper, issue 172: 24 minutes. No fit has read these.
        ("faster-whisper", "whisper-large-v2", "rtx-3090", 1, 1440 / 66.65),
        ("faster-whisper", "whisper-large-v2", "rtx-3090", 10, 1440 / 123.06),
        # x2q.net, Whisper backend shootout (2026).
        ("faster-whisper", "whisper-large-v3-turbo", "rtx-4070-ti", 5, 56),
    ],
)
def test_whole_transcriptions(
    engine: str, model: str, card: str, beams: int, times_real_time: float
) -> None:
    found = served(
        model, card, engine=engine, weight_format="fp16", concurrency=1, beam_size=beams
    ).serving
    assert found is not None
    assert found.sound_s_per_s is not None
    assert found.sound_s_per_s.expected == pytest.approx(times_real_time, rel=0.35)


def test_both_programs_are_near_each_other() -> None:
    """63 and 65 s for 13 minutes on an RTX 3070 Ti (README of SYSTRAN/faster-whisper v1.1.0)."""
    times = [
        served("whisper-large-v3", "rtx-3060-12gb", engine=engine, concurrency=1).serving
        for engine in ("faster-whisper", "whisper-cpp")
    ]
    first, second = (each and each.sound_s_per_s and each.sound_s_per_s.expected for each in times)
    assert first == pytest.approx(second, rel=0.3)


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


def test_hours_of_sound_are_a_rate_of_windows() -> None:
    """5,000 hours in 3 days are 5,000 x 120 windows of 30 s in 259,200 s: 2.315 a second."""
    found = served("whisper-large-v3", "rtx-4090", audio_hours="5000 in 3 days")
    assert found.serving is not None
    assert found.serving.arrivals is not None
    assert found.serving.arrivals.asked_requests_per_s == pytest.approx(2.3148, rel=1e-3)
    assert found.workload.startswith("transcribe 1,667 hours of sound a day: 2.31 requests/s")
    assert found.serving.sound_s_per_s is not None
    assert found.serving.sound_s_per_s.expected == pytest.approx(5000 / 72, rel=1e-3)
    case = {
        "model": {"preset": "whisper-large-v3"},
        "limits": {"owned": [{"accelerator": "rtx-4090"}]},
    }
    work = {"kind": "serving", "audio_hours": "20/day"}
    assert "real time" not in advisor.recommend({**case, "workload": work}).answer  # it is the rate
    assert "x real time" in advisor.recommend({**case, "workload": {"kind": "serving"}}).answer


def test_beams_share_the_encoders_output_but_not_their_own_tokens() -> None:
    """CTranslate2 replicates no keys and values of the encoder (src/layers/transformer.cc,
    replicate_state): four more beams of 100 tokens
    cache 4 x 100 x 32 layers x 2 x 1,280 numbers."""
    asked = {"engine": "faster-whisper", "concurrency": 1, "weight_format": "fp16"}
    one, five = (
        served("whisper-large-v2", "v100s-pcie-32gb", beam_size=n, **asked) for n in (1, 5)
    )
    more = five.memory.kv_cache_bytes.expected - one.memory.kv_cache_bytes.expected
    assert more == 2 * 4 * 100 * 32 * 2 * 1280


@pytest.mark.parametrize(
    ("model", "card", "weights", "windows", "seconds"),
    [
        ("whisper-large-v2", "v100s-pcie-32gb", "fp16", 1, 54),
        ("whisper-large-v2", "rtx-3070-ti", "fp16", 1, 63),
        ("whisper-large-v2", "rtx-3070-ti", "int8", 8, 16),
        ("whisper-large-v3-turbo", "rtx-2080-ti", "fp16", 1, 19.155),
    ],
)
def test_faster_whisper(model: str, card: str, weights: str, windows: int, seconds: float) -> None:
    """13 minutes with five beams: READMEs of SYSTRAN/faster-whisper of 2023 and 2024, and
    huggingface.co/deepdml/faster-whisper-large-v3-turbo-ct2, discussion 3. vLLM's constants gave
    2.4 to 3.4 times as much."""
    asked = {"engine": "faster-whisper", "weight_format": weights, "beam_size": 5}
    found = served(model, card, concurrency=windows, **asked)
    assert found.memory.fits
    assert found.serving is not None
    assert found.serving.sound_s_per_s is not None
    assert found.serving.sound_s_per_s.expected == pytest.approx(780 / seconds, rel=0.15)


@pytest.mark.parametrize(
    ("windows", "weights", "megabytes"),
    [(1, "fp16", 4525), (8, "fp16", 6090), (1, "int8", 2926), (8, "int8", 4500)],
)
def test_memory_of_faster_whisper(windows: int, weights: str, megabytes: float) -> None:
    """Large-v2 on an RTX 3070 Ti (README of SYSTRAN/faster-whisper 1.1.0)."""
    asked = {"engine": "faster-whisper", "weight_format": weights, "beam_size": 5}
    found = served("whisper-large-v2", "rtx-3070-ti", concurrency=windows, **asked)
    assert found.memory.total_bytes.expected / 2**20 == pytest.approx(megabytes, rel=0.12)


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        ("llama-3.1-8b", "audio_hours", 100),
        ("t5-small", "audio_hours", 100),
        ("llama-3.1-8b", "beam_size", 5),
    ],
)
def test_other_networks_refuse_both(model: str, field: str, value: int) -> None:
    with pytest.raises(advisor.InputError, match=f"workload.{field} does not apply"):
        served(model, "rtx-4090", **{field: value})


def test_vllm_searches_over_no_beams() -> None:
    """vllm-project/vllm, issue 49197: its beam search of Whisper is a thousand times slower."""
    with pytest.raises(advisor.InputError, match="searches over no beams"):
        served("whisper-large-v3", "rtx-4090", engine="vllm", beam_size=5)
