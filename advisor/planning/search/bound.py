"""Lower bounds of times, which decide which numbers and layouts are tried."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import Unit
from advisor.equations.training.memory import stage_share
from advisor.equations.training.pipeline import bubble_time_s
from advisor.equations.training.traffic import slowest_s
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays
from advisor.estimate.hardware.kernel_times import dispatch_time, queue_time
from advisor.estimate.hardware.rates import library_peak
from advisor.estimate.training.delivered import machines_of
from advisor.estimate.training.micro_batch import one_micro_batch
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.traffic import (
    data_traffic,
    exposed_exchange,
    model_traffic,
    pipeline_traffic,
)
from advisor.foundation.units import HOUR_S
from advisor.nouns.limits import Constraints
from advisor.nouns.software.links_and_memory import NetworkEfficiency
from advisor.nouns.software.stacks import SoftwareFacts
from advisor.planning.search.layouts import RECOMPUTE_LEVELS, LayoutGrid
from advisor.planning.search.systems import System

Indices = NDArray[np.intp]

ROUNDING: Final = 1e-9
"""The bound is lowered by this share, far above the rounding of a few sums."""


class StepBound:
    """Lower bound of the step time of each row of a grid on some systems.

    ``card``: equal numbers for systems of the same accelerator, counted from 0.

    Notes
    -----
    Exact as a bound: a step takes at least its kernels (or their launches) and the traffic that
    divides layers, for every micro-batch and for the bubble; the traffic of data parallelism, the
    hops between stages and the optimizer only add to that. Kernels of one micro-batch depend on
    the accelerator and on how a layer is cut (tensor, context, expert, micro-batch, recompute),
    traffic on the machine and the same cut, and both are affine in the share of the layers that a
    stage holds. So tables over the few cuts that occur serve all numbers of accelerators.
    ``tightened`` adds what has no such table: exposed traffic of data parallelism, hops that no
    other stage hides, and the wait for the slowest machine.
    """

    def __init__(
        self,
        run: TrainingRun,
        grid: LayoutGrid,
        systems: HardwareArrays,
        card: Indices,
        network: NetworkEfficiency,
        software: SoftwareFacts,
    ) -> None:
        self._run, self._network = run, network
        self._grid, self._systems = grid, systems
        rows = grid.layouts.take(slice(0, grid.rows))
        # Degrees are whole numbers below 10,000: one float holds the four exactly.
        cuts = ((rows.tensor * 1e4 + rows.context) * 1e4 + rows.expert) * 1e4 + rows.micro_batch
        _, first, cut = np.unique(cuts, return_index=True, return_inverse=True)
        self._cut: Indices = cut.reshape(-1)
        self._cuts, self._card = len(first), card
        self._share = np.asarray(
            stage_share(
                layers=float(run.architecture.num_hidden_layers),
                pipeline=rows.pipeline,
                virtual_stages=rows.virtual_stages,
            )
        )
        self._micro_batches = np.ceil(run.global_batch / (rows.micro_batch * rows.data))
        bubble = bubble_time_s(
            micro_batch_s=1.0, pipeline=rows.pipeline, virtual_stages=rows.virtual_stages
        )
        slowdown = software.slowdown_of(samples=run.unit is Unit.IMAGE, adapters=run.frozen)
        self._factor = (1 - ROUNDING) * slowdown
        # A schedule from both ends has a smaller bubble of its own.
        bubble = np.where(rows.dual, 0.0, bubble)
        self._passes = self._factor * (self._micro_batches + bubble)
        layouts = grid.layouts.take(first)
        _, one_of_each = np.unique(card, return_index=True)
        cards = systems.take(one_of_each[:, None, None])
        policies = layouts.under(*range(RECOMPUTE_LEVELS))
        self._kernels = _kernel_times(run, Candidates(policies, cards), software)
        # Traffic differs only by whether everything is recomputed, and by the links.
        links = np.stack(
            [
                systems.node_accelerators,
                systems.intra_domain,
                systems.intra_bytes_per_s,
                systems.pcie_bytes_per_s,
                systems.inter_bytes_per_s,
                systems.staged,
            ]
        )
        _, one_of_each, link = np.unique(links, axis=1, return_index=True, return_inverse=True)
        self._link: Indices = link.reshape(-1)
        machines = systems.take(one_of_each[:, None, None])
        ends = layouts.under(0, RECOMPUTE_LEVELS - 1)
        self._traffic, self._exchange = _traffic_times(
            run, Candidates(ends, machines), network, software
        )
        # From both ends, computation may hide an exchange whole.
        plain = replace(rows, schedule=np.where(rows.dual, 0.0, rows.schedule))
        shown = exposed_exchange(np.ones(grid.rows), np.inf, plain, software)
        self._shown = np.where(rows.dual, 0.0, shown)
        self._software = software

    def step_s(self, system: Indices, policy: Indices, row: Indices) -> Floats:
        """Lower bound of the step time, one element per configuration. [s]"""
        traffic, exchange = self._traffic_s(system, policy, row)
        traffic = traffic + exchange * self._shown[row]
        once = self._kernels_s(system, policy, row) + traffic * self._share[row]
        return np.asarray(self._passes[row] * once)

    def tightened(self, system: Indices, policy: Indices, row: Indices) -> Floats:
        """Lower bound with what has no table, which is nearly the step time itself. [s]"""
        layout = self._grid.layouts.take(policy * self._grid.rows + row)
        candidates = Candidates(layout=layout, hardware=self._systems.take(system))
        run, network, share = self._run, self._network, self._share[row]
        micro_batches, kernels = self._micro_batches[row], self._kernels_s(system, policy, row)
        tokens = layout.micro_batch * run.tokens_per_sample / layout.context
        traffic, exchange = (share * part for part in self._traffic_s(system, policy, row))
        shown = exposed_exchange(exchange, (1 + ROUNDING) * kernels, layout, self._software)
        shown = np.where(layout.dual, 0.0, shown)
        # Stages of several chunks compute another one while they send, at most as long as this.
        beside = (1 + ROUNDING) * (kernels + traffic + exchange)
        beside = np.where(layout.dual, np.inf, np.where(layout.virtual_stages > 1, beside, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            data = data_traffic(
                run, candidates, network, self._software, share, micro_batches, kernels, traffic
            )
            hops = pipeline_traffic(run, candidates, network, share, tokens)
            # Without a network, nothing hides them.
            hops = np.where(np.isinf(hops), hops, np.maximum(0.0, hops - beside))
        waits = slowest_s(
            cover_s=micro_batches * kernels,
            machines=machines_of(candidates),
            jitter=network.image_jitter if run.unit is Unit.IMAGE else network.jitter,
        )
        beside_layers = data + micro_batches * hops + waits
        return np.asarray(
            self._passes[row] * (kernels + traffic + shown) + self._factor * beside_layers
        )

    def _traffic_s(
        self, system: Indices, policy: Indices, row: Indices
    ) -> tuple[Floats, Floats | float]:
        """Traffic of one micro-batch over all layers, and exchanges between experts. [s]"""
        everything = policy == RECOMPUTE_LEVELS - 1
        sent = (self._link[system] * 2 + everything) * self._cuts + self._cut[row]
        experts = self._run.architecture.num_experts > 1
        return self._traffic[sent], self._exchange[sent] if experts else 0.0

    def _kernels_s(self, system: Indices, policy: Indices, row: Indices) -> Floats:
        """Kernels of one micro-batch, or their launches if they take longer. [s]"""
        cut = policy * self._cuts + self._cut[row]
        key = self._card[system] * (RECOMPUTE_LEVELS * self._cuts) + cut
        share = self._share[row]
        kernels, kernels_of_ends, launches, launches_of_ends = self._kernels
        longest: Floats = np.maximum(
            kernels[key] * share + kernels_of_ends[key],
            launches[key] * share + launches_of_ends[key],
        )
        return longest


def within_reach(
    system: System,
    run: TrainingRun,
    flops: float,
    limits: Constraints,
    has_layouts: Callable[[int], bool],
    price: float,
    *,
    with_ends: bool = True,
) -> System:
    """Drop counts whose roofline misses the deadline or the budget.

    ``with_ends``: keep what shows by how much a card misses: the largest and the smallest count
    that has a layout, and those that only the budget would drop.

    The pruning is exact: no configuration is faster than its FLOPs at the dense peak, so no
    dropped one could meet the limits.

    ``flops``: of the whole run, without recomputation. [FLOPs] ``has_layouts``: whether any layout
    exists for a number of accelerators. ``price``: of one machine. [USD/h]
    """
    peak = library_peak(system.accelerator, run.recipe.compute)
    if peak is None or (limits.deadline_hours is None and limits.budget_usd is None):
        return system
    deadline = limits.deadline_hours or float("inf")
    budget = limits.budget_usd or float("inf")

    def reachable(count: int) -> bool:
        hours = flops / (count * peak) / HOUR_S
        instances = -(-count // system.node.accelerators)
        return hours <= deadline and (with_ends or hours * instances * price <= budget)

    possible = [count for count in system.counts if has_layouts(count)]
    ends = {*possible[:1], *possible[-1:]} if with_ends else set()
    kept = tuple(count for count in possible if reachable(count) or count in ends)
    return replace(system, counts=kept)


def _kernel_times(
    run: TrainingRun, candidates: Candidates, software: SoftwareFacts
) -> Sequence[Floats]:
    """Kernels and launches of one micro-batch: all layers, and embedding and head only. [s]

    Cards x policies x layouts in one row.
    """
    tokens = candidates.layout.micro_batch * run.tokens_per_sample / candidates.layout.context
    shares = np.array([1.0, 0.0]).reshape(2, 1, 1, 1)
    one = one_micro_batch(run, candidates, software, shares, tokens)
    kernels = sum(getattr(one, item.name) for item in fields(one) if item.name != "launches")
    kernels = kernels + dispatch_time(one.launches, candidates.hardware, software)
    whole, ends = np.asarray(kernels).reshape(2, -1)
    launches, end_launches = queue_time(one.launches, candidates.hardware, software).reshape(2, -1)
    return whole - ends, ends, launches - end_launches, end_launches


def _traffic_times(
    run: TrainingRun, candidates: Candidates, network: NetworkEfficiency, software: SoftwareFacts
) -> tuple[Floats, Floats]:
    """Traffic of one micro-batch that divides layers: without experts, and of experts only.

    Machines x policies x layouts in one row. [s], [s]
    """
    layout = candidates.layout
    tokens = layout.micro_batch * run.tokens_per_sample / layout.context
    shape = (len(candidates.hardware.memory_bytes), len(layout.recompute), len(tokens))
    with np.errstate(divide="ignore", invalid="ignore"):
        traffic = model_traffic(run, candidates, network, software, np.ones_like(tokens), tokens)
        parts = traffic.tensor + traffic.context, traffic.expert
    plain, expert = (np.broadcast_to(part, shape).reshape(-1) for part in parts)
    return plain, expert
