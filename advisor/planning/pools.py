"""Disaggregated serving: one pool of replicas reads prompts, another writes the answers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import inf
from typing import Final, NamedTuple

import numpy as np

from advisor.equations.serving.queueing import many_servers_wait_s, tail_quantile_s
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.serving.arrivals import arrivals_of
from advisor.estimate.serving.cache import cached_bytes_per_sequence
from advisor.estimate.serving.demand import served_on
from advisor.estimate.serving.queued import PERCENTILES
from advisor.estimate.tools.software import ToolRules
from advisor.foundation.formatting import milliseconds, money, percent, rate
from advisor.foundation.quantities import Range
from advisor.foundation.units import HOURS_PER_MONTH, MILLISECOND
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.limits import Constraints, Objective
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.serving import Serving
from advisor.nouns.techniques import technique_facts
from advisor.planning.balancer import balancer_usd_per_month
from advisor.planning.explain.sentences import renter
from advisor.planning.placed import placement
from advisor.planning.prepared import PricedCase
from advisor.planning.results import Advice, Plan, Pools, Recommendation, Rejection
from advisor.planning.results import RejectionCode as Code
from advisor.planning.search.options import Option, meets_tpot
from advisor.planning.search.replicas import WIDE_EXPERTS
from advisor.planning.search.software import search_and_host
from advisor.planning.search.systems import LADDER, System, find_systems
from advisor.planning.usual_limits import usual_limits

EACH: Final = 24
"""Up to here, every number of cards is tried for the answers; beyond, steps of an eighth."""
MORE_READERS: Final = 8
"""Prefill replicas tried beyond those that keep up."""
STEP: Final = 8192
"""Tokens of prompts that a replica reads together. [tokens]"""
ALIKE: Final = 0.005
"""Bills that differ by less are equal in whole percents."""
KEPT: Final = 0.999
"""Share of a prompt that the pool of answers finds in its cache."""
Found = dict[tuple[str, ...], tuple[System, list[Option]]]
"""Options by accelerator, offer, tool and weight format."""


class _Readers(NamedTuple):
    option: Option
    """One replica: a model, or ranks that share its experts."""
    number: int
    read_s: float
    first_s: float
    """Time to a first token, expected and at the limits' risk. [s]"""
    cards: int


class _Pair(NamedTuple):
    rank: tuple[float, float]
    """High end of a month [USD], then the worse of both latencies over their limits."""
    system: System
    readers: _Readers
    writing: Option
    instances: int
    transfer_s: float
    usd_per_month: float


def in_pools(asked: PricedCase, ordinary: Recommendation) -> Recommendation:
    """Return a case's ordinary answer with the cheapest pair of pools, the cheaper of both first.

    Both pools rent one kind of machine, with one tool and one weight format. Each has its own
    queue at the stated rate of requests, or at that of the stated users under the ordinary plan. A
    prompt's cache crosses a machine's links, or the network if the pools take several machines.
    Of equal bills, the pair with more room under the latency limits counts.

    ``ordinary``: of the same case without ``disaggregated``.
    """
    limits = usual_limits(asked.case, asked.architecture)
    asked = asked.of(asked.case.changed(limits=limits))
    workload = asked.case.workload
    assert isinstance(workload, Serving)
    cheapest = [item.plans for item in ordinary.rankings if item.objective is Objective.CHEAPEST]
    plan = next((plans[0] for plans in cheapest if plans), None)
    rate = workload.requests_per_s or _rate(workload, plan, limits)
    offered = [
        replace(one, counts=_numbers(one.counts[-1]))
        for one in find_systems(asked.catalog, limits, training=False)
    ]
    halves = _halves(workload)
    prompts, answers = _prompts(asked, halves[0], offered), _found(asked, halves[1], offered)
    work = workload.changed(requests_per_s=rate)
    both = [(*prompts[key], answers[key][1]) for key in prompts.keys() & answers.keys()]
    pairs = (pair for one in both for pair in _pairs(asked, work, *one))
    best = min(pairs, key=lambda pair: pair.rank, default=None)
    if best is None:
        refused = _refused(asked, offered)
        answer = f"{refused.message} {refused.remedy} Without it: {ordinary.answer}"
        return ordinary.changed(answer=answer, pools=refused)
    pools = _described(asked, best, halves)
    suits = technique_facts().pools.words
    words = f"The plans below are ordinary: each replica reads and writes. {suits}"
    if not workload.requests_per_s:
        words += f" The users send {rate:.3g} requests/s at the speed of the ordinary plan."
    advice = (Advice(code="pools", severity="info", message=words), *ordinary.advice)
    answer = _answer(pools, plan, ordinary.answer)
    return ordinary.changed(answer=answer, pools=pools, advice=advice)


def _rate(workload: Serving, plan: Plan | None, limits: Constraints) -> float:
    """Return the requests that a number of users send, by Little's law. [requests/s]"""
    if plan is not None and plan.estimate.serving is not None:
        return plan.estimate.serving.requests_per_s.expected
    first, later = limits.max_ttft_ms or 0.0, limits.max_tpot_ms or 1.0
    return workload.concurrency / (first + workload.output_tokens * later) / MILLISECOND


def _halves(workload: Serving) -> tuple[Serving, Serving]:
    """Return a full step of prompts, as one replica reads them, and the answers to all of them."""
    together = (workload.step_tokens or STEP) // (workload.input_tokens - workload.cached_tokens)
    unused = (
        "requests_per_s demand input_tokens_p95 output_tokens_p95 acceptance text_kind speculation "
        "draft_tokens"
    )
    update = {"concurrency": max(int(together), 1), "output_tokens": 1, "spare_replicas": 0}
    reading = workload.changed(**dict.fromkeys(unused.split()), **update)
    images = dict.fromkeys(("images_per_request", "image_work"))
    return reading, workload.changed(prefix_hit_share=KEPT, **images)


def _numbers(most: int) -> tuple[int, ...]:
    eighths = {step * part // 8 for step in LADDER for part in range(8, 16)}
    return tuple(sorted({n for n in {*range(1, EACH + 1), *eighths} if 1 <= n < most} | {most}))


def _found(asked: PricedCase, workload: Serving, offered: Sequence[System]) -> Found:
    asked = asked.of(asked.case.changed(workload=workload))
    systems, result = search_and_host(asked, offered, advising=False)
    found: Found = {}
    for option in result.options:
        system, offer = systems[option.system], option.offer
        tool = system.tool.name if system.tool else ""
        key = system.accelerator.key, offer.key if offer else "", tool, option.precision
        found.setdefault(key, (system, []))[1].append(option)
    return found


def _prompts(asked: PricedCase, reading: Serving, offered: Sequence[System]) -> Found:
    """Return what reads prompts as one replica: a model, or ranks that share its experts."""
    prompts: Found = {}
    for ranks in (1, WIDE_EXPERTS) if asked.architecture.num_experts > 1 else (1,):
        layout = (asked.case.layout or ParallelLayout()).changed(data=ranks)
        load = reading.changed(concurrency=ranks * reading.concurrency)
        found = _found(asked.of(asked.case.changed(layout=layout)), load, offered)
        for key, (system, options) in found.items():
            joined = (one for one in options if one.layout.expert == ranks)
            prompts.setdefault(key, (system, []))[1].extend(joined)
    return prompts


def read_s(workload: Serving, at: str, queues: int, *, step_s: float, each_s: float) -> float:
    """Return the time to a first token in a pool of replicas; infinite if queues grow. [s]

    Each replica has a queue of its own, as where a router chooses at random: with equal prompts and
    Poisson arrivals, Eq. 1 of DistServe (arXiv:2401.09670).

    ``workload``: states the rate of all requests. ``step_s``: of the step that reads a prompt.
    ``each_s``: a busy replica's time for each prompt.
    """
    arrivals = arrivals_of(workload, np.array([float(queues)]))
    load = float(arrivals.rate_per_s[0] * each_s)
    if load >= 1:
        return inf
    wait_s = many_servers_wait_s(
        servers=1.0,
        service_s=each_s,
        load=load,
        arrival_scv=arrivals.arrival_scv,
        service_scv=arrivals.prompt_scv,
    )
    if at in PERCENTILES:
        wait_s = tail_quantile_s(waiting=load, mean_s=wait_s / load, share=PERCENTILES[at])
    return step_s + float(wait_s)


def _readers(
    workload: Serving, limits: Constraints, options: Sequence[Option]
) -> Iterator[_Readers]:
    """Yield pools of replicas that keep up; no other is faster with as few cards."""
    pools, rate, least_s = list[_Readers](), workload.requests_per_s or 0.0, inf
    for option in options:
        step_s, per_s = option.first_token_s or inf, option.tokens_per_s or 0.0
        # The low end of what they read keeps up.
        strain = option.later_s / option.time
        least = int(rate / per_s * strain) + 1
        ranks = int(option.layouts.data[option.row])
        for number in range(least, least + MORE_READERS):
            queues, each_s = number * ranks, ranks / per_s
            read, slow = (
                read_s(workload, limits.at, queues, step_s=factor * step_s, each_s=factor * each_s)
                for factor in (1.0, strain)
            )
            late = max(read * option.first_s / step_s, slow)
            cards = option.count * (number + workload.spare_replicas)
            pools.append(_Readers(option, number, read, late, cards))
    for one in sorted(pools, key=lambda one: (one.cards, one.first_s)):
        if one.first_s < least_s:
            least_s = one.first_s
            yield one


def _pairs(
    asked: PricedCase,
    workload: Serving,
    system: System,
    prompts: Sequence[Option],
    answers: Sequence[Option],
) -> Iterator[_Pair]:
    """Yield the pairs of pools on one kind of machine that meet the limits."""
    limits, rate = asked.case.limits, workload.requests_per_s or 0.0
    targets = limits.max_ttft_ms, limits.max_tpot_ms
    first_most, later_most = ((most or inf) * MILLISECOND for most in targets)
    form = WEIGHT_FORMATS[answers[0].precision]
    served = served_on(system.accelerator, asked.architecture, workload, form)
    whole, length = LayoutArrays.of(ParallelLayout()), float(workload.input_tokens)
    moved_bytes = float(cached_bytes_per_sequence(served, whole, length)[0])
    writers = [(one, _senders(one)) for one in answers if meets_tpot(one, limits)]

    @cache
    def wait_s(number: int, alone_s: float) -> float:
        return float(
            many_servers_wait_s(
                servers=float(number),
                service_s=alone_s,
                load=rate * alone_s / number,
                arrival_scv=1.0,
                service_scv=0.0,
            )
        )

    for readers, (writing, takers) in product(_readers(workload, limits, prompts), writers):
        cards = readers.cards + writing.cards
        bytes_per_s = _link_bytes_per_s(asked, system, cards)
        if cards > system.counts[-1] or not bytes_per_s:
            continue
        alone_s = moved_bytes / bytes_per_s / min(_senders(readers.option), takers)
        transfer_s = alone_s + wait_s(readers.number, alone_s)
        first_s = readers.first_s + transfer_s + writing.first_s
        instances = -(-cards // system.node.accelerators) if writing.offer else 0
        usd = instances * writing.usd_per_hour / max(writing.instances, 1) * HOURS_PER_MONTH
        if writing.offer and workload.load_balancer:
            usd += balancer_usd_per_month(writing.offer, workload, rate * workload.output_tokens)
        if first_s <= first_most and usd <= (limits.budget_usd or inf):
            high = usd * (writing.cost_high_usd / writing.cost_usd if writing.cost_usd else 1.0)
            rank = high, max(first_s / first_most, writing.later_s / later_most)
            yield _Pair(rank, system, readers, writing, instances, transfer_s, usd)


def _senders(option: Option) -> int:
    """Return the cards of one rank, each of which moves its part of a cache."""
    return int(option.layouts.tensor[option.row] * option.layouts.pipeline[option.row])


def _link_bytes_per_s(asked: PricedCase, system: System, cards: int) -> float:
    """Return the rate of one card between the pools; 0 without a network. [bytes/s]"""
    node, network = system.node, asked.calibration.network
    if cards > max(node.accelerators, node.intra_domain):
        return (node.inter_bytes_per_s or 0.0) * network.inter_bandwidth
    if cards <= node.intra_domain:
        return node.intra_bytes_per_s * network.intra_bandwidth
    return node.pcie_bytes_per_s * (network.pcie_bandwidth or network.intra_bandwidth)


def _described(asked: PricedCase, best: _Pair, halves: tuple[Serving, Serving]) -> Pools:
    """Return a pair of pools with their full estimates, and the answer's sentence."""
    readers, writing, transfer_ms = best.readers, best.writing, best.transfer_s / MILLISECOND
    prefill, decode = (
        estimate_configuration(asked.of(asked.case.changed(workload=half)), place)
        for half, option in zip(halves, (readers.option, writing), strict=True)
        for place in (placement(option, best.system),)
    )
    assert prefill.serving is not None
    assert decode.serving is not None
    shown, read = decode.serving.at(asked.case.limits.at), prefill.serving.ttft_ms
    read = read.scaled(readers.read_s / MILLISECOND / read.expected)
    ends = ("low", "expected", "high")
    total = {end: getattr(read, end) + transfer_ms + getattr(shown.ttft_ms, end) for end in ends}
    ttft = Range(**total, evidence=read.evidence.weakest(shown.ttft_ms.evidence))
    name, copies = best.system.accelerator.name, writing.layout.replicas
    where = f"Use {readers.cards + writing.cards:,} of your {name}"
    if writing.offer is not None:
        rented = best.instances * best.system.node.accelerators
        where = f"Rent {rented:,}x {name} at {renter(writing.offer)}"
    pools = [
        f"{number:,} {role} replica{'' if number == 1 else 's'} of {each:,}x {name}"
        for role, number, each in (
            ("prefill", readers.number, readers.option.count),
            ("decode", copies, writing.count // copies),
        )
    ]
    spare = f", with {writing.spares} spare in each pool" if writing.spares else ""
    pace = rate(shown.tpot_ms.scaled(MILLISECOND).reciprocal(), "tokens/s", with_range=True)
    first = milliseconds(ttft.scaled(MILLISECOND), with_range=True)
    month = f", {money(best.usd_per_month)} a month" if best.instances else ""
    software = f" {decode.software.sentence}" if decode.software else ""
    return Pools(
        sentence=f"{where}: {' and '.join(pools)}{spare}: {pace} for each user, first token "
        f"after {first} with {milliseconds(best.transfer_s)} for the cache on its way{month}."
        f"{software}",
        prefill_replicas=readers.number,
        prefill=prefill,
        decode_replicas=copies,
        decode=decode,
        instances=best.instances,
        transfer_ms=transfer_ms,
        ttft_ms=ttft,
        tpot_ms=shown.tpot_ms,
        usd_per_month=best.usd_per_month,
    )


def _answer(pools: Pools, plan: Plan | None, ordinary: str) -> str:
    """Return the cheaper of both answers first, and what the pools save or cost."""
    usd, rent = pools.usd_per_month, plan.estimate.cost.rent_usd if plan else None
    if plan is None or rent is None or not usd:
        other = f"Or: {plan.title}." if plan else "No ordinary plan meets the limits."
        return f"{pools.sentence} {other}"
    change = usd / rent.expected - 1
    if change >= ALIKE:
        return f"{ordinary} Two pools cost {percent(change)} more: {pools.sentence}"
    words = f"save {percent(-change)}" if change <= -ALIKE else "cost as much"
    plain = f"{plan.title}, {money(rent.expected)}"
    return f"{pools.sentence} Against the ordinary plan ({plain}) they {words}."


def _refused(asked: PricedCase, offered: Sequence[System]) -> Rejection:
    """Return why no two pools do the work."""
    rules = ToolRules.of(asked.case, asked.architecture)
    lacks = [(one.accelerator, rules.lack(one.accelerator)) for one in offered]
    card, lack = lacks[0] if lacks else (next(iter(asked.catalog.accelerators)), None)
    if lack is not None and all(found for _, found in lacks):
        return Rejection.of(card, Code.SOFTWARE, f"No two pools: {lack.reason}.", lack.remedy)
    remedy = "Allow slower answers, more cards, or machines with a network between them."
    return Rejection.of(card, Code.LATENCY, "No two pools meet the limits.", remedy)
