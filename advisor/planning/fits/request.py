"""Which models fit some cards of the catalog, and how fast they run."""

from collections.abc import Iterator, Sequence

from advisor.architecture.presets import list_presets
from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.titles import short_list
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import InputError
from advisor.estimate.hardware.card_formats import stored_format
from advisor.estimate.serving.notes import raising
from advisor.estimate.training.memory_report import on_accelerator
from advisor.foundation.formatting import count as in_words
from advisor.foundation.units import GIB
from advisor.nouns.case import Case, ModelSource
from advisor.nouns.case_files import load_case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import recipe_named
from advisor.planning.fits.results import Fits, ModelFit, Verdict, raised_bytes
from advisor.planning.fits.served import Server, served_fit, verdict_of
from advisor.planning.fits.trained import Trainer
from advisor.planning.machines import hardware_system, hardware_systems
from advisor.planning.search.options import Price
from advisor.planning.search.systems import System
from advisor.planning.stated import supported_precision


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
        raise InputError(
            "the context is too short",
            value=context_tokens,
            allowed="2 tokens or more",
            remedy="Ask for a longer context, e.g. 8K.",
            field="context",
        )
    machines = hardware_systems(card, count, catalog, case, together=1)
    if count == 1:
        machines = _alike_once(machines, case)
    system = hardware_system(card, count, catalog, case)
    server = Server(case, catalog, calibration, machines)
    names = list_presets(Unit.TOKEN) if everything else short_list()
    known = [(name, resolve_model(ModelSource(preset=name))) for name in names]
    precision = supported_precision(case, card, known[0][1])
    calibrated = on_accelerator(calibration, system.accelerator)
    trainer = Trainer(system.accelerator, count, precision, calibrated)
    found = {
        preset: _model_fit(preset, architecture, server, trainer, context_tokens, concurrency)
        for preset, architecture in known
        if architecture.generates  # The answer is for models that write text.
    }
    models = [fit for fit in found.values() if fit is not None]
    without = [preset for preset, fit in found.items() if fit is None]
    order = list(Verdict)
    models.sort(key=lambda model: (order.index(model.verdict), -model.parameters))
    return Fits(
        accelerator=system.accelerator.key,
        accelerator_name=system.accelerator.name,
        count=count,
        memory_bytes=system.accelerator.memory_reported_bytes,
        context_tokens=context_tokens,
        concurrency=concurrency,
        models=tuple(models),
        assumptions=tuple(_assumed(models, without, trainer, context_tokens)),
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
    card, recipe = trainer.card, recipe_named(trainer.precision)
    yield f"a context of {in_words(context_tokens)} tokens, or the model's longest if shorter"
    yield f"cache in {stored_format(card, 'bf16')}"
    yield f"fine-tuning in {recipe.title}, adamw, Hugging Face software"
    yield "one training sequence per card at a time"
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
    kept: dict[str, System] = {}
    for system in machines:
        alike = system.node.model_dump_json(exclude=links)
        other = kept.get(alike)
        if other is None or _usd(system, case) < _usd(other, case):
            kept[alike] = system
    return list(kept.values())


def _usd(system: System, case: Case) -> float:
    return Price.of(system, case.limits.price_kind).usd_per_hour
