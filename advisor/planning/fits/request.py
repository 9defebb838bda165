"""Which models fit some cards of the catalog: the request, prepared for the search."""

from collections.abc import Sequence

from advisor.architecture.presets import list_presets
from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.estimate.batch.forward import generates
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.estimate.serving.report import on_host
from advisor.estimate.tools.software import ToolRules
from advisor.estimate.training.memory_report import on_accelerator
from advisor.foundation.record import record
from advisor.nouns.case import Case, ModelSource
from advisor.nouns.case_files import load_case
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.workload import Serving
from advisor.planning.fits.cards import OUTPUT_TOKENS, SHORT_LIST, what_fits
from advisor.planning.fits.results import Fits
from advisor.planning.machines import hardware_system, hardware_systems
from advisor.planning.prepared import PricedCase
from advisor.planning.search.options import Price
from advisor.planning.search.systems import System
from advisor.planning.stated import best_placement, supported_precision


def fits(
    accelerator: str,
    *,
    count: int = 1,
    context_tokens: int = 8192,
    concurrency: int = 8,
    everything: bool = False,
    catalog: Catalog | None = None,
) -> Fits:
    """Return the known models that some cards can serve and train.

    Parameters
    ----------
    accelerator : str
        Key or name in the catalog.
    count : int, optional
        Number of cards, in one machine or several.
    context_tokens : int, optional
        Prompt plus answer (serving), or the sequence (training). [tokens]
    concurrency : int, optional
        Sequences served at once; one sequence alone is always shown too.
    everything : bool, optional
        Check every preset that writes text instead of a short list.
    catalog : Catalog, optional
        Default: the shipped catalog.

    Returns
    -------
    Fits
        For each model, whether it fits, and how fast it runs.

    Raises
    ------
    InputError
        If the accelerator is unknown, or an amount is out of bounds.
    """
    catalog, calibration = catalog or load_catalog(), load_calibration()
    card = catalog.accelerator(accelerator)
    model = {"preset": SHORT_LIST[0]}
    case = load_case(
        {
            "model": model,
            "workload": {"kind": "fine_tuning"},
            "hardware": {"accelerator": card.key, "count": count},
        }
    )
    # The bounds of a request are those of the case.
    request = {"input_tokens": context_tokens, "concurrency": concurrency}
    load_case({"model": model, "workload": {"kind": "serving"} | request})
    machines = hardware_systems(card, count, catalog, case, together=1)
    if count == 1:
        machines = _alike_once(machines, case)
    system = hardware_system(card, count, catalog, case)
    known = on_accelerator(calibration, card)

    server = _Server(case, catalog, calibration, machines)
    names = list_presets(Unit.TOKEN) if everything else SHORT_LIST
    models = [(name, resolve_model(ModelSource(preset=name))) for name in names]
    return what_fits(
        # The answer is for models that read prompts and write answers.
        [(name, model) for name, model in models if generates(model)],
        system,
        count=count,
        precision=supported_precision(case, card, models[0][1]),
        context_tokens=context_tokens,
        concurrency=concurrency,
        serve=server.serve,
        calibration=known,
    )


@record
class _Server:
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


def _alike_once(machines: Sequence[System], case: Case) -> list[System]:
    """Return the cheapest of the machines that serve one card alike: links do not count."""
    links = {"accelerators", "intra_bytes_per_s", "intra_domain", "inter_bytes_per_s"}
    kept: dict[str, System] = {}
    for system in machines:
        alike = system.node.model_dump_json(exclude=links)
        other = kept.get(alike)
        if other is None or _usd(system, case) < _usd(other, case):
            kept[alike] = system
    return list(kept.values())


def _usd(system: System, case: Case) -> float:
    return Price.of(system, case.limits.price_kind).usd_per_hour
