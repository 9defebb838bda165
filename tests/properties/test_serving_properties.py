"""Laws of serving that hold for every model, card and layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from advisor.architecture.presets import load_preset
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import owned_node
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.serving.arrivals import BurstTimes, burst_times
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.times import ServingTimes, serving_times
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import KV_CACHE_FORMATS, WEIGHT_FORMATS
from advisor.nouns.workload import Serving

MODELS = ("llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "qwen3-32b")
CARDS = ("h100-sxm", "a100-sxm-80gb", "l40s", "b200-sxm", "rtx-4090")
CONSTANTS = load_calibration()


ONE = ParallelLayout()
Load = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Deployed:
    """A preset on a card; ``link`` scales every link between cards."""

    model: str = "llama-3.1-8b"
    card: str = "h100-sxm"
    layout: ParallelLayout = ONE
    weights: str = "bf16"
    cache: str = "bf16"
    link: float = 1.0

    def served(self) -> ServedModel:
        return ServedModel.of(
            load_preset(self.model),
            weight_format=WEIGHT_FORMATS[self.weights],
            cache_bytes=KV_CACHE_FORMATS[self.cache],
        )

    def candidates(self) -> Candidates:
        card = load_catalog().accelerator(self.card)
        stored = WEIGHT_FORMATS[self.weights]
        node = owned_node(card, self.layout.data * self.layout.tensor * self.layout.pipeline)
        node = node.model_copy(
            update={
                "intra_bytes_per_s": node.intra_bytes_per_s * self.link,
                "pcie_bytes_per_s": node.pcie_bytes_per_s * self.link,
            }
        )
        kernels, _ = CONSTANTS.served_kernels(card, stored)
        compute = compute_format(card, stored)
        return Candidates(
            layout=LayoutArrays.of(self.layout),
            hardware=HardwareArrays.of(card, node, kernels, compute=compute),
        )

    def under(self, load: Load) -> ServingTimes:
        requests = ServingLoad.of(Serving.model_validate(load))
        return serving_times(self.served(), requests, self.candidates(), CONSTANTS)

    def burst(self, load: Load) -> BurstTimes:
        requests = ServingLoad.of(Serving.model_validate(load))
        return burst_times(self.served(), requests, self.candidates(), CONSTANTS, CONSTANTS.serving)


SETTINGS = settings(max_examples=60, deadline=None)
loads = st.fixed_dictionaries(
    {
        "input_tokens": st.integers(16, 30_000),
        "output_tokens": st.integers(2, 3000),
        "concurrency": st.integers(1, 400),
    }
)


@SETTINGS
@given(st.sampled_from(MODELS), st.sampled_from(CARDS), st.sampled_from((1, 2, 4, 8)), loads)
def test_throughput_does_not_rise_beyond_the_memory_of_the_cache(
    model: str, card: str, tensor: int, load: Load
) -> None:
    layout = ParallelLayout(tensor=tensor)
    times = Deployed(model, card, layout).under(load)
    most = int(times.capacity.possible_concurrency[0])
    assume(1 <= most <= 200_000)
    full = Deployed(model, card, layout).under({**load, "concurrency": most})
    for more in (2 * most, 5 * most):
        beyond = Deployed(model, card, layout).under({**load, "concurrency": more})
        assert beyond.output_tokens_per_s[0] <= full.output_tokens_per_s[0] * (1 + 1e-9)
        assert beyond.ttft_s[0] > full.ttft_s[0]


@SETTINGS
@given(
    st.sampled_from(MODELS),
    st.sampled_from(CARDS),
    st.sampled_from((1, 2, 4, 8)),
    st.integers(16, 30_000),
    st.integers(1, 64),
    st.integers(1, 400),
)
def test_more_users_never_lower_the_throughput_of_short_answers(
    model, card, tensor, prompt, answer, users
):
    """Those whose prompts wait cost nothing; queues with one server allow for a tenth."""
    load = {"input_tokens": prompt, "output_tokens": answer}
    deployed = Deployed(model, card, ParallelLayout(tensor=tensor))
    few = deployed.under({**load, "concurrency": users})
    assume(few.feasible[0])
    for more in (2 * users, 8 * users, 2048):
        many = deployed.under({**load, "concurrency": max(more, users)})
        assert many.requests_per_s[0] >= 0.9 * few.requests_per_s[0]


@SETTINGS
@given(st.sampled_from(MODELS), st.sampled_from(CARDS), st.sampled_from((1, 2, 4)), loads)
def test_wider_cache_never_serves_faster(model, card, tensor, load):
    """Whole requests: in a closed loop, longer answers bring prompts less often.

    So the first token alone may come a little sooner (the queue of a station shrinks as the time
    between visits grows: Reiser and Lavenberg 1980, doi:10.1145/322186.322195).
    """
    layout = ParallelLayout(tensor=tensor)
    narrow, wide = (
        Deployed(model, card, layout, cache=name).under(load) for name in ("fp8", "bf16")
    )
    assume(wide.capacity.possible_concurrency[0] >= load["concurrency"])
    assert wide.request_latency_s[0] >= narrow.request_latency_s[0] * (1 - 1e-9)
    assert wide.output_tokens_per_s[0] <= narrow.output_tokens_per_s[0] * (1 + 1e-9)


@SETTINGS
@given(st.sampled_from(MODELS), st.sampled_from(CARDS), st.integers(16, 30_000))
def test_wider_cache_never_brings_the_first_token_of_one_user_sooner(model, card, length):
    load = {"input_tokens": length, "output_tokens": 64, "concurrency": 1}
    narrow, wide = (Deployed(model, card, cache=name).under(load) for name in ("fp8", "bf16"))
    assert wide.ttft_s[0] >= narrow.ttft_s[0] * (1 - 1e-9)
    assert wide.tpot_s[0] > narrow.tpot_s[0]


@SETTINGS
@given(
    st.sampled_from(MODELS),
    st.sampled_from(CARDS),
    st.sampled_from(((2, 1), (4, 1), (1, 2), (2, 2))),
    st.floats(0.05, 0.95),
    loads,
)
def test_slower_links_never_help(model, card, degrees, link, load):
    layout = ParallelLayout(tensor=degrees[0], pipeline=degrees[1])
    fast = Deployed(model, card, layout).under(load)
    slow = Deployed(model, card, layout, link=link).under(load)
    assert slow.ttft_s[0] >= fast.ttft_s[0] * (1 - 1e-9)
    assert slow.tpot_s[0] >= fast.tpot_s[0] * (1 - 1e-9)
    assert slow.request_latency_s[0] >= fast.request_latency_s[0] * (1 - 1e-9)
    assert slow.output_tokens_per_s[0] <= fast.output_tokens_per_s[0] * (1 + 1e-9)


@SETTINGS
@given(st.sampled_from(MODELS), st.sampled_from(CARDS), st.integers(1, 4000), loads)
@example(
    "llama-3.1-70b", "l40s", 1, {"input_tokens": 22384, "output_tokens": 143, "concurrency": 14}
)
def test_longer_prompts_never_lower_the_time_to_the_first_token(model, card, more, load):
    short = Deployed(model, card).under(load)
    long = Deployed(model, card).under({**load, "input_tokens": load["input_tokens"] + more})
    assert long.ttft_s[0] >= short.ttft_s[0] * (1 - 1e-9)


def test_two_h100_serve_gpt_oss_faster_in_tensor_than_in_pipeline_parallel():
    # gpustack/gpustack @47277d7, docs/performance-lab/gpt-oss-120b/h100.md, vLLM 0.10.2: a thousand
    # ShareGPT requests at once give 7,649 tokens a second on TP2 and 5,338 on PP2.
    load = {"input_tokens": 215, "output_tokens": 196, "concurrency": 1000}
    rates = {}
    for name, layout in {
        "tensor": ParallelLayout(tensor=2),
        "pipeline": ParallelLayout(pipeline=2),
    }.items():
        times = Deployed("gpt-oss-120b", layout=layout, weights="mxfp4").burst(load)
        rates[name] = 1000 * 196 / float(times.whole_s[0])
    assert rates["tensor"] > rates["pipeline"]
    assert rates["tensor"] == pytest.approx(7649, rel=0.35)
    assert rates["pipeline"] == pytest.approx(5338, rel=0.35)


@pytest.mark.parametrize("concurrency", [16, 64, 256])
def test_one_machine_serves_70b_faster_in_tensor_parallel(concurrency):
    load = {"input_tokens": 1024, "output_tokens": 256, "concurrency": concurrency}
    tensor = Deployed("llama-3.1-70b", layout=ParallelLayout(tensor=8)).under(load)
    both = Deployed("llama-3.1-70b", layout=ParallelLayout(tensor=4, pipeline=2)).under(load)
    assert tensor.output_tokens_per_s[0] >= both.output_tokens_per_s[0]


def test_nf4_serves_slower_than_awq_and_than_16_bits():
    # bitsandbytes writes the weights out in 16 bits before each product of several rows.
    load = {"input_tokens": 512, "output_tokens": 256, "concurrency": 16}
    nf4, awq, wide = (
        Deployed(weights=name).under(load).tpot_s[0] for name in ("nf4", "w4a16", "bf16")
    )
    assert nf4 > wide > awq


def test_four_rtx_3090_serve_one_model_over_pcie():
    # Bridges join two; the others talk over PCIe.
    load = {"input_tokens": 512, "output_tokens": 256, "concurrency": 8}
    layout = ParallelLayout(tensor=4)
    times = Deployed("qwen3-32b", "rtx-3090", layout, weights="w4a16").under(load)
    assert np.isfinite(times.tpot_s[0])
    assert times.feasible[0]


def test_burst_of_one_request_is_one_request():
    load = {"input_tokens": 512, "output_tokens": 200, "concurrency": 1}
    whole = Deployed().burst(load).whole_s[0]
    alone = Deployed().under(load).request_latency_s[0]
    assert whole == pytest.approx(alone, rel=0.25)


def test_finite_burst_is_slower_than_the_full_engine():
    load = {"input_tokens": 217, "output_tokens": 202, "concurrency": 1000}
    burst = Deployed().burst(load)
    running = int(burst.running[0])
    full = Deployed().under({**load, "concurrency": running})
    assert 1000 * 202 / burst.whole_s[0] < full.output_tokens_per_s[0]


def test_prompts_wait_longer_the_more_they_vary() -> None:
    """Kingman: half of the squared variation of the prompts adds to that of their arrivals."""
    load = {"input_tokens": 2048, "output_tokens": 128, "concurrency": 64}
    alike, spread, wide, unstated = (
        float(Deployed().under(load | {"input_tokens_p95": high}).ttft_s[0])
        for high in (2048, 4096, 7000, None)
    )
    assert alike < spread < wide
    # As much as exponential times vary, unless a case says more.
    assert alike < unstated < wide
