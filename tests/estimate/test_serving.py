from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import advisor
from advisor.architecture.presets import load_preset
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import InputError
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.serving.demand import ServingLoad
from advisor.estimate.serving.memory import ServingMemory
from advisor.estimate.serving.report import ServingReport, describe_serving
from advisor.estimate.serving.times import ServingTimes, TokenShares, serving_times
from advisor.estimate.terms import term_texts
from advisor.foundation.quantities import Evidence
from advisor.foundation.references import references
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving
from tests.estimate.serving_bench import (
    GPT_OSS_120B,
    LLAMA_8B,
    LLAMA_70B,
    calibration,
    candidates,
    card,
    node,
    served,
)

BLOCKS_8B = 32 * (4096 * (4096 + 2048) + 4096 * 4096 + 3 * 4096 * 14336)
HEAD_8B = 4096 * 128256
CACHE_8B = 131_072


def ideal(
    workload: Serving,
    layout: ParallelLayout | None = None,
    *,
    constants: Calibration | None = None,
    accelerator: Accelerator | None = None,
) -> ServingTimes:
    """Times of Llama 3.1 8B in bf16 in a perfect world."""
    configuration = candidates(
        layout or ParallelLayout(), accelerator=accelerator, constants=constants
    )
    return serving_times(
        served(LLAMA_8B), ServingLoad.of(workload), configuration, constants or calibration()
    )


def test_one_request_reads_all_weights_for_each_token() -> None:
    # A card without limit on arithmetic: 2 bytes for each parameter but the embedding, and the
    # cache at its mean length of 1,050 tokens.
    times = ideal(
        Serving(input_tokens=1000, output_tokens=100, concurrency=1), accelerator=card(peak=1e21)
    )
    expected = (2 * (BLOCKS_8B + HEAD_8B) + 1050 * CACHE_8B) / 1e12
    assert times.tpot_s[0] == pytest.approx(expected, rel=1e-3)


def test_prompt_of_one_request_is_its_arithmetic() -> None:
    # A card without limit on bandwidth: 2 FLOPs per parameter and token, the causal half of
    # attention (4 x 32 layers x 4096 for each pair), and one row of the head.
    times = ideal(
        Serving(input_tokens=4096, output_tokens=2, concurrency=1), accelerator=card(bandwidth=1e19)
    )
    flops = 2 * 4096 * BLOCKS_8B + 4 * 32 * 4096 * 4096 * 2048 + 2 * HEAD_8B
    assert times.ttft_s[0] == pytest.approx(flops / 1e15, rel=1e-4)


def test_long_prompts_run_in_chunks() -> None:
    # Four chunks of 8,192 tokens; each reads the weights again and pays the step once.
    workload = Serving(input_tokens=32768, output_tokens=2, concurrency=1)
    whole = ideal(workload, accelerator=card(bandwidth=1e19))
    stepped = ideal(workload, accelerator=card(bandwidth=1e19), constants=calibration(step_s=0.1))
    assert (stepped.ttft_s - whole.ttft_s)[0] == pytest.approx(0.4)


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_decoding_is_a_fixed_cost_and_a_divided_one(tensor: int) -> None:
    # TPOT = a + b / TP: the fixed cost is 32 layers of 50 us.
    workload = Serving(input_tokens=1000, output_tokens=100, concurrency=1)
    constants = calibration(layer_s=50e-6)
    fast = card(peak=1e21, link=1e21)
    one = ideal(workload, constants=constants, accelerator=fast).tpot_s[0]
    configuration = candidates(
        ParallelLayout(tensor=tensor),
        accelerator=fast,
        machine=node(link=1e21),
        constants=constants,
    )
    times = serving_times(served(LLAMA_8B), ServingLoad.of(workload), configuration, constants)
    assert times.tpot_s[0] - 1.6e-3 == pytest.approx((one - 1.6e-3) / tensor, rel=2e-3)


def test_traffic_of_tensor_parallelism_by_hand() -> None:
    # 32 layers x 2 all-reduces of 4,096 elements of 2 bytes: 2 x 3/4 of each over the wire, and
    # two latencies of 5 us.
    constants = calibration(latency_s=5e-6)
    configuration = candidates(ParallelLayout(tensor=4), constants=constants)
    load = ServingLoad.of(Serving(concurrency=1))
    times = serving_times(served(LLAMA_8B), load, configuration, constants)
    expected = 64 * (10e-6 + 1.5 * 8192 / 450e9)
    assert times.shares.network[0] == pytest.approx(expected)


def test_pipeline_stages_decode_in_turn() -> None:
    # One request passes all layers whatever the stages; they only add hops.
    workload = Serving(concurrency=1)
    one = ideal(workload)
    four = ideal(workload, ParallelLayout(pipeline=4))
    hops = 3 * 4096 * 2 / 450e9
    assert (four.tpot_s - one.tpot_s)[0] == pytest.approx(hops)


def test_few_tokens_read_few_experts() -> None:
    # One token visits 4 of 128 experts: 36 layers x 4 x 3 x 2880^2 weights at 4.25 bits, and
    # attention, router-less, and head in 16 bits.
    model = served(GPT_OSS_120B, "mxfp4")
    fast = card(peak=1e21, formats=("bf16", "fp16", "fp4"))
    configuration = candidates(ParallelLayout(), accelerator=fast, compute="fp4")
    load = ServingLoad.of(Serving(input_tokens=1, output_tokens=2, concurrency=1))
    times = serving_times(model, load, configuration, calibration())
    experts = 36 * 4 * 3 * 2880 * 2880 * 4.25 / 8
    attention = 2 * 36 * (2880 * (4096 + 1024) + 4096 * 2880)
    head = 2 * 2880 * 201088
    assert times.tpot_s[0] == pytest.approx((experts + attention + head) / 1e12, rel=5e-3)


def test_long_contexts_add_only_index_keys_to_sparse_attention() -> None:
    """DeepSeek-V3.2 picks 2,048 latents of 576 with index keys of 128 in 61 layers (its report)."""

    def token_s(input_tokens: int) -> float:
        load = Serving(input_tokens=input_tokens, output_tokens=100, concurrency=1)
        configuration = candidates(ParallelLayout(), accelerator=card(peak=1e21))
        model = served(load_preset("deepseek-v3.2"))
        found = serving_times(model, ServingLoad.of(load), configuration, calibration())
        return float(found.tpot_s[0])

    longer = 61 * 10_000 * 128 * 2 / 1e12
    assert token_s(20_000) - token_s(10_000) == pytest.approx(longer, rel=1e-3)
    latents = 61 * 900 * 576 * 2 / 1e12
    short = 61 * 900 * 128 * 2 / 1e12
    assert token_s(1_900) - token_s(1_000) == pytest.approx(latents + short, rel=1e-3)


def test_rooflines_bound_every_step() -> None:
    for concurrency in (1, 16, 256):
        times = ideal(Serving(input_tokens=512, output_tokens=512, concurrency=concurrency))
        bytes_read = 2 * (BLOCKS_8B + HEAD_8B) + concurrency * 768 * CACHE_8B
        flops = 2 * concurrency * (BLOCKS_8B + HEAD_8B)
        assert times.decode_step_s[0] >= max(bytes_read / 1e12, flops / 1e15)


@settings(max_examples=60)
@given(
    concurrency=st.integers(1, 2000),
    input_tokens=st.integers(1, 60_000),
    output_tokens=st.integers(1, 5000),
    data=st.sampled_from([1, 2, 8]),
    tensor=st.sampled_from([1, 4, 16]),
    pipeline=st.sampled_from([1, 2, 4]),
)
def test_steady_state_holds_together(
    *,
    concurrency: int,
    input_tokens: int,
    output_tokens: int,
    data: int,
    tensor: int,
    pipeline: int,
) -> None:
    workload = Serving(
        input_tokens=input_tokens, output_tokens=output_tokens, concurrency=concurrency
    )
    layout = ParallelLayout(data=data, tensor=tensor, pipeline=pipeline)
    times = ideal(workload, layout, constants=calibration(step_s=1e-3, latency_s=1e-6))
    # Little's law over the deployment.
    assert times.requests_per_s[0] * times.request_latency_s[0] == pytest.approx(concurrency)
    # A request is its first token and the others.
    rest = (output_tokens - 1) * times.tpot_s[0]
    assert times.request_latency_s[0] == pytest.approx(times.ttft_s[0] + rest)
    # Shares are exclusive, none is negative, and they sum to the time of a token.
    shares = [float(getattr(times.shares, item.name)[0]) for item in fields(TokenShares)]
    assert min(shares) >= -1e-12
    assert sum(shares) == pytest.approx(times.tpot_s[0])
    # Prompts cannot be served faster than their arithmetic.
    served_tokens = times.requests_per_s[0] * input_tokens
    assert served_tokens * 2 * BLOCKS_8B <= 1e15 * layout.accelerators * (1 + 1e-9)


def test_more_requests_never_lower_the_throughput() -> None:
    rates = [
        ideal(Serving(input_tokens=512, output_tokens=256, concurrency=n)).output_tokens_per_s[0]
        for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    ]
    assert rates == sorted(rates)


def test_scalars_equal_elements_of_arrays() -> None:
    layouts = [
        ParallelLayout(tensor=1),
        ParallelLayout(tensor=8),
        ParallelLayout(data=2, tensor=4, expert=2),
        ParallelLayout(tensor=4, pipeline=2),
    ]
    cards = [card(memory=80e9), card(memory=24e9, bandwidth=2e12), card(peak=3e14), card()]
    constants = calibration(layer_s=1e-5, latency_s=1e-6)
    load = ServingLoad.of(Serving(concurrency=33))
    model = served(GPT_OSS_120B)
    alone = [
        candidates(layout, accelerator=one, constants=constants)
        for layout, one in zip(layouts, cards, strict=True)
    ]
    stacked = Candidates(
        layout=LayoutArrays(
            **{
                item.name: np.concatenate([getattr(one.layout, item.name) for one in alone])
                for item in fields(LayoutArrays)
            }
        ),
        hardware=HardwareArrays(
            **{
                item.name: np.concatenate([getattr(one.hardware, item.name) for one in alone])
                for item in fields(HardwareArrays)
            }
        ),
    )
    together = serving_times(model, load, stacked, constants)
    for index, one in enumerate(alone):
        single = serving_times(model, load, one, constants)
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s", "feasible"):
            assert getattr(together, name)[index] == pytest.approx(getattr(single, name)[0])
        assert together.capacity.max_concurrency[index] == single.capacity.max_concurrency[0]
        assert together.shares.prefill[index] == pytest.approx(single.shares.prefill[0])


def test_a_cache_that_does_not_fit_is_a_value() -> None:
    times = ideal(Serving(input_tokens=100_000, output_tokens=1000, concurrency=64))
    assert not times.feasible[0]
    assert times.capacity.max_concurrency[0] < 64
    assert np.isfinite(times.tpot_s[0])


def test_a_group_without_a_network_is_a_value() -> None:
    configuration = candidates(ParallelLayout(tensor=16), machine=node(network=None))
    load = ServingLoad.of(Serving())
    times = serving_times(served(LLAMA_8B), load, configuration, calibration())
    assert not times.feasible[0]
    assert times.requests_per_s[0] == 0


@pytest.mark.parametrize(
    ("formats", "weight_format", "compute"),
    [
        (("bf16", "fp16", "fp8"), "fp8", "fp8"),
        # Marlin and its like: fp8 or fp4 storage on cards without the units.
        (("bf16", "fp16"), "fp8", "bf16"),
        (("bf16", "fp16", "fp8"), "mxfp4", "bf16"),
        (("fp32", "fp16"), "bf16", "fp16"),
        (("fp32",), "w4a16", "fp32"),
    ],
)
def test_cards_multiply_in_what_they_have(
    formats: tuple[str, ...], weight_format: str, compute: str
) -> None:
    found = compute_format(card(formats=formats), WEIGHT_FORMATS[weight_format])
    assert found == compute


def report(
    workload: Serving, layout: ParallelLayout, *, network: float | None = 50e9
) -> ServingReport:
    return describe_serving(
        architecture=LLAMA_70B,
        workload=workload.changed(kv_cache_format="fp8"),
        layout=layout,
        accelerator=card(),
        node=node(network=network),
        weight_format=WEIGHT_FORMATS["fp8"],
        calibration=calibration(layer_s=1e-5),
    )


def test_report_restates_the_arrays_with_ranges() -> None:
    found = report(Serving(concurrency=16), ParallelLayout(data=2, tensor=4))
    serving, memory = found.serving, found.memory
    assert sum(term.value for term in serving.terms) * 1e3 == pytest.approx(
        serving.tpot_ms.expected
    )
    assert serving.tpot_ms.high == pytest.approx(1.25 * serving.tpot_ms.expected)
    assert serving.tpot_ms.evidence is Evidence.CALIBRATED
    assert serving.replicas == 2
    assert serving.output_tokens_per_s.expected == pytest.approx(
        256 * serving.requests_per_s.expected
    )
    assert sum(term.value for term in memory.terms) == pytest.approx(memory.total_bytes.expected)
    assert memory.fits == (memory.total_bytes.high <= memory.usable_bytes)
    # 2 FLOPs for each weight of blocks and head, and 4 x 80 x 8192 for each of 1,152 keys.
    per_token = 2 * (70.5537e9 - 128256 * 8192) + 4 * 80 * 8192 * 1152
    assert found.flops.per_token == pytest.approx(per_token, rel=1e-4)


def test_every_term_has_a_text_and_a_known_source() -> None:
    texts = term_texts()
    assert texts["serving_time"].keys() == {item.name for item in fields(TokenShares)}
    assert texts["serving_memory"].keys() == {item.name for item in fields(ServingMemory)}
    cited = {text.reference for kind in texts.values() for text in kind.values()}
    assert cited - {None} <= references().keys()


def test_terms_state_the_values_of_the_case() -> None:
    found = report(Serving(concurrency=16), ParallelLayout(data=2, tensor=4))
    texts = {term.name: term.substituted for term in (*found.memory.terms, *found.serving.terms)}
    assert texts["kv_cache"] == (
        "8 requests x 1,280 tokens x 163,840 elements x 1 bytes / (tensor 4 x pipeline 1)"
    )
    # 1,152 tokens x 163,840 / 4 bytes.
    assert texts["cache"] == "8 requests x 47.19 MB at 1,152 tokens, 1 TB/s"


def test_report_refuses_a_group_without_a_link() -> None:
    with pytest.raises(InputError, match="the layout needs a link that this hardware lacks"):
        report(Serving(), ParallelLayout(tensor=16), network=None)


H200 = card(architecture="Hopper", bandwidth=4.8e12, peak=1978.9e12, memory=150.8e9)
B200 = card(architecture="Blackwell", bandwidth=7.7e12, peak=4500e12, memory=192.3e9)


@pytest.mark.parametrize(
    ("accelerator", "tensor", "concurrency", "input_tokens", "measured_ms"),
    [
        # aiconfigurator-core 0.12.0 silicon samples (Apache-2.0): Llama 3.1 70B in fp8, 1,024
        # generated tokens, vLLM and TensorRT-LLM.
        (H200, 1, 4, 1024, (20.4, 21.8)),
        (H200, 8, 4, 1024, (6.4, 7.9)),
        (H200, 4, 64, 1024, (13.7, 17.3)),
        (B200, 1, 4, 1024, (14.6, 16.3)),
        (B200, 4, 4, 1024, (6.6, 8.0)),
        (B200, 2, 32, 8192, (22.1, 25.4)),
        (B200, 4, 128, 8192, (41.3, 41.3)),
    ],
)
def test_measured_servings(
    *,
    root: Path,
    accelerator: Accelerator,
    tensor: int,
    concurrency: int,
    input_tokens: int,
    measured_ms: tuple[float, float],
) -> None:
    constants = load_calibration(root / "data" / "calibration.yaml")
    # 16-bit matrices run at half the rate of fp8 ones.
    half = accelerator.peak_flops_per_s["fp8"] / 2
    peaks = {**accelerator.peak_flops_per_s, "bf16": half, "fp16": half}
    configuration = candidates(
        ParallelLayout(tensor=tensor),
        accelerator=accelerator.model_copy(update={"peak_flops_per_s": peaks}),
        machine=node(link=900e9 if accelerator is B200 else 450e9),
        constants=constants,
        compute="fp8",
    )
    load = ServingLoad.of(
        Serving(input_tokens=input_tokens, output_tokens=1024, concurrency=concurrency)
    )
    times = serving_times(served(LLAMA_70B, "fp8", cache_bytes=1.0), load, configuration, constants)
    low, high = measured_ms
    assert 0.82 * low <= 1e3 * times.tpot_s[0] <= 1.22 * high
    assert times.capacity.fits[0]


def test_what_stays_in_16_bits_runs_as_in_a_16_bit_checkpoint() -> None:
    b200 = load_catalog().accelerator("b200-sxm")
    kernels, _ = load_calibration().kernels_for(b200)
    mixed = HardwareArrays.of(b200, node(), kernels, compute="fp4").in_16_bits()
    plain = HardwareArrays.of(b200, node(), kernels, compute="bf16")

    assert mixed.peak_flops_per_s[0] == 2.25e15  # NVIDIA's B200 datasheet, dense bf16
    for item in fields(plain):
        if item.name.startswith("matmul_"):
            assert getattr(mixed, item.name)[0] == getattr(plain, item.name)[0], item.name


def test_a_rare_request_waits_as_long_as_a_single_one() -> None:
    """Of a mixture of experts too, whose layers add to the engine's time for a request."""

    def first_ms(**load: float) -> float:
        found = advisor.estimate(
            {
                "model": {"preset": "deepseek-v3"},
                "workload": {"kind": "serving", "engine": "sglang", "input_tokens": 1000, **load},
                "hardware": {"accelerator": "b200-sxm", "count": 8},
            }
        ).serving
        assert found is not None
        return found.ttft_ms.expected

    assert first_ms(requests_per_s=1e-4) == pytest.approx(first_ms(concurrency=1), rel=1e-3)
