"""Changes that make a case fit; the engine computes each of them for that case."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.errors import InputError
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.fold import fold_adapters
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate, WayOut
from advisor.estimate.tools.serving_formats import ladder_of, ways_of
from advisor.estimate.tools.software import ToolRules
from advisor.estimate.training.run import offer_for, resolve_training
from advisor.foundation.record import record
from advisor.nouns.case import Case
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import RECIPES, WEIGHT_FORMATS
from advisor.nouns.training_choices import FineTuningMethod, GradientSync, Optimizer
from advisor.nouns.workload import FineTuning, Serving
from advisor.planning.explain.other_hardware import (
    Change,
    larger_cards,
    more_cards,
    more_host_memory,
)
from advisor.planning.explain.tuning import LIKELY
from advisor.planning.prepared import PricedCase
from advisor.planning.stated import best_placement, supported_precision

SACRIFICES: Final = (
    *("time", "software", "load", "numerics"),
    *("method", "lengths", "host", "cards"),
)
"""Smallest first: the same result, later, or by another tool; fewer requests; lower precision;
another method of training; shorter sequences; more memory in the computer; more money."""
LIKE: Final = 0.9
"""A card with less than this share of what a like card needs is not tried."""
SMALL_RANK: Final = 8
"""Of adapters; on all matrices it does as well as 64 (QLoRA, arXiv:2305.14314, appendix A)."""
SHORTEST: Final = 512
"""Tokens of the shortest sequences that are proposed."""
ATTENTION: Final = ("q", "k", "v", "o")
"""Projections of attention that adapters can sit on."""
HOSTED: Final = {
    Offload.OPTIMIZER: "optimizer states",
    Offload.PARAMETERS: "weights",
    Offload.ACTIVATIONS: "activations",
}
NAMES: Final = {level: f"ZeRO-{level.value.removeprefix('zero')}" for level in Sharding}


@record
class _Tight:
    """A case that does not fit, and what evaluates its changes."""

    asked: PricedCase
    placement: Placement
    estimate: Estimate

    def arranged(self, layout: ParallelLayout) -> Placement:
        """Return the placement in another layout, in which its tool may train another recipe."""
        case, place = self.asked.case.changed(layout=layout), replace(self.placement, layout=layout)
        if isinstance(case.workload, Serving):
            return place
        card, tool = place.accelerator, place.tool
        return replace(
            place, precision=supported_precision(case, card, self.asked.architecture, tool)
        )

    def tried(self, case: Case, place: Placement) -> Estimate | None:
        """Estimate a change; None if it cannot run, or its tool does not offer it."""
        if self._beyond(case, place) and not self._beyond(self.asked.case, self.placement):
            return None
        with suppress(InputError):  # The network cannot run in this layout or with this method.
            found = estimate_configuration(self.asked.of(case), place)
            cards = min(place.count, place.node.accelerators)
            if cards * found.memory.host_bytes.high <= place.node.host_memory_bytes:
                return found
        return None

    def _beyond(self, case: Case, place: Placement) -> tuple[str, ...]:
        """Return what a case asks that no tool, or a layout that its own tool does not offer."""
        workload = case.workload
        if isinstance(workload, Serving):
            return ()
        offer = offer_for(place.tool, workload, self.asked.architecture)
        four_bit = isinstance(workload, FineTuning) and workload.four_bit
        if lack := ToolRules.of(case, self.asked.architecture).lack(place.accelerator):
            return (lack.reason,)
        return () if offer is None else offer.lacking(place.layout, four_bit=four_bit)

    def placed(self, case: Case) -> Estimate | None:
        """Estimate a case in its best layout; None if the card lacks the number format."""
        with suppress(InputError):
            return self.tried(case, best_placement(self.asked.of(case)))
        return None

    def way(
        self, title: str, sacrifice: str, result: Estimate | None, *, likely: bool = False
    ) -> WayOut | None:
        """Return a change as a way out; None if it does not fit.

        ``likely``: it is enough that the expected total fits well.
        """
        if result is None:
            return None
        memory, expected = result.memory, result.memory.total_bytes.expected
        if not memory.fits and not (likely and expected <= LIKELY * memory.usable_bytes):
            return None
        needed = memory.needed_bytes
        return WayOut(
            change=title,
            sacrifice=sacrifice,
            needed_bytes=needed,
            usable_bytes=memory.usable_bytes,
            likely_bytes=None if memory.fits else expected,
            saved_bytes=max(0.0, self.estimate.memory.needed_bytes - needed),
            host_bytes=memory.host_bytes.high,
            time_ratio=_time(result) / _time(self.estimate),
        )


def ways_out(asked: PricedCase, placement: Placement, estimate: Estimate) -> tuple[WayOut, ...]:
    """Return the changes that make the case fit.

    Smallest sacrifice first, then the largest number formats or the fastest; empty if no change
    fits.
    """
    case, tight = asked.case, _Tight(asked, placement, estimate)
    found: list[WayOut] = []
    places = [("", placement)]
    for title, layout in _rearranged(case, asked.architecture, placement.layout):
        if layout.offload and placement.accelerator.shares_host_memory:
            continue
        place = tight.arranged(layout)
        way = tight.way(title, "time", tight.tried(case, place))
        if way:
            found.append(way)
        else:
            places.append((f" and {title}", place))
    for change in _changes(case, placement, estimate, asked.architecture):
        if not any(change.title.startswith(way.change) for way in found):
            found.extend(_with_layouts(tight, change, places))
    smaller = list(_smaller_adapters(case, asked.architecture, placement))
    likely = (
        way for change in smaller for way in _with_layouts(tight, change, places, likely=True)
    )
    found.extend(islice(chain(_first_that_fits(tight, smaller), likely), 1))
    hosted = any(way.host_bytes for way in found)  # in what the host has
    for changes in (
        _free_software(case),
        () if hosted else more_host_memory(case, placement, estimate),
        more_cards(case, placement),
        larger_cards(case, placement, asked.catalog),
    ):
        found.extend(_first_that_fits(tight, changes))
    return tuple(sorted(found, key=_order))


def _order(way: WayOut) -> tuple[int, float]:
    """Return the place of a way out; number formats come the largest first and stay so."""
    order = 0.0 if way.sacrifice == "numerics" else way.time_ratio
    return SACRIFICES.index(way.sacrifice), order


def _with_layouts(
    tight: _Tight, change: Change, places: Sequence[tuple[str, Placement]], *, likely: bool = False
) -> Iterator[WayOut]:
    """Yield a change in the first layout in which it fits: one alone may not be enough."""
    for also, other in places:
        place = replace(other, precision=change.precision or other.precision)
        result = tight.tried(change.case, place)
        if way := tight.way(change.title + also, change.sacrifice, result, likely=likely):
            yield way
            return


def _first_that_fits(tight: _Tight, changes: Iterable[Change]) -> Iterator[WayOut]:
    """Yield the first change of hardware that fits, without the host's memory if one does so."""
    needed = 0.0  # on the card that was tried last
    hosted: list[WayOut] = []
    for change in changes:
        # As many cards need about as much, whichever they are: most need not be tried.
        if change.room_bytes < LIKE * needed:
            continue
        result = tight.placed(change.case)
        needed = needed if result is None else result.memory.needed_bytes
        way = tight.way(_under(change, tight.estimate, result), change.sacrifice, result)
        if way and change.sacrifice == "cards" and way.host_bytes:
            hosted.append(way)
        elif way:
            yield way
            return
    yield from hosted[:1]


def _under(change: Change, before: Estimate, after: Estimate | None) -> str:
    """Return a change in words, with its software where that is another."""
    software = after.software if after else None
    if software is None or before.software is None or software.name == before.software.name:
        return change.title
    return f"{change.title} with {software.title}"


def _time(estimate: Estimate) -> float:
    """Return the time of the run, or per output token."""
    if estimate.time is not None:
        return estimate.time.run_hours.expected
    if estimate.serving is None:
        raise ValueError("an estimate has a time of training or of serving")
    return estimate.serving.tpot_ms.expected


def _rearranged(
    case: Case, architecture: ModelArchitecture, layout: ParallelLayout
) -> Iterator[tuple[str, ParallelLayout]]:
    """Yield layouts of the same training that need less, least changed first."""
    if isinstance(case.workload, Serving):
        return
    levels, policies = list(Sharding), list(Recompute)
    more_sharding = levels[levels.index(layout.sharding) + 1 :] if layout.data > 1 else []
    more_recompute = policies[policies.index(layout.recompute) + 1 :]
    least: dict[str, object] = {}
    words: list[str] = []
    for level in more_sharding:
        yield f"shard with {NAMES[level]}", layout.changed(sharding=level)
    for policy in more_recompute:
        title = f"recompute activations ({policy.value})"
        yield title, layout.changed(recompute=policy)
    if layout.micro_batch > 1:
        yield "micro-batch 1", layout.changed(micro_batch=1)
        words.append("micro-batch 1")
        least["micro_batch"] = 1
    if more_recompute:
        words.append("recompute activations (full)")
        least["recompute"] = Recompute.FULL
    if more_sharding:
        words.append(f"shard with {NAMES[Sharding.ZERO3]}")
        least["sharding"] = Sharding.ZERO3
    if len(words) > 1:
        yield " and ".join(words), layout.changed(**least)
    if architecture.unit is Unit.TOKEN:  # a search moves nothing of others to the host
        yield from _offloaded(case, layout, least)


def _offloaded(
    case: Case, layout: ParallelLayout, least: dict[str, object]
) -> Iterator[tuple[str, ParallelLayout]]:
    """Yield layouts that keep more in the host's memory; the last keeps there all it can."""
    method = getattr(case.workload, "method", None)
    kept = {Offload.OPTIMIZER} if method not in (None, FineTuningMethod.FULL) else set()
    if method is FineTuningMethod.QLORA and layout.data == 1:
        kept.add(Offload.PARAMETERS)  # only FSDP over several ranks moves 4-bit weights
    sharding = Sharding.ZERO3 if layout.data > 1 else layout.sharding
    moved = list(layout.offload)
    for what in Offload:
        if what in layout.offload or what in kept:
            continue
        moved.append(what)
        change: dict[str, object] = {"offload": (*layout.offload, what)}
        if what is Offload.PARAMETERS:
            change["sharding"] = sharding
        yield f"keep {HOSTED[what]} on the host", layout.changed(**change)
    if len(moved) > len(layout.offload) + 1:
        every = {**least, "offload": tuple(moved), "sharding": sharding}
        names = " and ".join(HOSTED[what] for what in moved)
        title = f"keep {names} on the host and as little as possible on the card"
        yield title, layout.changed(**every)


def _changes(
    case: Case, placement: Placement, estimate: Estimate, architecture: ModelArchitecture
) -> Iterator[Change]:
    """Yield other numerics, methods and loads."""
    workload = case.workload

    def changed(**fields: object) -> Case:
        return case.changed(workload=workload.changed(**fields))

    if isinstance(workload, Serving):
        at_once = estimate.serving.max_concurrency if estimate.serving else 0
        if 0 < at_once < workload.concurrency:
            noun = "request" if at_once == 1 else "requests"
            fewer = f"serve {at_once:,} {noun} at a time instead of {workload.concurrency:,}"
            title = f"{fewer} (--concurrency {at_once})"
            yield Change(title, "load", changed(concurrency=at_once))
        tool = placement.equipped(case, architecture).tool
        cache = (ladder_of(tool).cache if tool else None) or "fp8"
        small, smaller = f"cache in {cache} (--kv-cache {cache})", {"kv_cache_format": cache}
        narrows = workload.kv_cache_format != cache
        if narrows:
            yield Change(small, "numerics", changed(**smaller))
        size = WEIGHT_FORMATS[placement.precision].bytes_per_parameter
        for name in _narrower(case, architecture, placement):
            if WEIGHT_FORMATS[name].bytes_per_parameter >= size:
                continue
            title = f"weights in {name} (--weights {name})"
            yield Change(title, "numerics", changed(weight_format=name), precision=name)
            if narrows:
                both = changed(weight_format=name, **smaller)
                yield Change(f"{title} and {small}", "numerics", both, precision=name)
        return
    if workload.gradient_sync is GradientSync.LAST:
        each = changed(gradient_sync=GradientSync.EACH)
        yield Change("sum gradients after each micro-batch", "time", each)
    if workload.optimizer in (None, Optimizer.ADAMW):
        eight_bit = changed(optimizer=Optimizer.ADAMW_8BIT)
        yield Change("8-bit AdamW states (--optimizer adamw_8bit)", "numerics", eight_bit)
    if isinstance(workload, FineTuning):
        methods = list(FineTuningMethod)
        for method in methods[methods.index(workload.method) + 1 :]:
            title = "LoRA" if method is FineTuningMethod.LORA else "QLoRA"
            yield Change(f"train with {title}", "method", changed(method=method))


def _smaller_adapters(
    case: Case, architecture: ModelArchitecture, placement: Placement
) -> Iterator[Change]:
    """Yield fewer and smaller adapters, then shorter sequences with them, least harm first."""
    workload = case.workload
    if not isinstance(workload, FineTuning) or workload.method is FineTuningMethod.FULL:
        return
    recipe, tool = RECIPES[placement.precision], placement.equipped(case, architecture).tool
    run = resolve_training(workload, architecture, recipe, tool)
    fields: dict[str, object] = {}
    words: list[str] = []

    def change(more: str, sacrifice: str = "method", **update: object) -> Change:
        words.append(more)
        fields.update(update)
        changed = case.changed(workload=workload.changed(**fields))
        return Change(" and ".join(words), sacrifice, changed)

    if fold_adapters(run) > fold_adapters(replace(run, lora_targets=ATTENTION)):
        yield change("adapt attention alone (--lora-targets q,k,v,o)", lora_targets=ATTENTION)
    if run.lora_rank > SMALL_RANK:
        yield change(f"rank {SMALL_RANK} (--lora-rank {SMALL_RANK})", lora_rank=SMALL_RANK)
    length = run.sequence_length // 2
    while length >= SHORTEST and architecture.unit is Unit.TOKEN:
        shorter = f"sequences of {length:,} tokens (--sequence {length})"
        yield change(shorter, "lengths", sequence_length=length)
        words.pop()
        length //= 2


def _narrower(case: Case, architecture: ModelArchitecture, placement: Placement) -> tuple[str, ...]:
    """Return the weight formats that the placement's tool serves, largest first.

    A plan keeps the format of networks that do not generate, but their weights may be narrower.
    """
    tool, card = placement.equipped(case, architecture).tool, placement.accelerator
    found = tool.support(card) if tool else None
    if tool is None or found is None or not isinstance(case.workload, Serving):
        return ()
    if not architecture.generates:
        return tuple(name for name in WEIGHT_FORMATS if found[1].serves(card, name))
    free = case.workload.changed(weight_format=None)
    ways = ways_of((tool, found[1]), card, free, architecture)
    return tuple(dict.fromkeys(way.weight_format for way in ways))


def _free_software(case: Case) -> Iterator[Change]:
    """Yield the training without the stated software: others may hold less."""
    workload = case.workload
    if not isinstance(workload, Serving) and workload.software is not None:
        free = case.changed(workload=workload.changed(software=None))
        yield Change("leave the software to the advisor (no --software)", "software", free)
