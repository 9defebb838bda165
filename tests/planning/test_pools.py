"""Prefill and decode in two pools: published facts, a simulation, and every pair of pools."""

from __future__ import annotations

from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import advisor
from advisor import api
from advisor.cli import main
from advisor.errors import InputError
from advisor.foundation.formatting import percent
from advisor.nouns.software.tools import known_tools
from advisor.nouns.workload import Serving
from advisor.planning.pools import read_s
from advisor.planning.results import Pools, Recommendation, Rejection
from tests.cases import serve

LONG: dict[str, Any] = {
    "input_tokens": 8192,
    "output_tokens": 256,
    "weight_format": "fp8",
    "requests_per_s": 4,
    "input_tokens_p95": 8192,
}
"""Prompts 32 times as long as the answers."""
ALIKE: dict[str, Any] = {"input_tokens": 1024, "input_tokens_p95": 1024}
"""Prompts of one length."""
TOKEN_BYTES = 2 * 80 * 8 * 128 * 2
"""Of the cache of Llama 3 70B: keys and values of 80 layers, 8 heads of 128, 2 bytes
(arXiv:2407.21783, table 3)."""
Moments = NDArray[np.float64]


def pooled(model: str, limits: dict[str, Any], **work: Any) -> Recommendation:
    case = serve(model, disaggregated=True, limits=limits, **work)
    return advisor.recommend(case, brief=True)


def pools_of(answer: Recommendation) -> Pools:
    assert isinstance(answer.pools, Pools)
    return answer.pools


@pytest.fixture(scope="module")
def tight() -> Recommendation:
    limits = {"accelerators": ["h100-sxm"], "max_ttft_ms": 2000, "max_tpot_ms": 20}
    return pooled("llama-3.1-70b", limits, **LONG)


def test_reading_waits_as_distserve_says() -> None:
    """DistServe, arXiv:2401.09670, Eq. 1: D + R D^2 / (2 (1 - R D)); 0.15 s at D = 0.1, R = 5."""
    work = Serving(requests_per_s=20, **ALIKE)
    assert read_s(work, "mean", 4, step_s=0.1, each_s=0.1) == pytest.approx(0.15)
    assert read_s(work, "mean", 2, step_s=0.1, each_s=0.1) == float("inf")


def passed(arrived: Moments, servers: int, each_s: float) -> Moments:
    """Return when requests leave servers that they queue at, each at one drawn at random. [s]"""
    generator = np.random.default_rng(servers)
    free, left = [0.0] * servers, []
    for moment, place in zip(arrived, generator.integers(servers, size=len(arrived)), strict=True):
        free[place] = max(free[place], moment) + each_s
        left.append(free[place])
    return np.array(left)


def simulated(
    rate: float, number: int, read: float, move: float, requests: int = 20_000
) -> Moments:
    """Return the times from arrivals to the end of the transfers. [s]"""
    came = np.cumsum(np.random.default_rng(7).exponential(1 / rate, requests))
    done = passed(came, number, read)
    order = np.argsort(done, kind="stable")
    moved = passed(done[order], number, move) - came[order]
    return moved[requests // 10 :]


@pytest.mark.parametrize(("load", "requests"), [(0.3, 10_000), (0.6, 20_000), (0.9, 150_000)])
def test_a_simulation_of_the_readers_agrees(load: float, requests: int) -> None:
    number, each_s = 3, 0.4
    work = Serving(requests_per_s=load * number / each_s, **ALIKE)
    times = simulated(load * number / each_s, number, each_s, 0.0, requests)
    mean = read_s(work, "mean", number, step_s=each_s, each_s=each_s)
    p95 = read_s(work, "p95", number, step_s=each_s, each_s=each_s)
    assert mean == pytest.approx(times.mean(), rel=0.1)
    assert p95 == pytest.approx(np.quantile(times, 0.95), rel=0.15)


def test_a_simulation_of_both_pools_agrees_with_the_answer(tight: Recommendation) -> None:
    """Readers, links and one decoding server whose step takes as long as its batch needs."""
    pools = pools_of(tight)
    read, wrote = pools.prefill.serving, pools.decode.serving
    assert read
    assert wrote
    moved_s = 8192 * TOKEN_BYTES / (4 * 0.8 * 50e9)  # four cards, 400 Gbit/s each, 80 % of it
    times = simulated(4, pools.prefill_replicas, read.ttft_ms.expected / 1000, moved_s)
    first = times.mean() * 1000 + wrote.tpot_ms.expected
    assert pools.ttft_ms.expected == pytest.approx(first, rel=0.1)
    # Steps of each batch, from estimates of so many requests at once.
    batches = [1, 4, 8, 16, 32]
    case = serve("llama-3.1-70b", "h100-sxm", 8, layout={"tensor": 8}, **LONG)
    work = case["workload"] | {"prefix_hit_share": 0.999}
    del work["requests_per_s"]
    steps = []
    for batch in batches:
        found = advisor.estimate({**case, "workload": work | {"concurrency": batch}}).serving
        assert found
        steps.append(found.tpot_ms.expected / 1000)
    generator = np.random.default_rng(3)
    arrivals = list(np.cumsum(generator.exponential(1 / 4, 2000)))
    clock, running, took = 0.0, list[tuple[float, int]](), list[float]()
    while arrivals or running:
        while arrivals and arrivals[0] <= clock:
            running.append((arrivals.pop(0), 256))
        if not running:
            clock = arrivals[0]
            continue
        clock += float(np.interp(len(running), batches, steps))
        took += [(clock - began) / 256 for began, left in running if left == 1]
        running = [(began, left - 1) for began, left in running if left > 1]
    assert pools.decode_replicas == 1
    assert pools.tpot_ms.expected == pytest.approx(1000 * float(np.mean(took[200:])), rel=0.1)


def test_the_cache_of_a_prompt_crosses_the_network(tight: Recommendation) -> None:
    """2.7 GB over the 400 Gbit/s of each card of a replica."""
    pools = pools_of(tight)
    least = 8192 * TOKEN_BYTES / (pools.prefill.layout.accelerators * 50e9) * 1000
    assert least <= pools.transfer_ms <= 1.5 * least
    assert pools.instances > 1


def test_two_pools_meet_a_tight_limit_for_less_and_the_answer_says_so(
    tight: Recommendation,
) -> None:
    """What DistServe promises: tighter limits for each token where prompts are long."""
    pools, plain = pools_of(tight), tight.plans[0].estimate.cost.rent_usd
    assert plain
    assert pools.usd_per_month < plain.expected
    saved = 1 - pools.usd_per_month / plain.expected
    readers = f"prefill replicas of {pools.prefill.layout.accelerators}x"
    for words in (readers, "decode replica of 8x", f"they save {percent(saved)}"):
        assert words in tight.answer
    told = next(item.message for item in tight.advice if item.code == "pools")
    for source in ("DistServe", "Splitwise", "vLLM's own documentation"):
        assert source in told
    assert pools.tpot_ms.high <= 20
    assert pools.ttft_ms.high <= 2000


def test_short_prompts_of_a_small_model_are_cheaper_in_one_pool() -> None:
    """NVIDIA's AIConfigurator keeps small models in one pool; vLLM: no more throughput."""
    work = {"input_tokens": 512, "output_tokens": 512, "requests_per_s": 5}
    answer = pooled("llama-3.1-8b", {"accelerators": ["h100-sxm"]}, **work)
    plain = answer.plans[0].estimate.cost.rent_usd
    assert plain
    assert pools_of(answer).usd_per_month >= plain.expected
    # The cheaper way comes first.
    ordinary, _, dearer = answer.answer.partition(" Two pools cost ")
    assert ordinary.startswith("Rent 1x NVIDIA H100")
    assert "prefill replica" in dearer


def brute_force(limits: dict[str, float], number: int, usd: float, work: dict[str, Any]) -> float:
    """Return the least month over layouts and numbers of two pools on machines of some cards."""
    found = []
    rate = work["requests_per_s"]
    prompt = {**work, "output_tokens": 1, "concurrency": 1}
    answers = {**work, "prefix_hit_share": 0.999}
    del prompt["requests_per_s"]
    writers = {}
    for then, writing in product((1, 2, 4, 8), range(1, 9)):
        layout = {"tensor": then, "data": writing}
        case = serve("llama-3.1-70b", "h100-sxm", then * writing, layout=layout, **answers)
        two = advisor.estimate(case)
        wrote = two.serving
        if not two.memory.fits or not wrote or not wrote.arrivals:
            continue
        slow = wrote.tpot_ms.high / wrote.tpot_ms.expected
        if wrote.arrivals.load * slow <= 1 and wrote.tpot_ms.high <= limits["later"]:
            writers[then, writing] = wrote.ttft_ms.high
    for first in (1, 2, 4, 8):
        case = serve("llama-3.1-70b", "h100-sxm", first, layout={"tensor": first}, **prompt)
        one = advisor.estimate(case)
        if not one.memory.fits or not one.serving:
            continue
        each_s = one.serving.ttft_ms.expected / 1000
        strain = one.serving.ttft_ms.high / one.serving.ttft_ms.expected
        behind = one.serving.tpot_ms.high / one.serving.tpot_ms.expected
        for reading, ((then, writing), begun) in product(range(1, 17), writers.items()):
            load = rate * each_s / reading
            if load * behind >= 1:
                continue
            queued = each_s * load / (2 * (1 - load))
            moved_s = work["input_tokens"] * TOKEN_BYTES / (min(first, then) * 0.8 * 50e9)
            if (strain * (each_s + queued) + moved_s) * 1000 + begun <= limits["first"]:
                machines = ceil((first * reading + then * writing) / number)
                found.append(machines * usd * 730)
    return min(found)


@pytest.mark.parametrize(
    ("rate", "first", "later"), [(1, 3000, 30), (2, 2000, 20), (6, 3000, 40), (8, 2500, 15)]
)
def test_no_pair_of_pools_is_cheaper(rate: float, first: float, later: float) -> None:
    """At Gcore: machines of eight H100, $24.60 an hour, 400 Gbit/s for each card."""
    limits = {"accelerators": ["h100-sxm"], "providers": ["Gcore"], "max_accelerators": 128}
    work = {**LONG, "requests_per_s": rate}
    told = {"max_ttft_ms": first, "max_tpot_ms": later}
    pools = pools_of(pooled("llama-3.1-70b", {**limits, **told}, **work))
    usd = pools.usd_per_month / 730 / pools.instances
    least = brute_force({"first": first, "later": later}, 8, usd, work)
    assert pools.usd_per_month <= 1.01 * least


def test_without_a_network_both_pools_share_one_machine() -> None:
    """Denvr states no network between its machines of eight."""
    limits = {"accelerators": ["h100-sxm"], "providers": ["Denvr"], "max_tpot_ms": 40}
    small = pools_of(pooled("llama-3.1-70b", limits, **{**LONG, "requests_per_s": 1}))
    assert small.instances == 1
    large = pooled("llama-3.1-70b", limits, **{**LONG, "requests_per_s": 20})
    assert isinstance(large.pools, Rejection)
    assert "network" in large.pools.remedy
    assert large.plans


def test_an_engine_without_pools_is_refused_with_a_remedy() -> None:
    answer = pooled("llama-3.1-8b", {"accelerators": ["h100-sxm"]}, engine="llama.cpp")
    assert isinstance(answer.pools, Rejection)
    assert answer.pools.code.value == "software"
    assert "Use vLLM or SGLang or TensorRT-LLM" in answer.pools.remedy
    assert answer.pools.message in answer.answer


def test_published_engines_have_pools() -> None:
    """Their own documents: features/disagg_prefill, pd_disaggregation, disagg-serving."""
    offering = {name: tool.serving.pools for name, tool in known_tools().items() if tool.serving}
    with_pools = {name for name, vendors in offering.items() if vendors}
    assert with_pools == {"vllm", "sglang", "tensorrt-llm"}
    assert offering["tensorrt-llm"] == ("NVIDIA",)


@pytest.mark.parametrize("model", ["whisper-large-v3", "bge-large-en-v1.5", "resnet-50"])
def test_a_model_without_a_cached_prompt_is_refused(model: str) -> None:
    with pytest.raises(InputError, match="second pool"):
        advisor.recommend(serve(model, disaggregated=True))


def test_one_layout_has_no_pools() -> None:
    with pytest.raises(InputError, match="Ask recommend"):
        advisor.estimate(serve("llama-3.1-8b", "h100-sxm", 1, disaggregated=True))


def test_every_other_search_names_the_door_that_knows_pools() -> None:
    case = serve("llama-3.1-8b", disaggregated=True, concurrency=8)
    workload = {"name": "chat", "case": case}
    portfolio = advisor.load_portfolio({"workloads": [workload]})
    for ask in (
        lambda: api.turning(case).turns(),
        lambda: api.turning(case).cells(),
        lambda: api.own(case),
        lambda: api.plan_fleet(portfolio),
    ):
        with pytest.raises(InputError, match="Ask recommend"):
            ask()


def test_spares_and_own_cards() -> None:
    owned = {"owned": [{"accelerator": "rtx-4090", "count": 8}]}
    work = {"input_tokens": 4096, "requests_per_s": 2, "spare_replicas": 1}
    pools = pools_of(pooled("llama-3.1-8b", owned, **work))
    assert pools.usd_per_month == 0
    cards = pools.prefill.layout.replica_cards * (pools.prefill_replicas + 1)
    cards += pools.decode.layout.replica_cards * (pools.decode_replicas + 1)
    assert cards <= 8
    assert f"Use {cards} of your" in pools.sentence
    assert "1 spare in each pool" in pools.sentence


def test_users_send_what_the_ordinary_plan_answers() -> None:
    """Little's law: 64 users over the seconds that one request takes them."""
    limits = {"accelerators": ["h100-sxm"], "max_tpot_ms": 50}
    answer = pooled("llama-3.1-70b", limits, **{**LONG, "requests_per_s": None}, concurrency=64)
    serving = answer.plans[0].estimate.serving
    assert serving
    seconds = serving.ttft_ms.expected / 1000 + 255 * serving.tpot_ms.expected / 1000
    told = next(item.message for item in answer.advice if item.code == "pools")
    rate = float(told.partition("The users send ")[2].partition(" ")[0])
    assert rate == pytest.approx(64 / seconds, rel=0.1)


def test_the_command_line_says_the_same(
    tight: Recommendation, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "recommend --model llama-3.1-70b --task serve --requests-per-second 4 --input-tokens 8K"
    limits = "--output-tokens 256 --weights fp8 --max-ttft-ms 2000 --max-tpot-ms 20"
    card = "--accelerator h100-sxm --disaggregated yes --input-tokens-p95 8K"
    assert main([*words.split(), *limits.split(), *card.split()]) == 0
    before, words, _ = tight.answer.partition(" prefill replicas of 4x")
    assert f" {before.split()[-1]}{words}" in " ".join(capsys.readouterr().out.split())
