"""Which models fit some cards of the catalog, and how fast they run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from advisor.architecture.presets import list_presets
from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.titles import short_list
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import InputError
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.hardware.card_formats import stored_format
from advisor.estimate.serving.notes import raising
from advisor.estimate.training.memory_report import evaluate_memory, on_accelerator
from advisor.estimate.training.run import resolve_training, takes_adapters
from advisor.foundation.formatting import count as in_words
from advisor.foundation.record import record
from advisor.foundation.units import GIB
from advisor.nouns.case import Case, ModelSource
from advisor.nouns.case_files import load_case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.training_choices import LORA_TARGETS, FineTuningMethod
from advisor.nouns.workload import FineTuning
from advisor.planning.fits.results import Fits, ModelFit, TrainedFit, Verdict, raised_bytes
from advisor.planning.fits.served import Server, served_fit, verdict_of
from advisor.planning.machines import hardware_system, hardware_systems
from advisor.planning.search.options import Price
from advisor.planning.search.systems import System
from advisor.planning.stated import supported_precision

LENGTHS: Final = (1, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Sequence lengths at which training memory is evaluated; between them see :func:`longest`."""


@record
class Trainer:
    """Fine-tunes models on some cards, one sequence per card at a time."""

    card: Accelerator
    count: int
    precision: str
    calibration: Calibration

    def fits(self, architecture: ModelArchitecture, context: int) -> Iterator[TrainedFit]:
        """Yield the longest sequences of each method; none for cards that only serve."""
        if self.card.inference_only:
            return
        for method in FineTuningMethod:
            if method is FineTuningMethod.FULL or takes_adapters(architecture, LORA_TARGETS):
                yield self._longest(architecture, method, context)

    def _longest(
        self, architecture: ModelArchitecture, method: FineTuningMethod, context: int
    ) -> TrainedFit:
        """Return the longest sequences of one method, with and without recomputation."""
        levels = (Sharding.DDP,) if self.count == 1 else (Sharding.DDP, Sharding.ZERO3)
        layouts = [
            ParallelLayout(data=self.count, sharding=sharding, recompute=recompute)
            for recompute in (Recompute.NONE, Recompute.FULL)
            for sharding in levels
        ]
        recipe = recipe_named(self.precision)
        run = resolve_training(FineTuning(method=method), architecture, recipe)
        # Every rank of a large count needs a sequence.
        run = replace(run, global_batch=max(run.global_batch, self.count))

        limit = architecture.max_position_embeddings or LENGTHS[-1]
        lengths = sorted({*(length for length in LENGTHS if length < limit), context, limit})
        sizes = np.array(lengths, dtype=np.float64)
        needs = evaluate_memory(
            run,
            LayoutArrays.stack(layouts * len(lengths)),
            self.calibration,
            lengths=np.repeat(sizes, len(layouts)),
        ).reshape(len(lengths), len(layouts))
        usable = self.card.memory_reported_bytes
        reached = longest(sizes, needs, usable)
        kept, recomputed = reached[: len(levels)], reached[len(levels) :]
        at_context = needs[lengths.index(context)]
        return TrainedFit(
            method=method,
            precision=self.precision,
            sharding=levels[int(np.argmax(recomputed))],
            fits=float(at_context.min()) <= usable,
            longest_kept=int(kept.max()),
            longest_recomputed=int(recomputed.max()),
            needed_bytes=float(at_context[len(levels) :].min()),
            usable_bytes=usable,
        )


def longest(lengths: Floats, needs: Floats, usable_bytes: float) -> Floats:
    """Return the longest sequence that fits in the usable memory. [tokens]

    0 if the first length does not fit.

    ``needs``: memory of ``m`` configurations at each length. [bytes]

    The peak is the largest of moments that grow linearly with the length (quadratically where
    attention stores its scores), so it is convex: a chord lies above it, and the length at
    which the chord crosses the limit always fits.

    Examples
    --------
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
