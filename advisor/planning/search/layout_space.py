"""The layouts of a search and their memory, evaluated once for precisions of equal sizes."""

from collections.abc import Iterable

import numpy as np

from advisor.estimate.candidates import Floats
from advisor.estimate.terms import shape_widening
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.memory_report import memory_interval, usual_total
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.software.efficiency import Calibration
from advisor.planning.search.layouts import RECOMPUTE_LEVELS, layout_grid, stated_values

CHUNK = 16_384
"""Configurations evaluated at a time: this bounds the memory and fits in the cache."""


class LayoutSpace:
    """Layouts of some numbers of accelerators, and their memory.

    ``run``: fixes batch, sequence and method; precisions may differ later. ``stated``: its stated
    fields keep their values. ``hosted``: only layouts that use the host's memory, instead of those
    that do not.
    """

    def __init__(
        self,
        run: TrainingRun,
        counts: Iterable[int],
        calibration: Calibration,
        *,
        stated: ParallelLayout | None = None,
        hosted: bool = False,
    ) -> None:
        self.architecture, self.calibration = run.architecture, calibration
        # Megatron's offloading and its overlap of two micro-batches are not used together.
        overlapping = calibration.software[run.software].expert_overlap > 0 and not hosted
        self.stated = stated_values(stated)
        self.grid = layout_grid(
            run, counts, stated=self.stated, hosted=hosted, overlapping=overlapping
        )
        self._held: dict[tuple[object, ...], Floats] = {}

    def has_layouts(self, count: int) -> bool:
        """Whether any layout uses exactly ``count`` accelerators."""
        first, end = self.grid.start[count]
        return end > first

    def high_bytes(self, run: TrainingRun) -> Floats:
        """What decides whether each fits: recompute policies x rows of the grid. [bytes]"""
        layouts = self.grid.layouts.take(slice(0, self.grid.rows))
        tensors, weights, optimizer, _ = self._tensors(run)
        return usual_total(run, (tensors, weights, optimizer), layouts, self.calibration)

    def host_bytes(self, run: TrainingRun) -> Floats:
        """High end of the host memory for one accelerator, in the same shape. [bytes]"""
        factor = memory_interval(run, self.calibration).most * shape_widening(self.architecture)
        return np.asarray(self._tensors(run)[3] * factor)

    def _tensors(self, run: TrainingRun) -> Floats:
        """Tensors on the accelerator, weights and states among them; those on its host. [bytes]"""
        key = _sizes(run)
        if key not in self._held:
            rows, step = self.grid.rows, CHUNK // RECOMPUTE_LEVELS
            held = np.empty((4, RECOMPUTE_LEVELS, rows))
            for begin in range(0, rows, step):
                part = slice(begin, min(begin + step, rows))
                layouts = self.grid.layouts.take(part).under(*range(RECOMPUTE_LEVELS))
                memory = training_memory(run, layouts, self.calibration.memory)
                held[:, :, part] = np.broadcast_arrays(*memory.tensors, memory.host)
            self._held[key] = held
        return self._held[key]


def _sizes(run: TrainingRun) -> tuple[object, ...]:
    """Return what decides the memory of a recipe: sizes, and whether nothing has 16 bits."""
    recipe = run.recipe
    copies = (
        recipe.working,
        recipe.master,
        recipe.gradients,
        recipe.optimizer_states,
        recipe.stream,
        recipe.compute,
    )
    sizes = tuple(None if name is None else FORMAT_BYTES[name] for name in copies)
    return (*sizes, recipe.autocast, recipe.single)
