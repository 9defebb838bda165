"""Ranges of times around their expected values."""

from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.batch.forward import batch_interval, image_kernels
from advisor.estimate.serving.speculation import widening
from advisor.estimate.terms import shape_widening
from advisor.estimate.training.delivered import delivered_interval
from advisor.estimate.training.report import time_quantity
from advisor.estimate.training.run import trains_adapters
from advisor.foundation.quantities import Evidence, Range
from advisor.foundation.record import by_identity
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import RECIPES, WEIGHT_FORMATS
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import OTHERS
from advisor.nouns.software.kernels import generations
from advisor.nouns.software.tools import known_tools
from advisor.nouns.workload import Serving, Workload

LATE = -2
"""In place of a count: first tokens that 95 or 99 % of the requests have."""
MOST_KNOWN: Final = 16_384
"""Ranges of runs that are kept for the next answers."""


@by_identity(8)
def _of_runs(calibration: Calibration) -> dict[tuple[object, ...], dict[tuple[object, ...], Range]]:
    """Return what is known of the ranges of runs under some constants, by the kind of the run."""
    return {}


class TimeSpreads:
    """Ranges of times over their expected values, the same as in full estimates.

    ``workload``: times are hours of a run, or seconds per output token of a server.
    """

    def __init__(
        self, architecture: ModelArchitecture, calibration: Calibration, workload: Workload
    ) -> None:
        tool = workload.engine if isinstance(workload, Serving) else None
        if tool is not None and tool in known_tools() and not architecture.generates:
            calibration = calibration.under(known_tools()[tool].engine)
        self._architecture, self._calibration = architecture, calibration
        self._workload, self._serving = workload, isinstance(workload, Serving)
        self._known: dict[tuple[object, ...], Range] = {}
        self._kernels: dict[str, tuple[Evidence, bool]] = {}
        self._ranges: dict[tuple[float, float, Evidence], Range] = {}
        self._widening = shape_widening(architecture)
        self._writes = architecture.generates
        if not isinstance(workload, Serving):
            self._adapters = trains_adapters(workload)
            self._quantity = time_quantity(architecture, frozen=self._adapters)
            like = self._adapters, workload.operator, self._widening, architecture.evidence
            self._known = _of_runs(calibration).setdefault((self._quantity, *like), {})

    def of(
        self,
        accelerator: Accelerator,
        node: Node | None = None,
        *,
        precision: str,
        count: int,
        software: str = "",
        hosted: bool = False,
    ) -> Range:
        """Return the range of one configuration's time over its expected value.

        ``node``: machine of a training run, whose range depends on their number. ``precision``:
        recipe of the training run, or weight format of the served model. ``software``: stack of the
        training run. ``hosted``: the layout of a server uses the host's memory.
        """
        if self._serving:
            return self._served(accelerator, precision, 0, hosted=hosted)
        machines = 1 if node is None else -(-count // node.accelerators)
        # Cards of a generation share their training runs.
        known = self._evidence(accelerator)
        key = (accelerator.architecture, *known, precision, count, machines, software)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = self._resolved(
                accelerator, precision, count, machines, software=software
            )
        return found

    def first(
        self, accelerator: Accelerator, *, precision: str, at: str, hosted: bool = False
    ) -> Range:
        """Return the range of one time to the first token, at a percentile, over its value."""
        count = LATE if at in ("p95", "p99") else -1
        return self._served(accelerator, precision, count, hosted=hosted)

    def _served(
        self, accelerator: Accelerator, precision: str, count: int, *, hosted: bool
    ) -> Range:
        # Text has the ranges of its engine; batches have those of a card's own kernels.
        card = "" if self._writes else accelerator.key
        key = card, *self._evidence(accelerator), precision, count, hosted
        if key not in self._known:
            self._known[key] = self._resolved(accelerator, precision, count, 0, hosted=hosted)
        return self._known[key]

    def proven(self, accelerator: Accelerator, weights: str | None = None) -> bool:
        """Whether published runs on cards of this generation are behind the range.

        ``weights``: served weight format; an engine with its own kernels has its own runs.
        """
        form = WEIGHT_FORMATS[weights] if weights else None
        engine = self._calibration.engine_for(form) if form else None
        fused = image_kernels(self._architecture, form, self._calibration) if form else None
        if fused is not None:
            return accelerator.architecture in fused.generations
        if engine is not None and engine.backends:
            own = engine.backend(generations(accelerator))
            # The kernels of the other cards were fitted on those with CUDA.
            cuda = (accelerator.compute_capability or "")[:1].isdigit()
            return cuda or (own is not None and own is not engine.backends.get(OTHERS))
        measured = self._evidence(accelerator)[1]
        return measured and (self._serving or accelerator.architecture in self._calibration.trained)

    def _evidence(self, accelerator: Accelerator) -> tuple[Evidence, bool]:
        """Return how the kernels of a card are known, and whether its kind was measured."""
        if accelerator.key not in self._kernels:
            kernels, measured = self._calibration.kernels_for(accelerator)
            self._kernels[accelerator.key] = (kernels.evidence, measured)
        return self._kernels[accelerator.key]

    def _resolved(
        self,
        accelerator: Accelerator,
        precision: str,
        count: int,
        machines: int,
        *,
        software: str = "",
        hosted: bool = False,
    ) -> Range:
        architecture, calibration = self._architecture, self._calibration
        evidence, measured = self._evidence(accelerator)
        least = most = 1.0
        if isinstance(self._workload, Serving):
            from advisor.estimate.serving.report import first_quantity, later_quantity

            weights = WEIGHT_FORMATS[precision]
            layout = ParallelLayout(cpu_expert_layers=int(hosted))
            engine = calibration.engine_for(weights)
            quantity = (
                first_quantity(engine, layout, late=count == LATE)
                if count < 0
                else later_quantity(architecture, engine, layout)
            )
            interval = calibration.served_interval(quantity, weights, measured=measured)
            least, most = widening(self._workload, later=count >= 0)
            if not self._writes:
                interval = batch_interval(
                    architecture,
                    self._workload,
                    weights,
                    accelerator,
                    calibration,
                    measured=measured,
                )
        else:
            step = calibration.training_interval(
                self._quantity,
                accelerator,
                software,
                adapters=self._adapters,
                measured=measured,
                compute=RECIPES[precision].compute,
                count=count,
            )
            interval = delivered_interval(step, self._workload.operator, machines, calibration)
        weakest = interval.evidence.weakest(evidence, architecture.evidence)
        key = (interval.low * least, interval.high * most, weakest)
        if key not in self._ranges:
            self._ranges[key] = Range.around(
                1.0,
                low_factor=key[0] / self._widening,
                high_factor=key[1] * self._widening,
                evidence=weakest,
            )
        return self._ranges[key]
