"""The longest sequences that some cards train, alone and with their host's memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.terms import shape_widening
from advisor.estimate.tools.software import ToolRules
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.memory_report import memory_interval, usual_total
from advisor.estimate.training.run import TrainingRun, offer_for, resolve_training, takes_adapters
from advisor.foundation.record import record
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.tools import Tool
from advisor.nouns.training_choices import LORA_TARGETS, FineTuningMethod
from advisor.nouns.workload import FineTuning
from advisor.planning.fits.results import TrainedFit
from advisor.planning.search.layouts import layout_grid, offered
from advisor.planning.stated import supported_precision

LENGTHS: Final = (1, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Sequence lengths at which training memory is evaluated; between them see :func:`longest`."""


@record
class Trainer:
    """Fine-tunes models on some cards, one sequence per card at a time."""

    case: Case
    """Of another model and method; the hardware counts."""
    card: Accelerator
    count: int
    host_bytes: float
    """Memory of a host for each card, the most of any machine; infinite if enough is assumed."""
    calibration: Calibration

    def fits(self, architecture: ModelArchitecture, context: int) -> Iterator[TrainedFit]:
        """Yield the longest sequences of each method; none for cards that only serve."""
        if self.card.inference_only:
            return
        for method in FineTuningMethod:
            if method is FineTuningMethod.FULL or takes_adapters(architecture, LORA_TARGETS):
                workload = FineTuning(method=method)
                rules = ToolRules.of(self.case.changed(workload=workload), architecture)
                first = rules.choose(self.card)
                if isinstance(first, Tool):
                    tools = (first, *rules.following(self.card))
                    yield of_any([self._longest(architecture, workload, context, t) for t in tools])

    def _longest(
        self, architecture: ModelArchitecture, workload: FineTuning, context: int, tool: Tool
    ) -> TrainedFit:
        """Return the longest sequences under one tool, with and without recomputation."""
        levels = (Sharding.DDP,) if self.count == 1 else (Sharding.DDP, Sharding.ZERO3)
        layouts = [
            ParallelLayout(data=self.count, sharding=sharding, recompute=recompute)
            for recompute in (Recompute.NONE, Recompute.FULL)
            for sharding in levels
        ]
        run = self._run(architecture, workload, tool)
        limit = architecture.max_position_embeddings or LENGTHS[-1]
        lengths = sorted({*(length for length in LENGTHS if length < limit), context, limit})
        sizes, own = np.array(lengths, dtype=np.float64), LayoutArrays.stack(layouts)
        states, hosted = self._hosted(architecture, workload, tool)
        if states.recipe == run.recipe:  # nothing else tells the two apart
            both = self._needs(run, LayoutArrays.joined([own, hosted]), sizes)
            (needs, _), with_host = both[:, :, : len(layouts)], both[:, :, len(layouts) :]
        else:
            needs, _ = self._needs(run, own, sizes)
            with_host = self._needs(states, hosted, sizes)
        usable = self.card.memory_reported_bytes
        reached = longest(sizes, needs, usable)
        shares = np.maximum(with_host[0] / usable, with_host[1] / self.host_bytes)
        kept, recomputed = reached[: len(levels)], reached[len(levels) :]
        at_context = needs[lengths.index(context)]
        return TrainedFit(
            method=workload.method,
            precision=run.recipe.name,
            software=tool.name,
            sharding=levels[int(np.argmax(recomputed))],
            fits=float(at_context.min()) <= usable,
            longest_kept=int(kept.max()),
            longest_recomputed=int(recomputed.max()),
            longest_hosted=int(longest(sizes, shares, 1.0).max(initial=0.0)),
            needed_bytes=float(at_context[len(levels) :].min()),
            usable_bytes=usable,
        )

    def _run(
        self,
        architecture: ModelArchitecture,
        workload: FineTuning,
        tool: Tool,
        layout: ParallelLayout | None = None,
    ) -> TrainingRun:
        case = self.case.changed(workload=workload, layout=layout)
        recipe = recipe_named(supported_precision(case, self.card, architecture, tool))
        run = resolve_training(workload, architecture, recipe, tool)
        # Every rank of a large count needs a sequence.
        return replace(run, global_batch=max(run.global_batch, self.count))

    def _hosted(
        self, architecture: ModelArchitecture, workload: FineTuning, tool: Tool
    ) -> tuple[TrainingRun, LayoutArrays]:
        """Return the run and the layouts with what the software keeps in the host's memory."""
        states = ParallelLayout(data=self.count, offload=(Offload.OPTIMIZER,))
        run = self._run(architecture, workload, tool, states)
        offer = offer_for(tool, workload, architecture)
        if not self.host_bytes or offer is None:
            return run, LayoutArrays.of(states).take(slice(0))
        grid = layout_grid(run, [self.count], hosted=True)
        able = offered(grid, offer, four_bit=run.four_bit)[-1]
        recomputed = grid.layouts.take(slice(-grid.rows, None))
        one = able & (recomputed.micro_batch == 1) & (recomputed.data == self.count)
        return run, recomputed.take(one)

    def _needs(self, run: TrainingRun, layouts: LayoutArrays, lengths: Floats) -> Floats:
        """Memory of the card and of its host: 2 x lengths x layouts. [bytes]"""
        number = len(layouts.tensor)
        every = layouts.take(np.tile(np.arange(number), len(lengths)))
        memory = training_memory(run, every, self.calibration.memory, np.repeat(lengths, number))
        most = memory_interval(run, self.calibration).most * shape_widening(run.architecture)
        needs = usual_total(run, memory.tensors, every, self.calibration), most * memory.host
        return np.stack(np.broadcast_arrays(*needs)).reshape(2, len(lengths), number)


def of_any(fits: Sequence[TrainedFit]) -> TrainedFit:
    """Return the fit under the first tool that holds the context, with the longest of any tool."""
    farthest = max(fits, key=lambda fit: fit.longest_recomputed)
    return next((fit for fit in fits if fit.fits), fits[0]).changed(
        sharding=farthest.sharding,
        longest_kept=max(fit.longest_kept for fit in fits),
        longest_recomputed=farthest.longest_recomputed,
        longest_hosted=max(fit.longest_hosted for fit in fits),
    )


def longest(lengths: Floats, needs: Floats, usable_bytes: float) -> Floats:
    """Return the longest sequence that fits in the usable memory. [tokens]

    0 if the first length does not fit.

    ``needs``: memory of ``m`` configurations at each length. [bytes]

    The peak is the largest of moments that grow linearly with the length (quadratically where
    attention stores its scores), so it is convex: a chord lies above it, and the length at
    which the chord crosses the limit always fits.

    >>> longest(np.array([1.0, 101.0]), np.array([[0.0], [100.0]]), 50.0)
    array([51.])
    """
    result = np.zeros(needs.shape[1])
    for column in range(needs.shape[1]):
        need = needs[:, column]
        fitting = np.flatnonzero(need <= usable_bytes)
        if not fitting.size:
            continue
        last = int(fitting[-1])
        result[column] = lengths[last]
        if last + 1 < len(lengths):
            share = (usable_bytes - need[last]) / (need[last + 1] - need[last])
            result[column] += share * (lengths[last + 1] - lengths[last])
    return np.floor(result)
