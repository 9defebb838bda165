"""Prepare a case: resolve its model, fill in open lengths, pick prices and constants."""

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from advisor.architecture.pairs import as_writer, is_pair, positions_read, writes_apart
from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.economy import load_economy, with_commitments
from advisor.errors import refusal
from advisor.estimate.resolved_case import ResolvedCase
from advisor.estimate.sample import sample_of
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import record
from advisor.foundation.units import DAY_S, GB, HOUR_S
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.limits import Constraints, MeasuredMachine
from advisor.nouns.precision import RECIPES
from advisor.nouns.serving import MOST_SPREAD, Arrivals
from advisor.nouns.serving_defaults import serving_defaults
from advisor.nouns.software.efficiency import UNMEASURED, Calibration, Interval
from advisor.nouns.software.kernels import KernelEfficiency
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.software.tools import Tool, known_tools, tool_choice
from advisor.nouns.workload import FineTuning, Serving, Workload

NARROWED: Final = (
    *("training_time", "serving_time", "serving_first_token"),
    *("serving_saturated", "serving_direct", "serving_batch", "serving_denoising"),
)
"""Start of the names of quantities whose range depends on kernels; memory does not."""
MEDIAN_OF_NORMAL: Final = 0.6745
"""Median of the absolute value of a standard normal variable."""
BOUND_OF_NORMAL: Final = 1.2816
"""Its 80 % bound: an interval of 80 % has 10 % on each side."""

CONSTANTS: Final = 5
"""Of a product's curve: see ``efficiency.MatmulEfficiency``."""


def with_measured(
    catalog: Catalog, calibration: Calibration, limits: Constraints, *, only: str | None = None
) -> tuple[Catalog, Calibration]:
    """Return catalog and constants with the user's measured cards in place of listed ones.

    The same objects if nothing was measured. Ranges become narrower only if every card in question
    was measured, because all cards share an interval.

    ``only``: the one accelerator that is estimated; by default, all owned ones.
    """
    machines = {item.accelerator: item.measured for item in limits.owned if item.measured}
    if not machines:
        return catalog, calibration
    kept = [card for card in catalog.accelerators if card.key not in machines]
    cards = sorted(
        [*kept, *(machine.accelerator for machine in machines.values())], key=lambda card: card.key
    )
    asked = [only] if only is not None else [item.accelerator for item in limits.owned]
    intervals = calibration.intervals
    if all(key in machines for key in asked):
        intervals = _narrowed(calibration, [machines[key] for key in asked])
    return (
        catalog.changed(accelerators=tuple(cards)),
        calibration.changed(
            machines={key: machine.kernels for key, machine in machines.items()},
            intervals=intervals,
        ),
    )


def _narrowed(
    calibration: Calibration, machines: Collection[MeasuredMachine]
) -> dict[str, Interval]:
    """Replace the scatter of the kernels in the ranges by that of the measured machine.

    Logarithms of independent factors add their variances, and a median of absolute errors gives
    the deviation of each.
    """
    gains = [_gain(calibration, machine) for machine in machines]
    gain = min(gains)
    result = dict(calibration.intervals)
    for name, interval in calibration.intervals.items():
        if gain > 0 and name.startswith(NARROWED) and not name.endswith(UNMEASURED):
            result[name] = interval.changed(
                low=math.exp(-_less(-math.log(interval.low), gain)),
                high=math.exp(_less(math.log(interval.high), gain)),
                evidence=Evidence.MEASURED,
                source=f"{interval.source}; kernels measured on this machine",
            )
    return result


def _less(width: float, gain: float) -> float:
    """Return the width of an interval without a part of its variance, if it has that part."""
    return math.sqrt(width * width - gain * gain) if width > gain else width


def _gain(calibration: Calibration, machine: MeasuredMachine) -> float:
    """Return the half-width of the scatter that the measurement removes; 0 if there is none."""
    base, known = calibration.kernels_for(machine.accelerator)
    before, after = _scatter(base), _scatter(machine.kernels)
    if before is None or after is None or not known:
        return 0.0
    return math.sqrt(max(0.0, before**2 - after**2)) * BOUND_OF_NORMAL


def _scatter(kernels: KernelEfficiency) -> float | None:
    """Return the deviation of the logarithm of a product's time; None where it is not known.

    Each fitted constant takes one degree of freedom, which matters for few measurements.
    """
    fit = kernels.matmul["default"].fit
    if fit is None or fit.rows <= CONSTANTS:
        return None
    seen = fit.median_error if fit.held_out_median_error is None else fit.held_out_median_error
    return seen / MEDIAN_OF_NORMAL * math.sqrt(fit.rows / (fit.rows - CONSTANTS))


PROMPT_SHARE: Final = 0.8
"""Prompt's share of a context that the defaults exceed: four to one, as 1,024 to 256."""


@record
class PricedCase(ResolvedCase):
    """A resolved case with the cards and offers that may do its work."""

    catalog: Catalog


def fitted(
    workload: Workload, architecture: ModelArchitecture
) -> tuple[Workload, ModelArchitecture]:
    """Fill in the lengths of requests that a case leaves open.

    Training is unchanged. For serving, default prompts and answers are cut to the model's limit,
    and encoder-decoder pairs become networks that write token after token. The model's assumptions
    state both.
    """
    if not isinstance(workload, Serving):
        return workload, architecture
    notes = []
    speech = tool_choice().speech.get(architecture.family)
    pair = is_pair(architecture)
    if workload.audio_hours is not None and not (speech and pair):
        raise refusal("no_speech", value=workload.audio_hours, model=architecture)
    if workload.beam_size > 1 and not pair:
        raise refusal("no_beams", value=workload.beam_size, model=architecture)
    if workload.disaggregated and (pair or not architecture.generates):
        raise refusal("no_second_pool", model=architecture)
    if pair:
        read = positions_read(architecture)
        architecture = as_writer(architecture)
        given = workload.model_fields_set
        workload = workload.changed(input_tokens=read)
        if speech and "output_tokens" not in given:
            workload = workload.changed(output_tokens=speech.window_tokens)
            told = f"answers of {speech.window_tokens} tokens, as people speak in"
            notes.append(f"{told} {speech.window_s:g} s (--output-tokens)")
        if speech and workload.audio_hours is not None:
            rate = workload.audio_hours * HOUR_S / DAY_S / speech.window_s
            workload = workload.changed(requests_per_s=rate, audio_hours=None)
            notes.append(f"a request for each {speech.window_s:g} s of sound, spread over the day")
    if update := shortened(workload, architecture, workload.model_fields_set):
        workload = workload.changed(**update)
        cut = " and ".join(f"{name} of {value:,} tokens" for name, value in update.items())
        words = cut.replace("input_tokens", "prompts").replace("output_tokens", "answers")
        limit = architecture.max_position_embeddings or 0
        why = f"the model has {limit:,} positions"
        if not (architecture.generates or pair) and update["input_tokens"] < limit:
            why = "as passages have (--input-tokens)"
        notes.append(f"{words}: {why}")
    if notes:
        architecture = architecture.changed(assumptions=(*architecture.assumptions, *notes))
    return workload, architecture


def shortened(
    workload: Serving, architecture: ModelArchitecture, given: Collection[str]
) -> dict[str, int]:
    """Return the default lengths that exceed the model's positions, cut to fit. [tokens]

    New values by field.

    ``given``: fields that the user gave.
    """
    limit = architecture.max_position_embeddings
    if architecture.unit is not Unit.TOKEN or limit is None:
        return {}
    read, written = workload.input_tokens, workload.output_tokens
    if writes_apart(architecture):
        return {} if written <= limit or "output_tokens" in given else {"output_tokens": limit}
    if not architecture.generates:
        most = min(limit, serving_defaults().passage_tokens)
        return {} if read <= most or "input_tokens" in given else {"input_tokens": most}
    if read + written <= limit or ("input_tokens" in given and "output_tokens" in given):
        return {}
    if "input_tokens" in given:
        return {"output_tokens": limit - read} if read < limit else {}
    if "output_tokens" in given:
        return {"input_tokens": limit - written} if written < limit else {}
    prompt = max(1, int(PROMPT_SHARE * limit))
    return {"input_tokens": prompt, "output_tokens": max(1, limit - prompt)}


MOST_FED: Final = 64
"""Cards that the open batch of a short pretraining feeds."""

BURSTY: Final = 2.0
"""Squared coefficient of variation from which arrivals count as bursty."""


def as_case(case: Case | Mapping[str, Any]) -> Case:
    """Return a case, built from a mapping if necessary; ``InputError`` if it is not valid."""
    return case if isinstance(case, Case) else load_case(case)


def priced(case: Case, catalog: Catalog | None) -> Catalog:
    """Return the catalog as the case finds it.

    At its euro rate, commitment and quote, with the memory that it states of a named machine whose
    accelerator shares it, and for training without the memory that a screen takes. Serving
    subtracts that under its engine's rules.
    """
    catalog = catalog or load_catalog()
    rate, months = case.limits.usd_per_eur, case.limits.commitment_months
    if rate is not None:
        catalog = catalog.at_rate("EUR", rate)
    if months is not None:
        run = not isinstance(case.workload, Serving)
        catalog = with_commitments(catalog, load_economy(), months, run=run)
    if case.host.memory_bytes:
        catalog = _with_memory(catalog, case, case.host.memory_bytes)
    if case.host.display_bytes and not isinstance(case.workload, Serving):
        catalog = _without_screens(catalog, case.host.display_bytes)
    usd = case.renting.usd_per_hour
    if usd is None or case.hardware is None:
        return catalog
    from advisor.catalog.own.overlay import with_quote

    return with_quote(catalog, case.hardware.accelerator, case.hardware.count, usd)


def _with_memory(catalog: Catalog, case: Case, memory_bytes: float) -> Catalog:
    """Return the catalog with a memory of this size in named machines with unified memory."""
    limits = case.limits
    words = [*limits.accelerators, *(item.accelerator for item in limits.owned)]
    words += [case.hardware.accelerator] if case.hardware else []
    named = {catalog.accelerator(word).key for word in words}
    sold = {card.key: card for card in catalog.accelerators}
    size = f"{memory_bytes / GB:g}gb"

    def reported(card: Accelerator) -> float:
        like = sold.get(f"{card.key}-{size}", card)
        return like.memory_reported_bytes * (memory_bytes / like.memory_marketed_bytes)

    cards = (
        card.changed(memory_marketed_bytes=memory_bytes, memory_reported_bytes=reported(card))
        if card.key in named and card.shares_host_memory
        else card
        for card in catalog.accelerators
    )
    return catalog.changed(accelerators=tuple(cards)) if named else catalog


def _without_screens(catalog: Catalog, display_bytes: float) -> Catalog:
    cards = (
        card.changed(memory_reported_bytes=max(1.0, card.memory_reported_bytes - display_bytes))
        for card in catalog.accelerators
    )
    return catalog.changed(accelerators=tuple(cards))


def fed(case: Case, architecture: ModelArchitecture) -> Case:
    """Return a case whose open batch feeds its cards, up to the usual batch, and a stated layout.

    A short run has a small batch, which many cards could not share.
    """
    from advisor.estimate.training.defaults import usual
    from advisor.estimate.training.run import resolve_training

    workload = case.workload
    if isinstance(workload, Serving) or workload.global_batch or case.hardware is None:
        return case
    method = workload.method if isinstance(workload, FineTuning) else None
    recipe = RECIPES[workload.precision or next(iter(RECIPES))]
    batch = resolve_training(workload, architecture, recipe).global_batch
    asked = 1 if case.layout is None else case.layout.data * case.layout.micro_batch
    least = min(max(asked, case.hardware.count), usual(architecture, method).batch or MOST_FED)
    if least <= batch:
        return case
    raised = 1 << (least - 1).bit_length()
    return case.changed(workload=workload.changed(global_batch=raised))


def on_owned(case: Case) -> Case:
    """Return a case on the one kind of owned cards, if it names no hardware."""
    if case.hardware is not None or len(case.limits.owned) != 1:
        return case
    [machine] = case.limits.owned
    given = {name: getattr(case, name) for name in case.model_fields_set}
    hardware = {"accelerator": machine.accelerator, "count": machine.count}
    return Case.model_validate(given | {"hardware": hardware})


def prepared(
    case: Case | Mapping[str, Any], catalog: Catalog | None, *, searching: bool = False
) -> PricedCase:
    """Resolve a case's model, with the prices and constants for its hardware.

    ``searching``: for all hardware, as a search ignores the case's own. Raises InputError for a
    quote, which belongs to one machine.
    """
    case = as_case(case)
    if searching and case.renting.usd_per_hour is not None:
        raise refusal("quote_in_search", value=f"{case.renting.usd_per_hour:g}")
    if not searching and isinstance(case.workload, Serving) and case.workload.disaggregated:
        raise refusal("two_pools", why="this answer is about one")
    only = case.hardware.accelerator if case.hardware and not searching else None
    catalog, calibration = with_measured(
        priced(case, catalog), load_calibration(), case.limits, only=only
    )
    case, architecture = _computed_together(*resolved(case), catalog)
    return PricedCase(case, architecture, calibration, catalog)


def _computed_together(
    case: Case, architecture: ModelArchitecture, catalog: Catalog
) -> tuple[Case, ModelArchitecture]:
    """Lower an open concurrency to one picture, or to what the tool of a card computes together."""
    workload, hardware = case.workload, case.hardware or on_owned(case).hardware
    loads = {"concurrency", "requests_per_s", "demand", "audio_hours"}
    if not isinstance(workload, Serving) or loads & workload.model_fields_set:
        return case, architecture
    from advisor.estimate.tools.software import ToolRules

    rules = ToolRules.of(case, architecture)
    card = catalog.accelerator(hardware.accelerator) if hardware else None
    tool = rules.choose(card) if card else known_tools().get(workload.engine or "")
    most = tool.at_once(rules.duty) if isinstance(tool, Tool) else None
    if rules.duty is Duty.DENOISE:
        together, note = 1, "one picture at a time, as for one person (--concurrency)"
    elif isinstance(tool, Tool) and most is not None:
        together = most * (hardware.count if hardware else 1)
        note = f"{together} at once: each copy in {tool.title} computes {most} (--concurrency)"
    else:
        return case, architecture
    architecture = architecture.changed(assumptions=(*architecture.assumptions, note))
    return case.changed(workload=workload.changed(concurrency=together)), architecture


def resolved(case: Case) -> tuple[Case, ModelArchitecture]:
    """Resolve a case's model, and fit the work's open lengths to it."""
    architecture = resolve_model(case.model, sample_of(case.workload))
    workload, architecture = fitted(with_demand(case.workload), architecture)
    if isinstance(workload, Serving):
        from advisor.estimate.serving.images import with_images

        workload = with_images(workload, architecture)
    return case.changed(workload=workload), architecture


def with_demand(workload: Workload) -> Workload:
    """Return a workload with the peak of its demand as the rate, and what a trace says of lengths.

    Stated lengths and arrivals stay. Raises InputError if the file of the demand cannot be read.
    """
    if not isinstance(workload, Serving) or workload.demand is None:
        return workload
    demand, update = workload.demand, dict[str, object]()
    if demand.file is not None:
        from advisor.catalog.traces import read_demand

        seen = read_demand(Path(demand.file))
        demand = demand.changed(file=None, hourly=seen.hourly)
        for name in ("input_tokens", "output_tokens"):
            lengths = getattr(seen, name)
            if lengths is not None and name not in workload.model_fields_set:
                mean, high = lengths
                update |= {name: mean, f"{name}_p95": min(max(high, mean), int(MOST_SPREAD * mean))}
        if seen.arrival_scv is not None and "arrivals" not in workload.model_fields_set:
            bursty = seen.arrival_scv > BURSTY
            update["arrivals"] = Arrivals.BURSTY if bursty else Arrivals.POISSON
    update |= {"demand": demand, "requests_per_s": max(demand.rates())}
    return workload.changed(**update)
