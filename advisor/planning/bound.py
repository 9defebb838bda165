"""A lower bound of step times, cheap enough to decide which layouts are worth timing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.model import ModelArchitecture
from advisor.architecture.sample import Unit
from advisor.efficiency import NetworkEfficiency, SoftwareFacts
from advisor.equations.memory import stage_share
from advisor.equations.pipeline import bubble_time_s
from advisor.estimate.candidates import Candidates, Floats, HardwareArrays, LayoutArrays
from advisor.estimate.run import TrainingRun
from advisor.estimate.training_time import one_micro_batch
from advisor.estimate.training_traffic import model_traffic
from advisor.planning.layouts import RECOMPUTE_LEVELS, LayoutGrid

Indices = NDArray[np.intp]

ROUNDING: Final = 1e-9
"""The bound is lowered by this share, far above the rounding of a few sums."""


class StepBound:
    """Least step time of the rows of a grid on some systems.

    Parameters
    ----------
    architecture : ModelArchitecture
    run : TrainingRun
    grid : LayoutGrid
    systems : HardwareArrays
        One element per system.
    card : ndarray
        Equal numbers for systems of the same accelerator, counted from 0.
    network : NetworkEfficiency
    software : SoftwareFacts

    Notes
    -----
    Exact as a bound: a step takes at least its kernels (or their launches) and the traffic that
    divides layers, for every micro-batch and for the bubble; the traffic of data parallelism, the
    hops between stages and the optimizer only add to that. Kernels of one micro-batch depend on
    the accelerator and on how a layer is cut (tensor, context, expert, micro-batch, recompute),
    traffic on the machine and the same cut, and both are affine in the share of the layers that a
    stage holds. So tables over the few cuts that occur serve all numbers of accelerators.
    """

    def __init__(
        self,
        architecture: ModelArchitecture,
        run: TrainingRun,
        grid: LayoutGrid,
        systems: HardwareArrays,
        card: Indices,
        network: NetworkEfficiency,
        software: SoftwareFacts,
    ) -> None:
        rows = grid.layouts.take(slice(0, grid.rows))
        # Degrees are whole numbers below 10,000: one float holds the four exactly.
        cuts = ((rows.tensor * 1e4 + rows.context) * 1e4 + rows.expert) * 1e4 + rows.micro_batch
        _, first, cut = np.unique(cuts, return_index=True, return_inverse=True)
        self._cut: Indices = cut.reshape(-1)
        self._cuts, self._card = len(first), card
        self._share = np.asarray(
            stage_share(
                layers=float(architecture.num_hidden_layers),
                pipeline=rows.pipeline,
                virtual_stages=rows.virtual_stages,
            )
        )
        micro_batches = np.ceil(run.global_batch / (rows.micro_batch * rows.data))
        bubble = bubble_time_s(
            micro_batch_s=1.0, pipeline=rows.pipeline, virtual_stages=rows.virtual_stages
        )
        slowdown = software.slowdown_of(samples=run.unit is Unit.IMAGE)
        self._passes = slowdown * (1 - ROUNDING) * (micro_batches + np.asarray(bubble))
        levels = first + grid.rows * np.arange(RECOMPUTE_LEVELS)[:, None]
        layouts = grid.layouts.take(levels.reshape(-1))
        _, one_of_each = np.unique(card, return_index=True)
        self._kernels = _kernel_times(
            architecture, run, _crossed(layouts, systems.take(one_of_each)), software
        )
        # Traffic differs only by whether everything is recomputed.
        ends = grid.layouts.take(levels[[0, -1]].reshape(-1))
        self._traffic = _traffic_times(
            architecture, run, _crossed(ends, systems), network, software
        )

    def step_s(self, system: Indices, policy: Indices, row: Indices) -> Floats:
        """Lower bound of the step time, one element per configuration. [s]

        Parameters
        ----------
        system : ndarray
            Place in ``systems``.
        policy : ndarray
            Recompute level.
        row : ndarray
            Row of the grid.
        """
        cut = policy * self._cuts + self._cut[row]
        key = self._card[system] * (RECOMPUTE_LEVELS * self._cuts) + cut
        share = self._share[row]
        kernels, kernels_of_ends, launches, launches_of_ends = self._kernels
        once = np.maximum(
            kernels[key] * share + kernels_of_ends[key],
            launches[key] * share + launches_of_ends[key],
        )
        everything = policy == RECOMPUTE_LEVELS - 1
        sent = (system * 2 + everything) * self._cuts + self._cut[row]
        once += self._traffic[sent] * share
        return np.asarray(self._passes[row] * once)


def _crossed(layouts: LayoutArrays, hardware: HardwareArrays) -> Candidates:
    """Return every layout on every piece of hardware, the layouts running fastest."""
    per_card, number = len(layouts.tensor), len(hardware.memory_bytes)
    return Candidates(
        layout=layouts.take(np.tile(np.arange(per_card), number)),
        hardware=hardware.take(np.repeat(np.arange(number), per_card)),
    )


def _kernel_times(
    architecture: ModelArchitecture,
    run: TrainingRun,
    candidates: Candidates,
    software: SoftwareFacts,
) -> Sequence[Floats]:
    """Kernels and launches of one micro-batch: of all layers, and of the ends alone. [s]"""
    tokens = candidates.layout.micro_batch * run.tokens_per_sample / candidates.layout.context

    def both(share: float) -> tuple[Floats, Floats]:
        one = one_micro_batch(
            architecture, run, candidates, software, np.full_like(tokens, share), tokens
        )
        kernels = sum(getattr(one, item.name) for item in fields(one) if item.name != "launches")
        return np.asarray(kernels), one.launches * software.launch_s

    (whole, whole_launches), (ends, end_launches) = both(1.0), both(0.0)
    return whole - ends, ends, whole_launches - end_launches, end_launches


def _traffic_times(
    architecture: ModelArchitecture,
    run: TrainingRun,
    candidates: Candidates,
    network: NetworkEfficiency,
    software: SoftwareFacts,
) -> Floats:
    """Traffic that divides layers, of one micro-batch through all layers. [s]"""
    tokens = candidates.layout.micro_batch * run.tokens_per_sample / candidates.layout.context
    with np.errstate(divide="ignore", invalid="ignore"):
        traffic = model_traffic(
            architecture, run, candidates, network, software, np.ones_like(tokens), tokens
        )
        return traffic.tensor + traffic.expert + traffic.context
