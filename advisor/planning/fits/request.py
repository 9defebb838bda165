"""Which models fit some cards of the catalog, and how fast they run."""

from collections.abc import Iterator, Sequence
from math import isinf
from typing import Final

from advisor.architecture.presets import list_presets
from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.titles import short_list
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import InputError, refusal
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.hardware.card_formats import stored_format
from advisor.estimate.placement import Placement
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.results import Estimate
from advisor.estimate.serving.notes import raising
from advisor.estimate.serving.stored_bytes import EXPERTS_ONLY_FORMATS
from advisor.estimate.tools.serving_formats import ladder_of
from advisor.estimate.tools.software import ToolRules
from advisor.estimate.training.memory_report import on_accelerator
from advisor.foundation.formatting import count as in_words
from advisor.foundation.formatting import memory
from advisor.foundation.garbage import collection_paused
from advisor.foundation.record import record
from advisor.foundation.units import GIB, MILLISECOND
from advisor.nouns.case import Case, ModelSource
from advisor.nouns.case_files import load_case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import WEIGHT_FORMATS, recipe_named
from advisor.nouns.serving_defaults import serving_defaults
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.quality import quality_words
from advisor.nouns.software.tools import known_tools
from advisor.nouns.workload import Serving
from advisor.planning.fits.results import Fits, ModelFit, ServedFit, Verdict, raised_bytes
from advisor.planning.fits.training import Trainer
from advisor.planning.machines import hardware_system, hardware_systems
from advisor.planning.prepared import PricedCase
from advisor.planning.search.options import Price
from advisor.planning.search.systems import System, by_host_memory
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
            served = together.serving
            most_ms = serving_defaults().patience.between_tokens_ms(case.workload)
            if together.memory.fits and served and served.tpot_ms.high <= most_ms:
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
            and not place.layout.host_options
            and ToolRules.of(case, model).choose(card) is place.tool
        )


def verdict_of(fit: ServedFit, card: Accelerator, architecture: ModelArchitecture) -> Verdict:
    """Return whether a model is served, and what it gives up for that."""
    if not fit.fits:
        return Verdict.DOES_NOT_FIT
    if fit.layout.host_options:
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
        kv_cache_format=found.kv_cache_format,
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


@collection_paused()
def fits(
    accelerator: str,
    *,
    count: int = 1,
    context_tokens: int = 8192,
    concurrency: int = 8,
    everything: bool = False,
    catalog: Catalog | None = None,
) -> Fits:
    """Return the known models that some cards can serve and train, and how fast they run.

    Raises InputError if the accelerator is unknown, or an amount is out of bounds.

    ``count``: cards, in one machine or several. ``context_tokens``: prompt plus answer (serving),
    or the sequence (training). [tokens] ``concurrency``: sequences served at once; one alone is
    always shown too. ``everything``: every preset that writes text instead of a short list.
    """
    catalog, calibration = catalog or load_catalog(), load_calibration()
    card = catalog.accelerator(accelerator)
    model = {"preset": short_list()[0]}
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
    if context_tokens < 2:
        raise refusal("context_too_short", value=context_tokens)
    machines = hardware_systems(card, count, catalog, case, together=1)
    if count == 1:
        machines = _alike_once(machines, case)
    system = hardware_system(card, count, catalog, case)
    server = Server(case, catalog, calibration, machines)
    names = list_presets(Unit.TOKEN) if everything else short_list()
    known = [(name, resolve_model(ModelSource(preset=name))) for name in names]
    trainer = _trainer(case, system.accelerator, catalog)
    found = {
        preset: _model_fit(preset, architecture, server, trainer, context_tokens, concurrency)
        for preset, architecture in known
        if architecture.generates  # The answer is for models that write text.
    }
    models = [fit for fit in found.values() if fit is not None]
    without = [preset for preset, fit in found.items() if fit is None]
    models.sort(key=_order)
    return Fits(
        accelerator=system.accelerator.key,
        accelerator_name=system.accelerator.name,
        count=count,
        memory_bytes=system.accelerator.memory_reported_bytes,
        host_memory_bytes=system.node.host_memory_bytes,
        context_tokens=context_tokens,
        concurrency=concurrency,
        models=tuple(models),
        assumptions=tuple(_assumed(models, without, trainer, context_tokens)),
    )


def _order(model: ModelFit) -> tuple[int, float]:
    """Order models by verdict: the largest first, and of those that do not fit the nearest miss."""
    missed = model.verdict is Verdict.DOES_NOT_FIT
    return [*Verdict].index(model.verdict), -(
        model.served.margin_bytes if missed else model.parameters
    )


def _trainer(case: Case, card: Accelerator, catalog: Catalog) -> Trainer:
    """Return what fine-tunes models on the cards of a case."""
    count = case.hardware.count if case.hardware else 1
    joined = hardware_systems(card, count, catalog, case, together=count)
    hosts = by_host_memory(joined, case.host, serving=False)
    return Trainer(
        case=case,
        card=card,
        count=count,
        host_bytes=max((host.host_share_bytes for host in hosts), default=0.0),
        calibration=on_accelerator(load_calibration(), card),
    )


def _model_fit(
    preset: str,
    architecture: ModelArchitecture,
    server: Server,
    trainer: Trainer,
    context_tokens: int,
    concurrency: int,
) -> ModelFit | None:
    """Return what the cards do with one model; None if no software reads its weights there."""
    limit = architecture.max_position_embeddings
    context = min(context_tokens, limit) if limit else context_tokens
    try:
        one, several = server.serve(preset, architecture, context, concurrency)
    except InputError:
        return None
    alone = served_fit(one, 1)
    together = alone if several is one else served_fit(several, concurrency)
    return ModelFit(
        preset=preset,
        parameters=architecture.total_parameters,
        verdict=verdict_of(alone, trainer.card, architecture),
        context_tokens=context,
        served=alone,
        served_together=together if together.fits else None,
        trained=tuple(trainer.fits(architecture, context)),
    )


def _assumed(
    models: Sequence[ModelFit], without: Sequence[str], trainer: Trainer, context_tokens: int
) -> Iterator[str]:
    """Yield what holds for all models of the answer."""
    card = trainer.card
    yield f"a context of {in_words(context_tokens)} tokens, or the model's longest if shorter"
    yield f"cache in {stored_format(card, 'bf16')}"
    if any(model.served.formats != model.served.weight_format for model in models):
        yield "a smaller cache where the weights name one"
    if trained := [fit for one in models for fit in one.trained]:
        full, *adapters = (recipe_named(fit.precision).title for fit in trained[:2])
        tools = dict.fromkeys(known_tools()[fit.software].title for fit in trained)
        yield f"adapters in {adapters[0]}; full training in {full}; adamw"
        yield f"training: the longest sequences of any usual software, mostly {' or '.join(tools)}"
    yield "one training sequence per card at a time"
    if any(fit.longest_hosted > fit.longest_recomputed for one in models for fit in one.trained):
        room = trainer.host_bytes
        most = "as much as they need" if isinf(room) else f"{memory(room)} for each card"
        known = "" if isinf(room) else ", the most that an offer states, else what is usual"
        yield f"host: training states in the host's memory, {most}{known}"
    yield "a model fits if the high end of its memory range fits"
    yield from _kept_free(models, card)
    if without:
        yield f"no software for these weights on this card: {', '.join(without)}"


def _kept_free(models: Sequence[ModelFit], card: Accelerator) -> Iterator[str]:
    """Say how much of a card a server may fill, where it is not just all."""
    if raised_bytes(models, card.memory_reported_bytes) is not None:
        yield raising(card)
        return
    whole = card.memory_reported_bytes / GIB
    least = min((model.served.usable_bytes / GIB for model in models), default=whole)
    if f"{least:.1f}" != f"{whole:.1f}" and least < whole:
        yield (
            f"a server may fill {least:.1f} of the card's {whole:.1f} GiB: driver, screen or "
            "the engine's reserve keep the rest; training may fill all"
        )


def _alike_once(machines: Sequence[System], case: Case) -> list[System]:
    """Return the cheapest of the machines that serve one card alike: links do not count."""
    links = {"accelerators", "intra_bytes_per_s", "intra_domain", "inter_bytes_per_s"}
    kept: dict[str, list[System]] = {}
    for system in machines:
        kept.setdefault(system.node.model_dump_json(exclude=links), []).append(system)
    kind = case.limits.price_kind
    return [min(each, key=lambda one: Price.of(one, kind).usd_per_hour) for each in kept.values()]
