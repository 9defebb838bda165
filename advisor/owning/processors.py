"""The same job on processors: time, and a cluster of equal throughput."""

from __future__ import annotations

import math
from collections.abc import Iterable

from advisor import cents
from advisor.architecture.model import ModelArchitecture
from advisor.case import Case, Hardware
from advisor.catalog import Catalog
from advisor.catalog.economy import Economy
from advisor.efficiency import Calibration
from advisor.equations.energy import carbon_kg, rated_kw
from advisor.errors import InputError
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.results import Estimate
from advisor.hardware import Accelerator, PriceKind, Segment
from advisor.money import Owning
from advisor.owning.assumptions import groups_of
from advisor.owning.results import ProcessorOption
from advisor.planning.single import best_placement
from advisor.quantities import Range
from advisor.units import HOURS_PER_MONTH


def compare_processors(
    case: Case,
    estimate: Estimate,
    *,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
    economy: Economy,
    keys: Iterable[str] = (),
) -> tuple[ProcessorOption, ...]:
    """Estimate a case on processors and scale them to equal throughput.

    Parameters
    ----------
    case : Case
    estimate : Estimate
        The work on the hardware compared with.
    architecture : ModelArchitecture
    catalog : Catalog
    calibration : Calibration
    economy : Economy
    keys : iterable of str, optional
        Processors; all of the catalog's by default.

    Returns
    -------
    tuple of ProcessorOption
        The hardware compared with first, then the processors that can hold and do the work, fewest
        first. Both come from the same engine. A cluster is taken to scale perfectly, which
        flatters it.
    """
    processors = [catalog.accelerator(key) for key in keys] or [
        card for card in catalog.accelerators if card.segment is Segment.CPU
    ]
    hardware = catalog.accelerator(estimate.accelerator)
    found = []
    for card in processors:
        single = _estimated(case, card, architecture, catalog, calibration)
        if single is not None and single.memory.fits:
            found.append(_option(card, single, estimate, case.owning, economy))
    found.sort(key=lambda item: (item.count, item.accelerator))
    return (_option(hardware, estimate, estimate, case.owning, economy), *found)


def _estimated(
    case: Case,
    card: Accelerator,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
) -> Estimate | None:
    """Estimate a case on one processor; None where it has no rate in the format asked for."""
    limits = case.limits.model_copy(update={"price_kind": PriceKind.ON_DEMAND})
    alone = case.model_copy(
        update={"hardware": Hardware(accelerator=card.key), "layout": None, "limits": limits}
    )
    try:
        placement = best_placement(
            alone,
            architecture=architecture,
            catalog=catalog,
            calibration=calibration,
        )
        return estimate_configuration(
            alone, placement, architecture=architecture, calibration=calibration
        )
    except InputError:
        return None


def _option(
    card: Accelerator, found: Estimate, reference: Estimate, owning: Owning, economy: Economy
) -> ProcessorOption:
    slower = _slower(found, reference)
    groups = ("cpu", *groups_of(card)) if card.segment is Segment.CPU else groups_of(card)
    same = found is reference
    count = reference.count if same else math.ceil(slower.expected * found.count - 1e-9)
    hosts, host_power, load, pue = (
        _value(owning, economy, field, groups)
        for field in ("host_share", "host_power_share", "load_share", "pue")
    )
    price = owning.purchase_usd if same and owning.purchase_usd else card.purchase_usd
    power = (
        float(
            rated_kw(
                accelerators=count, board_power_w=card.board_power_w, host_power_share=host_power
            )
        )
        if card.board_power_w
        else None
    )
    monthly = owning.hours_per_month or HOURS_PER_MONTH
    hours = reference.time.run_hours.expected if reference.time else monthly
    draw = power * load if power is not None else None
    energy = draw * pue * hours if draw is not None else None
    intensity = owning.carbon_g_per_kwh
    if intensity is None:
        intensity = economy.place(owning.place).carbon_g_per_kwh
    return ProcessorOption(
        accelerator=card.key,
        accelerator_name=card.name,
        hours=found.time.run_hours if found.time else None,
        tokens_per_s=found.serving.output_tokens_per_s if found.serving else None,
        slower=slower,
        count=count,
        purchase_usd=cents.rounded(count * price * (1 + hosts)) if price else None,
        rated_kw=power,
        draw_kw=draw,
        cooling_kw=draw * (pue - 1) if draw is not None else None,
        energy_kwh=energy,
        carbon_kg=(
            float(carbon_kg(energy_kwh=energy, g_per_kwh=intensity)) if energy is not None else None
        ),
    )


def _value(owning: Owning, economy: Economy, field: str, groups: tuple[str, ...]) -> float:
    given: float | None = getattr(owning, field)
    return economy.default(field, *groups).expected if given is None else given


def _slower(found: Estimate, reference: Estimate) -> Range:
    """Time of the work on ``found`` over that on ``reference``."""
    if found is reference:
        return Range.exact(1.0)
    if found.time is not None and reference.time is not None:
        longer, shorter = found.time.run_hours, reference.time.run_hours
    elif found.serving is not None and reference.serving is not None:
        longer, shorter = (
            reference.serving.output_tokens_per_s,
            found.serving.output_tokens_per_s,
        )
    else:
        msg = "both estimates must be of the same kind of work"
        raise ValueError(msg)
    return Range(
        low=longer.low / shorter.high,
        expected=longer.expected / shorter.expected,
        high=longer.high / shorter.low,
        evidence=longer.evidence.weakest(shorter.evidence),
    )
