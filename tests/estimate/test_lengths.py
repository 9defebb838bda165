"""Requests within the model's limit, and encoder-decoder pairs that answer them."""

from __future__ import annotations

import pytest

from advisor import Estimate, estimate
from advisor.errors import InputError
from tests.cases import pretrain


def served(preset: str, **workload: object) -> Estimate:
    return estimate(
        {
            "model": {"preset": preset},
            "workload": {"kind": "serving", **workload},
            "hardware": {"accelerator": "h100-sxm", "count": 1},
        }
    )


@pytest.mark.parametrize(
    ("preset", "lengths", "cached"),
    [
        # Layers x keys and values x width x (positions read + tokens written), 16 bits each.
        ("t5-small", {"input_tokens": 512, "output_tokens": 256}, 6 * 2 * 512 * (512 + 256)),
        ("t5-3b", {"input_tokens": 2048, "output_tokens": 100}, 24 * 2 * 4096 * (2048 + 100)),
        # 30 seconds of sound are 1,500 positions.
        ("whisper-tiny", {"output_tokens": 100}, 4 * 2 * 384 * (1500 + 100)),
        ("whisper-large-v3-turbo", {"output_tokens": 448}, 4 * 2 * 1280 * (1500 + 448)),
    ],
)
def test_decoders_cache_their_own_tokens_and_the_encoders(
    preset: str, lengths: dict[str, int], cached: int
) -> None:
    memory = served(preset, concurrency=3, **lengths).memory
    assert memory.kv_cache_bytes.expected == 3 * 2 * cached


def test_a_generated_token_goes_through_the_decoder_alone() -> None:
    answer = served("t5-small", input_tokens=512, output_tokens=256, concurrency=1)
    # Six matrices of 512 x 512 and two of 512 x 2048 in six layers, and the head; 128 own keys
    # on average and 512 of the encoder, four FLOPs for each element of a key.
    matrices = 2 * (6 * (6 * 512**2 + 2 * 512 * 2048) + 512 * 32_128)
    assert answer.flops.per_token == matrices + 6 * 4 * 512 * (128 + 512)


def test_reading_takes_longer_for_longer_texts_and_writing_does_not_read_again() -> None:
    short, long = (
        served("t5-11b", input_tokens=tokens, output_tokens=64, concurrency=1).serving
        for tokens in (512, 8192)
    )
    assert short is not None
    assert long is not None
    # The encoder's 4.87e9 parameters on 7,680 more tokens: 2 FLOPs each at 989 TFLOP/s.
    assert long.ttft_ms.expected - short.ttft_ms.expected > 2 * 4.83e9 * 7680 / 989e12 * 1e3
    # The decoder's 6.44e9 parameters in 16 bits at 3.35 TB/s, not those of the encoder besides.
    assert 2 * 6.44e9 / 3.35e12 * 1e3 < short.tpot_ms.expected < 2 * 11.3e9 / 3.35e12 * 1e3 * 1.5


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ("bert-base", "prompts of 512 tokens: the model has 512 positions"),
        # Two of RoBERTa's 514 rows stand for padding.
        ("roberta-base", "prompts of 512 tokens: the model has 512 positions"),
        # FlagEmbedding fine-tunes its reranker on passages of at most 512 tokens; it has 8,192.
        ("bge-reranker-v2-m3", "prompts of 512 tokens: as passages have (--input-tokens)"),
    ],
)
def test_default_prompts_fit_the_model(preset: str, said: str) -> None:
    assert said in served(preset).assumptions


@pytest.mark.parametrize(
    ("preset", "lengths"),
    [
        ("bert-base", {"input_tokens": 513}),
        ("roberta-base", {"input_tokens": 513}),
        ("whisper-tiny", {"output_tokens": 449}),
        ("gpt2", {"input_tokens": 1000, "output_tokens": 100}),
    ],
)
def test_given_lengths_beyond_the_model_are_refused(preset: str, lengths: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"exceeds? the model's context"):
        served(preset, **lengths)


@pytest.mark.parametrize(("preset", "longest"), [("bert-base", 512), ("roberta-base", 512)])
def test_learned_positions_are_not_extended_in_training(preset: str, longest: int) -> None:
    case = pretrain(preset, "h100-sxm", 1, sequence_length=longest + 1, samples=1e5)
    with pytest.raises(InputError, match=f"{longest} learned positions"):
        estimate(case)
