"""Known models served on given cards, as ``estimate`` answers them."""

from collections.abc import Sequence
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.hardware.card_formats import stored_format
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.estimate.serving.demand import EXPERTS_ONLY_FORMATS
from advisor.estimate.serving.report import on_host
from advisor.estimate.tools.serving_formats import ladder_of
from advisor.estimate.tools.software import ToolRules
from advisor.foundation.record import record
from advisor.foundation.units import MILLISECOND
from advisor.nouns.case import Case, ModelSource
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.quality import quality_words
from advisor.nouns.software.tools import known_tools
from advisor.nouns.workload import Serving
from advisor.planning.fits.results import ServedFit, Verdict
from advisor.planning.prepared import PricedCase
from advisor.planning.search.systems import System
from advisor.planning.stated import best_placement

OUTPUT_TOKENS: Final = 256
"""Generated tokens of a request, the default of ``Serving``; the rest is prompt."""


@record
class Server:
    """Serves models on some cards."""

    case: Case
    """Of another model; the hardware counts."""
    catalog: Catalog
    calibration: Calibration
    machines: Sequence[System]

    def serve(
        self, preset: str, model: ModelArchitecture, context_tokens: int, concurrency: int
    ) -> tuple[Estimate, Estimate]:
        """Return the estimates of one request at a time and of some; one that needs no other."""
        case = self._asked(preset, context_tokens, 1)
        place = self._placed(case, model)
        alone = self._estimated(case, place, model)
        if concurrency == 1 or not alone.memory.fits:  # Several need what one needs, and more.
            return alone, alone
        case = self._asked(preset, context_tokens, concurrency)
        if self._stays(place, case, model):
            together = self._estimated(case, place, model)
            if together.memory.fits:
                return alone, together
        return alone, self._estimated(case, self._placed(case, model), model)

    def _asked(self, preset: str, context_tokens: int, concurrency: int) -> Case:
        output = min(OUTPUT_TOKENS, context_tokens // 2)
        workload = Serving(
            input_tokens=context_tokens - output, output_tokens=output, concurrency=concurrency
        )
        return self.case.changed(model=ModelSource(preset=preset), workload=workload)

    def _placed(self, case: Case, model: ModelArchitecture) -> Placement:
        asked = PricedCase(case, model, self.calibration, self.catalog)
        return best_placement(asked, machines=self.machines)

    def _estimated(self, case: Case, place: Placement, model: ModelArchitecture) -> Estimate:
        return estimate_configuration(ResolvedCase(case, model, self.calibration), place)

    def _stays(self, place: Placement, case: Case, model: ModelArchitecture) -> bool:
        """Whether several requests are served where one is, if there is memory.

        A larger format that does not fit for one does not fit for several, and one card has one
        layout without the host's memory. Only another tool can change the place.
        """
        card, hardware = place.accelerator, case.hardware
        return (
            hardware is not None
            and hardware.count == 1
            and not on_host(place.layout)
            and ToolRules.of(case, model).choose(card) is place.tool
        )


def verdict_of(fit: ServedFit, card: Accelerator, architecture: ModelArchitecture) -> Verdict:
    """Return whether a model is served, and what it gives up for that."""
    if not fit.fits:
        return Verdict.DOES_NOT_FIT
    if on_host(fit.layout):
        return Verdict.FITS_WITH_HOST
    own = stored_format(card, architecture.weight_format)
    size = WEIGHT_FORMATS[fit.weight_format].bytes_per_parameter
    whole = size >= WEIGHT_FORMATS[own].bytes_per_parameter or own in EXPERTS_ONLY_FORMATS
    usual = fit.weight_format in ladder_of(known_tools()[fit.software]).usual
    return Verdict.FITS if whole or usual else Verdict.FITS_IF_CHANGED


def served_fit(found: Estimate, concurrency: int) -> ServedFit:
    """Return the part of an estimate that tells whether and how fast a model is served."""
    memory, serving = found.memory, found.serving
    if serving is None or found.software is None:
        msg = "an estimate of serving has times and software"
        raise ValueError(msg)
    engine = (
        memory.activations_bytes,
        memory.logits_bytes,
        memory.workspace_bytes,
        memory.context_bytes,
    )
    return ServedFit(
        weight_format=found.precision,
        software=found.software.name,
        software_title=found.software.title,
        quality=quality_words(found.precision),
        concurrency=concurrency,
        layout=found.layout,
        fits=memory.fits,
        max_context_tokens=serving.max_context_tokens,
        weights_bytes=memory.weights_bytes.expected,
        kv_cache_bytes=memory.kv_cache_bytes.expected,
        engine_bytes=sum(part.expected for part in engine),
        needed_bytes=memory.needed_bytes,
        usable_bytes=memory.usable_bytes,
        host_bytes=memory.host_bytes.expected,
        tokens_per_s=serving.tpot_ms.reciprocal(1.0 / MILLISECOND) if memory.fits else None,
    )
