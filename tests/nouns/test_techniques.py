"""Techniques of serving: their published gains, and what a case may say of them."""

from __future__ import annotations

import pytest

import advisor
from advisor.errors import InputError
from advisor.estimate.serving.demand import ServingLoad
from advisor.estimate.serving.speculation import speculated, widening
from advisor.nouns.techniques import Speculation, TextKind, in_words, reserved_rank, technique_facts
from advisor.nouns.workload import Serving
from tests.properties.test_serving_properties import Deployed

STREAM = {"input_tokens": 512, "output_tokens": 256, "concurrency": 1}

# Speed of one stream over plain decoding. Spec-Bench Leaderboard.md @fd2c1cd, Vicuna 7B, A100;
# SafeAILab/EAGLE issue 228 (Qwen3 8B, H200); LottoLottoLotto/4x3090-llm-benchmarks (RTX 3090);
# angelslim.readthedocs.io, speculative decoding (Qwen3 8B under vLLM: all and GSM8K);
# docs.sglang.io, speculative decoding (Llama 3.1 8B, H100).
MEASURED = [
    ("eagle", None, 2.36),
    ("eagle", "chat", 2.84),
    ("eagle", "translation", 1.88),
    ("medusa", None, 1.71),
    ("ngram", None, 1.66),
    ("ngram", "summary", 2.66),
    ("ngram", None, 2.77),
    ("draft", None, 1.52),
    ("draft", None, 1.93),
    ("draft", None, 1.24),
    ("eagle3", None, 1.96),
    ("eagle3", None, 1.70),
    ("eagle3", "maths", 1.72),
    ("eagle3", None, 2.36),
]


def test_the_work_names_what_is_stated():
    stated = {"prefix_hit_share": 0.7, "speculation": "eagle3", "adapters": 8}
    words = in_words(Serving.model_validate(STREAM | stated))
    assert words == ", 70 % of each prompt in the cache, drafts by EAGLE-3 heads, 8 LoRA adapters"
    assert in_words(Serving.model_validate(STREAM)) == ""


def test_servers_draft_a_chain_for_eagle_3():
    # vLLM and published heads: three tokens after one another, no tree.
    drafts = speculated(Serving.model_validate({"speculation": "eagle3"}))
    assert drafts.verified == 4
    assert drafts.accepted < 4


@pytest.mark.parametrize(("method", "kind", "gain"), MEASURED)
def test_measured_gains_of_one_stream_lie_in_the_range(method, kind, gain):
    stated = {"speculation": method, "text_kind": kind}
    case = Serving.model_validate(STREAM | stated)
    plain = Deployed().under(STREAM).tpot_s[0]
    drafted = Deployed().under(STREAM | stated).tpot_s[0]
    bounds = speculated(case)
    expected = plain / drafted
    assert expected * bounds.low <= gain <= expected * bounds.high


@pytest.mark.parametrize("method", list(Speculation))
def test_drafts_gain_less_in_large_batches(method):
    def gain(concurrency: int) -> float:
        load = STREAM | {"concurrency": concurrency}
        drafted = Deployed().under(load | {"speculation": method}).tpot_s[0]
        return float(Deployed().under(load).tpot_s[0] / drafted)

    assert gain(1) > gain(256)


def test_more_accepted_drafts_are_faster():
    def token_s(acceptance: float) -> float:
        stated = {"speculation": "draft", "draft_tokens": 4, "acceptance": acceptance}
        return float(Deployed().under(STREAM | stated).tpot_s[0])

    assert token_s(0.9) < token_s(0.5) < token_s(0.1)


def test_acceptance_is_the_accepted_share_of_the_drafts():
    stated = {"speculation": "ngram", "draft_tokens": 4, "acceptance": 0.45}
    drafts = speculated(Serving.model_validate(stated))
    assert drafts.verified == 5
    assert drafts.accepted == pytest.approx(2.8)


@pytest.mark.parametrize(
    ("drafts", "published"),
    # Qwen3.6 27B under vLLM 0.26 on a Ryzen AI Max+ 395 (kyuz0/amd-strix-halo-vllm-toolboxes, issue
    # 53), then GSM8K (vllm-project/vllm, pull 48892).
    [(1, 1.9), (2, 2.4), (3, 2.8), (1, 1.84), (8, 4.40)],
)
def test_own_heads_yield_the_published_tokens_of_a_step(drafts: int, published: float) -> None:
    stated = {"speculation": "mtp", "draft_tokens": drafts}
    assert speculated(Serving.model_validate(stated)).accepted == pytest.approx(published, rel=0.1)


def test_cached_prompts_shorten_the_wait_and_leave_the_context():
    load = STREAM | {"input_tokens": 8000, "concurrency": 16}
    new, cached = (Deployed().under(load | {"prefix_hit_share": share}) for share in (0.0, 0.9))
    assert cached.ttft_s[0] < 0.35 * new.ttft_s[0]
    assert cached.output_tokens_per_s[0] > new.output_tokens_per_s[0]
    assert cached.shares.cache[0] == pytest.approx(new.shares.cache[0])


@pytest.mark.parametrize(("engine", "copies"), [("vllm", 1), ("llama.cpp", 32)])
def test_a_shared_start_of_all_prompts_is_kept_once(engine: str, copies: int) -> None:
    """A token of Llama 3.1 8B takes 32 layers x 8 heads x 128 x 2 x 2 bytes; llama.cpp's slots are
    apart (tools/server/README.md)."""
    load = {"kind": "serving", "concurrency": 32, "input_tokens": 8000, "output_tokens": 300}
    form = {"weight_format": "q8_0" if copies > 1 else "bf16", "engine": engine}
    found = advisor.estimate(
        {
            "model": {"preset": "llama-3.1-8b"},
            "workload": load | form | {"shared_prefix_tokens": 6000},
            "hardware": {"accelerator": "h100-sxm", "count": 1},
        }
    )
    [cache] = [term for term in found.memory.terms if term.name == "kv_cache"]
    assert cache.value == (copies * 6000 + 32 * 2300) * 32 * 8 * 128 * 2 * 2


def test_a_shared_start_is_shorter_than_the_prompt() -> None:
    with pytest.raises(ValueError, match="the whole prompt"):
        Serving(input_tokens=1000, shared_prefix_tokens=1000)


def test_one_token_of_a_cached_prompt_is_computed():
    load = ServingLoad.of(Serving(input_tokens=8, prefix_hit_share=0.999))
    assert load.cached_tokens[0] == 7


def test_shorter_steps_keep_the_time_per_token_even_and_read_long_prompts_slower():
    load = STREAM | {"input_tokens": 16_000, "concurrency": 16}
    short, long = (Deployed().under(load | {"step_tokens": n}) for n in (512, 8192))
    assert short.ttft_s[0] > long.ttft_s[0]
    assert short.tpot_s[0] < long.tpot_s[0]


def test_drafts_without_a_method_are_refused():
    with pytest.raises(InputError, match="draft_tokens"):
        ServingLoad.of(Serving(draft_tokens=4))


def test_every_method_has_published_gains():
    facts = technique_facts().speculation
    assert set(facts) == set(Speculation)
    for each in facts.values():
        assert each.gain.low <= each.gain.expected <= each.gain.high
        assert set(each.tasks) <= set(TextKind)


SLOWDOWNS = (1.09, 1.19, 1.2, 1.31, 1.48, 1.51, 1.97, 2.0, 2.2)
"""Time with LoRA adapters over that without: vLLM pulls 1560, 11267 and 15655, issues 9452 and
10062; LoRAX issue 333."""


@pytest.mark.parametrize("users", [1, 32, 128])
def test_measured_slowdowns_of_adapters_lie_in_the_range(users):
    """At least 80 % of them: the range is one of 80 %."""
    load = STREAM | {"concurrency": users}
    stated = load | {"adapters": 4, "adapter_rank": 8}
    low, high = widening(Serving.model_validate(stated), later=True)
    expected = Deployed().under(stated).tpot_s[0] / Deployed().under(load).tpot_s[0]
    inside = [expected * low <= slowdown <= expected * high for slowdown in SLOWDOWNS]
    assert sum(inside) >= 0.8 * len(SLOWDOWNS)


def test_adapters_take_memory_and_leave_less_for_the_cache():
    """PEFT reports 41,943,040 parameters of rank 16 on all matrices of the blocks of Llama 3 8B."""
    plain = Deployed("llama-3.1-8b").under(STREAM).capacity
    held = Deployed("llama-3.1-8b").under(STREAM | {"adapters": 8}).capacity
    taken = held.memory.weights[0] - plain.memory.weights[0]
    assert taken == 8 * 2 * 41_943_040
    assert held.max_concurrency[0] < plain.max_concurrency[0]


@pytest.mark.parametrize(("asked", "reserved"), [(None, 16), (8, 8), (24, 32), (300, 320)])
def test_engines_reserve_the_next_rank(asked, reserved):
    """``vllm/config/lora.py``: MaxLoRARanks, and 16 by default."""
    assert reserved_rank(Serving(adapters=2, adapter_rank=asked)) == reserved


def test_a_rank_without_adapters_is_refused():
    with pytest.raises(InputError, match="adapter_rank describes adapters"):
        reserved_rank(Serving(adapter_rank=16))
