"""Cards without bf16 serve in fp16, those without 16-bit units in fp32, and say so."""

import pytest

import advisor
from advisor.errors import InputError
from advisor.nouns.case import Case
from advisor.planning.prepared import prepared
from advisor.planning.searched import Searched
from tests.cases import serve

PARAMETERS = 1_235_814_400
"""Llama 3.2 1B, model card."""
CACHE_ELEMENTS = 2 * 16 * 8 * 64
"""Keys and values of 16 layers with 8 heads of 64, for one token."""


def serving(accelerator: str, **workload: object) -> Case:
    return advisor.load_case(
        {
            "model": {"preset": "llama-3.2-1b"},
            "workload": {"kind": "serving", "concurrency": 1, **workload},
            "hardware": {"accelerator": accelerator},
        }
    )


@pytest.mark.parametrize(
    ("accelerator", "name", "size"),
    [
        # bf16 matmuls came with compute capability 8.0; fp16 ones at a useful rate with 6.0
        # (CUDA C programming guide, arithmetic instructions). AVX2 has neither.
        ("h100-sxm", "bf16", 2),
        ("t4", "fp16", 2),
        ("v100-sxm2-32gb", "fp16", 2),
    ],
)
def test_weights_and_cache_take_the_format_that_the_card_has(
    accelerator: str, name: str, size: int
) -> None:
    found = advisor.estimate(serving(accelerator, concurrency=4))  # few would get llama.cpp

    assert found.precision == name
    assert f"weights in {name}, cache in {name} (--weights, --kv-cache)" in found.assumptions
    assert found.memory.weights_bytes.expected == PARAMETERS * size
    tokens = 4 * (1024 + 256)
    assert found.memory.kv_cache_bytes.expected == pytest.approx(
        CACHE_ELEMENTS * tokens * size, rel=0.02
    )


@pytest.mark.parametrize("accelerator", ["p100-sxm2-16gb", "p40", "core-i5-9400"])
def test_cards_that_only_llama_cpp_serves_take_its_files(accelerator: str) -> None:
    """vLLM needs compute capability 7.5, LMDeploy 7.0; llama.cpp's largest file is Q8_0.

    Its cache is f16 unless stated (tools/server/README.md, -ctk), whatever units a card has.
    """
    found = advisor.estimate(serving(accelerator))

    assert found.software is not None
    assert (found.software.name, found.precision) == ("llama-cpp", "q8_0")
    assert "cache in fp16" in " ".join(found.assumptions)
    assert found.memory.kv_cache_bytes.expected == pytest.approx(
        CACHE_ELEMENTS * (1024 + 256) * 2, rel=0.02
    )


def test_narrow_weights_stay_narrow_on_cards_without_their_units() -> None:
    """vLLM serves 4-bit floats on Ampere by kernels that widen them (Marlin)."""
    found = advisor.estimate(serving("a100-pcie-40gb", weight_format="nvfp4"))

    assert found.precision == "nvfp4"
    assert found.memory.weights_bytes.expected < PARAMETERS


def test_a_format_that_the_card_lacks_is_refused() -> None:
    with pytest.raises(InputError, match=r"T4 has no bf16 rate.*allowed: fp16"):
        advisor.estimate(serving("t4", weight_format="bf16"))

    case = serving("t4", weight_format="bf16").model_copy(update={"hardware": None})
    found = advisor.recommend(case)
    [rejection] = [item for item in found.rejections if item.accelerator == "t4"]
    assert rejection.code == "format"
    assert rejection.remedy == "Choose a precision that computes in fp16."


def test_the_search_names_the_format_of_each_card() -> None:
    case = serve("llama-3.2-1b", limits={"accelerators": ["t4"]})
    assert {plan.estimate.precision for plan in advisor.recommend(case).plans} == {"fp16"}


def test_fits_judges_by_the_format_that_the_card_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.planning.fits.request.short_list", lambda: ["llama-3.2-1b"])
    found = advisor.fits("t4")
    [small] = found.models

    assert (small.served.weight_format, small.verdict) == ("fp16", "fits")
    assert "cache in fp16" in found.assumptions


def test_a_processor_has_no_driver_context() -> None:
    assert advisor.estimate(serving("core-i5-9400")).memory.context_bytes.high == 0
    card = advisor.estimate(serving("t4")).memory.context_bytes
    assert (card.low, card.high) == (0.3e9, 0.6e9)  # docs/methodology-memory.md: observed


def test_an_8_bit_cache_comes_before_smaller_weights_and_the_hosts_memory() -> None:
    """perplexity of Llama 3 8B: q8_0 cache +0.035 %, q4_k_m +2.8 %, q3_k_m +11 %
    (data/quality_loss.csv)."""
    asked = {"input_tokens": 30_000, "output_tokens": 1000, "concurrency": 1}
    for fields in ({}, {"weight_format": "q4_k_m"}):
        case = serve("qwen3-32b", "rtx-4090", 1, **asked, **fields)
        found = advisor.estimate(case)
        assert (found.precision, found.kv_cache_format) == ("q4_k_m", "q8_0")
        assert found.memory.fits
        assert not found.layout.host_options
        assert "--cache-type-k q8_0" in advisor.export(case, "llama-cpp").content


def test_formats_searched_together_keep_their_own_times() -> None:
    """int8 on a T4 and fp8 on other cards have equal sizes, but not equal units."""
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "serving", "concurrency": 100, "engine": "sglang"},
        "limits": {"accelerators": ["t4", "rtx-4080", "rtx-5080"]},
    }
    found = Searched.of(prepared(advisor.load_case(case), None, searching=True))
    options = (*found.result.options, *found.result.smaller, *found.result.alternatives)
    kinds = {(one.system, one.precision): one for one in options}
    assert {name for _, name in kinds} >= {"fp16", "int8", "fp8", "w4a16"}
    for option in kinds.values():
        serving = found.estimate(option).serving
        assert serving is not None
        assert option.time * 1e3 == pytest.approx(serving.tpot_ms.expected, rel=1e-9)


def test_eight_bits_are_named_before_four_if_both_save_much() -> None:
    # Model cards: fp8 loses 0.47 % of a score, 4 bits lose 2.6 % of another (quality_loss.csv).
    limits = {"max_tpot_ms": 200}
    answer = advisor.recommend(serve("qwen3-32b", concurrency=40, limits=limits))
    told = [item.message for item in answer.advice if item.code == "lower-precision"]

    assert answer.rankings[0].plans[0].estimate.precision == "bf16"
    assert "(--weights fp8)" in told[0]
    assert "published loss" in told[0]
    assert "Check the model's quality" not in told[0]
    assert "Check the model's quality" in told[1]


def test_where_the_published_weights_fit_nowhere_a_plan_takes_eight_bits_before_four() -> None:
    # 33 billion parameters: 66 GB in bf16, 33 in fp8, 17 in 4 bits; one card of 24 or of 48 GB.
    limits = {"accelerators": ["rtx-4090", "l40s"], "max_accelerators": 1}
    answer = advisor.recommend(serve("qwen3-32b", concurrency=4, limits=limits))
    plan = answer.rankings[0].plans[0].estimate

    assert (plan.accelerator, plan.precision) == ("l40s", "fp8")


@pytest.mark.parametrize(
    ("preset", "card", "count", "users", "precision"),
    [
        # 70.6 billion parameters: 71 GB in fp8 on four cards of 24 GB, as owners run them.
        ("llama-3.3-70b", "rtx-4090", 4, 8, "fp8"),
        ("llama-3.3-70b", "rtx-3090", 4, 8, "fp8"),
        # 1.03 TB in fp8 leave room for few on 8 x 141 GB (its authors name 16 of them); 4 bits do
        # for many, and one card alone holds neither.
        ("kimi-k2", "h200-sxm", 8, 128, "w4a16"),
    ],
)
def test_machines_that_join_the_cards_come_before_ones_that_need_the_hosts_memory(
    preset: str, card: str, count: int, users: int, precision: str
) -> None:
    hardware = {"accelerator": card, "count": count}
    estimate = advisor.estimate(serve(preset, concurrency=users, hardware=hardware))

    assert not estimate.layout.host_options
    assert estimate.precision == precision


@pytest.mark.parametrize(
    ("preset", "accelerator", "name"),
    [
        # 14.7 billion parameters in 4.8 bits come from 51 or 77 GB/s at 3 to 5 tokens/s, in 8.5
        # bits at 2. People read 5.3 (data/serving_defaults.yaml): nobody waits for 8 bits there.
        ("phi-4", "core-i7-12700k", "q4_k_m"),
        # 1.2 billion parameters are fast in 8 bits on any desktop.
        ("llama-3.2-1b", "core-i7-12700k", "q8_0"),
        # A card with 360 GB/s reads 8.5 GB of an 8B model in 24 ms.
        ("llama-3.1-8b", "rtx-3060-12gb", "q8_0"),
    ],
)
def test_more_bits_are_taken_only_at_reading_speed(
    preset: str, accelerator: str, name: str
) -> None:
    case = advisor.load_case(serve(preset, accelerator, 1, concurrency=1))
    owned = advisor.load_case(serve(preset, concurrency=1, limits={"owned": [f"{accelerator}:1"]}))

    assert advisor.estimate(case).precision == name
    assert advisor.recommend(owned).plans[0].estimate.precision == name


@pytest.mark.parametrize(
    ("preset", "card", "users", "tool"),
    [
        # OpenAI: gpt-oss-20b runs within 16 GB, gpt-oss-120b on one GPU of 80 GB
        # (openai.com/index/introducing-gpt-oss); the second under vLLM on an H100 in its guide
        # (vllm-project/recipes, OpenAI/GPT-OSS.md), on an A100 since release 0.10.1.
        ("gpt-oss-20b", "rtx-4080", 8, "llama-cpp"),
        ("gpt-oss-120b", "h100-sxm", 32, "vllm"),
        ("gpt-oss-120b", "a100-sxm-80gb", 32, "vllm"),
    ],
)
def test_the_cards_that_its_makers_name_hold_all_of_a_model(
    preset: str, card: str, users: int, tool: str
) -> None:
    case = serve(preset, concurrency=users, limits={"owned": [{"accelerator": card, "count": 1}]})
    estimate = advisor.recommend(case).rankings[0].plans[0].estimate

    assert estimate.software is not None
    assert estimate.software.name == tool
    assert not estimate.layout.host_options
