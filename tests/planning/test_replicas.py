"""Replicas of a server: what the search finds, beside every number of them on every offer."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import advisor
from advisor.catalog import Catalog
from advisor.catalog.nodes import node_for
from advisor.errors import InputError
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.card_formats import cache_format, compute_format
from advisor.estimate.results import Estimate
from advisor.estimate.serving.arrivals import under_arrivals
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.times import serving_times
from advisor.estimate.tools.engine import engine_of
from advisor.estimate.tools.serving_formats import served_format
from advisor.estimate.tools.software import ToolRules
from advisor.nouns.hardware import Accelerator, Node, Offer, PriceKind
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import KV_CACHE_FORMATS, WEIGHT_FORMATS
from advisor.nouns.workload import Serving
from advisor.planning.prepared import prepared
from advisor.planning.results import RejectionCode
from advisor.planning.search import served_rows
from advisor.planning.search.serving import most_replicas
from advisor.planning.search.software import equipped
from advisor.planning.search.systems import allowed_offers, find_systems
from advisor.planning.spot import upper_factor
from advisor.planning.time_ranges import TimeSpreads
from tests.cases import serve

DENSE, ROUTED = "llama-3.1-8b", "qwen3-30b-a3b"


def serving(model: str, users: int | str, **limits: Any) -> dict[str, Any]:
    load = {"concurrency": users} if isinstance(users, int) else {"requests_per_s": users}
    return {"model": {"preset": model}, "workload": {"kind": "serving", **load}, "limits": limits}


def cheapest(case: dict[str, Any]) -> Estimate:
    return advisor.recommend(case, brief=True).plans[0].estimate


@pytest.mark.parametrize("model", ["llama-3.1-70b", ROUTED])
def test_replicas_alike_take_the_times_of_their_own_machine(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search estimates them once for machines of several sizes."""
    estimated, shared = served_rows._text, []

    def beside_own(work: Any, table: Any) -> Any:
        found = estimated(work, table)
        served, candidates = work.candidates(table)
        load = ServingLoad.of(work.workload)
        own = served_rows._text_figures(served, load, candidates, work.calibration)
        for name in own.__match_args__:
            np.testing.assert_array_equal(getattr(found, name), getattr(own, name), name)
        shared.append(len(table) - len(np.unique(work.twins(table), axis=0)))
        return found

    monkeypatch.setattr(served_rows, "_text", beside_own)
    advisor.recommend(serving(model, 32, accelerators=["h100-sxm", "gb200", "a10g", "l4"]))
    assert max(shared) > 0


def test_single_cards_replace_a_pipeline() -> None:
    """Four H100 in one pipeline were advised for $11,943 a month; four single ones cost $6,744."""
    case = serving(DENSE, 1000, accelerators=["h100-sxm"], max_tpot_ms=100)
    plan = advisor.recommend(case).plans[0]
    rent = plan.estimate.cost.rent_usd
    assert rent is not None
    assert rent.expected <= 6744
    assert plan.estimate.layout.tensor == plan.estimate.layout.pipeline == 1
    assert f"{plan.replicas} replicas of 1x NVIDIA H100" in plan.sentence


def test_cards_without_a_network_serve_many_users() -> None:
    """200 users on 4090s had no answer: no offer of them states a network."""
    plan = cheapest(serving(DENSE, 200, accelerators=["rtx-4090"]))
    assert plan.layout.replicas == plan.count > 1
    asked = {
        **serving(DENSE, 200),
        "hardware": {"accelerator": "rtx-4090", "count": plan.count},
        "layout": {"data": plan.count},
    }
    again = advisor.estimate(asked)
    assert again.serving is not None
    assert plan.serving is not None
    assert again.serving.tpot_ms == plan.serving.tpot_ms
    assert again.cost.rent_usd == plan.cost.rent_usd


def test_owning_rents_the_same_replicas() -> None:
    """Offers without a network hold replicas in rent or buy, too."""
    case = serving(DENSE, 200, accelerators=["rtx-4090"])
    plan = cheapest(case)
    hardware = {"accelerator": plan.accelerator, "count": plan.count}
    layout = {"data": plan.layout.data}
    found = advisor.own({**case, "hardware": hardware, "layout": layout})
    assert str(plan.cost.provider) in found.to_json()


def test_a_replica_without_a_network_stays_on_one_machine() -> None:
    """70B in 16 bits takes 141 GB: four RTX A6000 of 48 GB hold it, six RTX 4090 would.

    No offer of either card states a network. Machines of four and eight A6000 are rented, and
    but at RunPod RTX 4090 one by one.
    """
    cards = load_catalog_offers("rtx-a6000", "rtx-4090")
    offers = [offer for offer in cards if offer.provider != "RunPod"]
    assert all(offer.inter_node_bytes_per_s is None for offer in offers)
    case = serving("llama-3.1-70b", 64, accelerators=["rtx-a6000", "rtx-4090"])
    case["limits"]["providers"] = sorted({offer.provider for offer in offers})
    case["workload"]["weight_format"] = "bf16"
    found = advisor.recommend(case)
    plans = [plan.estimate for ranking in found.rankings for plan in ranking.plans]
    assert plans
    for plan in plans:
        [machine] = {
            offer.accelerators for offer in offers if offer.instance_type == plan.cost.instance_type
        }
        assert plan.accelerator == "rtx-a6000"
        assert 4 <= plan.layout.tensor * plan.layout.pipeline <= machine
    [lost] = [item for item in found.rejections if item.accelerator == "rtx-4090"]
    assert lost.code is RejectionCode.MEMORY


def load_catalog_offers(*accelerators: str) -> list[Offer]:
    offers = advisor.load_catalog().offers
    return [offer for offer in offers if offer.accelerator in accelerators]


DEMANDS = (
    serving(DENSE, "600/min", max_ttft_ms=300, at="p95"),
    serving(DENSE, "70/s", max_tpot_ms=25),
    serving(DENSE, 333, max_tpot_ms=40),
    serving(DENSE, 1000, max_tpot_ms=60),
    serving(DENSE, 1700, max_ttft_ms=400, max_tpot_ms=200),
    serving(DENSE, 700, max_tpot_ms=50, max_ttft_ms=300),
    serving(DENSE, 600, max_tpot_ms=80, providers=["RunPod", "Lambda"]),
    serving(DENSE, 450, max_tpot_ms=30, accelerators=["l40s", "h100-sxm"]),
    serving(ROUTED, "31/s", max_tpot_ms=40, at="p99"),
    serving(ROUTED, 900, max_tpot_ms=60),
    serving("qwen3-32b", "200 users x 60/h", max_tpot_ms=60),
    serving("llama-3.1-70b", 77, max_tpot_ms=70, max_accelerators=64),
)


@pytest.mark.parametrize("case", DEMANDS, ids=range(len(DEMANDS)))
def test_no_number_of_replicas_on_any_offer_is_cheaper(case: dict[str, Any]) -> None:
    asked = {**case, "limits": {"max_accelerators": 64, **case["limits"]}}
    cost = cheapest(asked).cost
    assert cost.rent_usd is not None
    # Plans are ranked by what their price may be today.
    most = cost.rent_usd.high * cost.price_may_be
    assert most <= 1.01 * brute_force(asked, advisor.load_catalog(), up_to=1.1 * most) < np.inf


@cache
def divisions(
    machine: int, *, widest: int, heads: int, most: tuple[int, int]
) -> tuple[LayoutArrays, NDArray[np.int_]]:
    """Every division of up to so many machines into up to so many replicas, and its machines."""
    layouts, instances = [], []
    for number, tensor, pipeline in product(range(1, most[0] + 1), (1, 2, 4, 8, 16), (1, 2, 4)):
        replicas = min(number * machine // (tensor * pipeline), most[1])
        if replicas and heads % tensor == 0 and tensor <= widest:
            layouts.append(ParallelLayout(data=replicas, tensor=tensor, pipeline=pipeline))
            instances.append(number)
    return LayoutArrays.stack(layouts), np.array(instances, dtype=int)


def brute_force(content: dict[str, Any], catalog: Catalog, *, up_to: float) -> float:
    """Least rent of a month: every offer, every number of instances, every division. [USD]

    Infinite if it is above ``up_to``: what costs more is not looked at.
    """
    asked = prepared(advisor.load_case(content), catalog)
    case, catalog = asked.case, asked.catalog
    model, calibration = asked.architecture, asked.calibration
    work, limits = case.workload, case.limits
    assert isinstance(work, Serving)
    tools = {
        item.accelerator.key: item.tool
        for item in equipped(
            ToolRules.of(case, model), find_systems(catalog, limits, training=False)
        )
    }
    spreads = TimeSpreads(model, calibration, work)

    def least(card: Accelerator, rents: dict[Node, float]) -> float:
        """Least rent of such machines that meets the limits, infinite if none does."""
        divided = [
            divisions(
                node.accelerators,
                widest=max(node.accelerators, node.intra_domain),
                heads=model.num_attention_heads,
                most=(limits.max_accelerators // node.accelerators, most_replicas(work)),
            )
            for node in rents
        ]
        layouts = LayoutArrays.joined([layouts for layouts, _ in divided])
        usd = np.concatenate(
            [rent * number for rent, (_, number) in zip(rents.values(), divided, strict=True)]
        )
        machine = np.repeat(np.arange(len(rents)), [number.size for _, number in divided])
        tool = tools[card.key]
        name = served_format(work, model, card, tool)
        form = WEIGHT_FORMATS[name]
        constants = calibration.under(engine_of(tool, card, calibration))
        kernels, _ = constants.served_kernels(card, form)
        slowest = spreads.of(card, precision=name, count=1).high
        # An unproven card has to give the expected rate at the high end of its range.
        usd *= 1.0 if spreads.proven(card) else slowest
        looked_at = usd <= up_to
        if not looked_at.any():
            return float("inf")
        layouts, machine, usd = layouts.take(looked_at), machine[looked_at], usd[looked_at]
        served = ServedModel.of(
            model, weight_format=form, cache_bytes=KV_CACHE_FORMATS[cache_format(work, card)]
        )
        compute = compute_format(card, form)
        hardware = HardwareArrays.stack([(card, node, kernels, compute) for node in rents])
        candidates = Candidates(layouts, hardware.take(machine))
        if work.requests_per_s is None:
            times = serving_times(served, ServingLoad.of(work), candidates, constants)
            later, first, met = times.tpot_s, times.ttft_s, times.feasible
            queues = later, first
        else:
            found = under_arrivals(served, work, candidates, constants)
            (later, first), met = found.latencies(limits.at), found.stable
            met &= found.load * slowest <= 1
            # Steps at the high end of their range lengthen the queue, too.
            slow = np.full(len(later), slowest)
            queues = found.strained(slow).latencies(limits.at)
        later = np.maximum(later * slowest, queues[0]) * 1e3
        high = spreads.first(card, precision=name, at=limits.at).high
        first = np.maximum(first * high, queues[1]) * 1e3
        met &= later <= (limits.max_tpot_ms or np.inf)
        met &= first <= (limits.max_ttft_ms or np.inf)
        return float(min(usd[met], default=np.inf))

    # Most offers differ in nothing but place and price.
    rents: dict[str, dict[Node, float]] = {}
    for offer in allowed_offers(catalog, limits):
        if offer.accelerator not in tools or offer.accelerators > limits.max_accelerators:
            continue
        usd = (offer.on_demand_usd_per_hour or np.inf) * upper_factor(offer, PriceKind.ON_DEMAND)
        node = node_for(catalog.accelerator(offer.accelerator), offer).changed(assumptions=())
        known = rents.setdefault(offer.accelerator, {})
        known[node] = min(known.get(node, np.inf), usd * 730)
    return min(least(catalog.accelerator(key), machines) for key, machines in rents.items())


def test_estimate_and_plan_agree_under_a_rate() -> None:
    case = serving(DENSE, "20/s", max_ttft_ms=300, at="p95")
    plan = cheapest(case)
    assert plan.serving is not None
    assert plan.serving.arrivals is not None
    assert plan.serving.arrivals.percentiles is not None
    assert plan.serving.arrivals.percentiles.p95.ttft_ms.high <= 300
    hardware = {"accelerator": plan.accelerator, "count": plan.count}
    layout = {"data": plan.layout.data, "tensor": plan.layout.tensor}
    again = advisor.estimate({**case, "hardware": hardware, "layout": layout}).serving
    assert again is not None
    assert again.arrivals == plan.serving.arrivals


def test_too_many_requests_are_refused_with_what_is_completed() -> None:
    case = {**serving(DENSE, "100/s"), "hardware": {"accelerator": "h100-sxm", "count": 1}}
    found = advisor.estimate(case)
    assert found.serving is not None
    assert found.serving.arrivals is not None
    assert found.serving.arrivals.load > 1
    assert found.serving.arrivals.percentiles is None
    assert any("keep up" in sentence for sentence in found.missed_limits)


@pytest.mark.parametrize("spares", [0, 1])
def test_a_card_that_is_too_slow_says_what_it_carries(spares: int) -> None:
    limits = {"accelerators": ["h100-sxm"], "max_accelerators": 1 + spares}

    def asked(rate: float) -> advisor.Recommendation:
        case = serving(DENSE, f"{rate}/s", **limits)
        case["workload"] |= {"spare_replicas": spares}
        return advisor.recommend(case)

    too_much = asked(1000.0)
    assert not too_much.plans
    reason = next(item for item in too_much.rejections if item.accelerator == "h100-sxm")
    assert (reason.actual, reason.unit) == (1000, "requests/s")
    assert reason.limit is not None
    assert "keeps up with" in too_much.answer
    assert asked(0.98 * reason.limit).plans
    assert not asked(1.02 * reason.limit).plans


@pytest.mark.parametrize(("model", "rate"), [("bge-m3", 200), (DENSE, 6)])
def test_owned_cards_that_are_too_slow_are_counted_as_owned(model: str, rate: int) -> None:
    """Not as the 512 that one may rent; nor told of memory that a smaller format does not need."""

    def asked(count: int) -> advisor.Recommendation:
        case = serving(model, f"{rate}/s")
        case["limits"] = {"owned": [{"accelerator": "rtx-3060-12gb", "count": count}]}
        return advisor.recommend(case)

    one, four = asked(1), asked(4)
    for found, cards in ((one, "1 card"), (four, "4 cards")):
        assert not found.plans
        assert f"of the {rate} requests/s on {cards}." in found.answer
    first, fourth = (
        next(item.limit for item in found.rejections if item.accelerator == "rtx-3060-12gb")
        for found in (one, four)
    )
    assert first
    assert fourth
    assert fourth >= 3.99 * first
    named = re.search(r"About ([\d,]+) cards would", four.answer)
    assert named
    assert asked(int(named[1].replace(",", ""))).plans


def test_where_every_card_is_too_slow_no_host_is_searched() -> None:
    """A host's memory makes no card faster; its search took 8 s and 300 MB."""
    found = advisor.recommend(serving(DENSE, "1000000/s"))
    assert not found.plans
    assert found.searched < 200_000


def test_a_percentile_needs_a_rate() -> None:
    with pytest.raises(InputError, match="rate of requests"):
        advisor.load_case(serving(DENSE, 8, max_ttft_ms=300, at="p95"))


def test_users_and_a_rate_exclude_each_other() -> None:
    with pytest.raises(InputError, match="not both"):
        advisor.load_case(
            {
                "model": {"preset": DENSE},
                "workload": {"kind": "serving", "requests_per_s": 2, "concurrency": 4},
            }
        )


def test_a_load_that_is_too_high_names_how_many_cards_would_carry_it() -> None:
    asked = serve("llama-3.1-8b", "l4", 1, requests_per_s=100)
    [told] = [text for text in advisor.estimate(asked).missed_limits if "keep up" in text]
    named = re.search(r"About (\d+) times these accelerators", told)
    assert named
    more = serve("llama-3.1-8b", "l4", int(1.1 * int(named[1])), requests_per_s=100)
    assert not any("keep up" in text for text in advisor.estimate(more).missed_limits)
    fewer = serve("llama-3.1-8b", "l4", int(named[1]) // 4, requests_per_s=100)
    assert any("keep up" in text for text in advisor.estimate(fewer).missed_limits)


def test_no_replica_of_llama_cpp_spans_machines() -> None:
    # Its README calls the link between machines fragile and a proof of concept (tools/rpc).
    limits = {"accelerators": ["epyc-9454p"]}
    answer = advisor.recommend(serve("mistral-small-24b", concurrency=20, limits=limits))

    for ranking in answer.rankings:
        for plan in ranking.plans:
            assert plan.estimate.layout.pipeline == 1
