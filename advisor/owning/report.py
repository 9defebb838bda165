"""Rent or buy, from an estimate of the work to the answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from advisor.catalog import Catalog
from advisor.catalog.api_prices import API_SOURCE
from advisor.catalog.economy import CARBON_SOURCES, Economy
from advisor.catalog.nodes import owned_node
from advisor.equations.pricing import instances_needed
from advisor.errors import InputError
from advisor.estimate.results import Estimate
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, PriceKind
from advisor.nouns.software.delivery import Reliability
from advisor.nouns.workload import Serving
from advisor.owning.assumptions import Size, resolve
from advisor.owning.break_even_ranges import break_even_by_input
from advisor.owning.compare import Comparison
from advisor.owning.costs import owning_cost
from advisor.owning.rent_costs import rent_cost
from advisor.owning.rents import tenancies
from advisor.owning.results import BudgetAnswer, Ownership, ProcessorOption, RentKind
from advisor.owning.sentences import answer, assumptions
from advisor.owning.spread import Spread
from advisor.owning.work import work_of
from advisor.planning.beside_api import Hosted
from advisor.planning.explain.limit_sentences import missed_limits

TRAINING_HOURS_PER_MONTH = 200.0
"""Assumed use where the user states none: a third of the hours of working days. [h]"""


def rent_or_buy(
    case: Case,
    estimate: Estimate,
    *,
    catalog: Catalog,
    economy: Economy,
    reliability: Reliability,
    today: date,
    processors: tuple[ProcessorOption, ...] = (),
    budget: BudgetAnswer | None = None,
    hosted: Sequence[Hosted] = (),
    groups: int = 1,
    size: Size | None = None,
) -> Ownership:
    """Compare buying the estimate's hardware with renting it.

    Parameters
    ----------
    case : Case
        ``owning`` and ``renting`` hold the assumptions, ``limits`` the providers and regions.
    estimate : Estimate
        The work on the hardware to buy.
    groups : int, optional
        Groups of the estimate's cards that are bought and work side by side.
    size : Size, optional
        The machines that are bought; None takes those of the estimate.

    Returns
    -------
    Ownership
        Both sides in present values, with break-even hours.

    Raises
    ------
    InputError
        If price, tariff or power of the hardware is unknown and not given.
    """
    accelerator = catalog.accelerator(estimate.accelerator)
    size = size or size_of(accelerator, estimate.count, groups)
    owning = case.owning
    hours = owning.hours_per_month or (
        HOURS_PER_MONTH if isinstance(case.workload, Serving) else TRAINING_HOURS_PER_MONTH
    )
    inputs = resolve(accelerator, owning=owning, renting=case.renting, size=size, economy=economy)
    spread, work = Spread(inputs), work_of(case, estimate).times(groups)
    ways = tenancies(
        case,
        accelerator,
        count=estimate.count,
        work=work,
        hosted=hosted,
        catalog=catalog,
        economy=economy,
        reliability=reliability,
    )
    compared = sorted(
        (Comparison(spread, size, way, hours, owning.months) for way in ways),
        key=lambda item: item.rent(spread.base, hours=hours),
    )
    rents = tuple(rent_cost(item, work, today) for item in compared)
    main = _headline(compared, spot=case.limits.price_kind is PriceKind.SPOT)
    place = economy.place(owning.place)
    verdict = answer(estimate, compared, rents, main, hours, size.accelerators)
    return Ownership(
        answer=" ".join((verdict, *missed_limits(estimate, case.limits))),
        accelerator=accelerator.key,
        accelerator_name=accelerator.name,
        count=size.accelerators,
        workload=estimate.workload,
        unit=work.unit,
        months=owning.months,
        hours_per_month=hours,
        place=place.name,
        own=owning_cost(spread, size, hours=hours, months=owning.months, work=work),
        rents=rents,
        against=compared.index(main) if main else None,
        saving_usd=main.saving_range() if main else None,
        timeline=main.timeline() if main else (),
        effects=main.effects() if main else (),
        strips=break_even_by_input(main) if main else (),
        processors=processors,
        budget=budget,
        inputs=inputs,
        assumptions=assumptions(
            case, estimate, accelerator, hours, rents, processors, groups=groups, today=today
        ),
        attributions=(
            f"Carbon intensity: {CARBON_SOURCES[place.carbon_source]}.",
            *((API_SOURCE,) if any(item.kind is RentKind.API for item in rents) else ()),
            "Tariffs are means of a place and a year: replace them with your own.",
        ),
    )


def _headline(compared: list[Comparison], *, spot: bool) -> Comparison | None:
    """Return the way of renting that verdict, chart and break-even compare with: the cheapest.

    A commitment also pays for unused hours, spot machines can be taken back, and a hosted model is
    no machine. So none of them counts here, except spot if the user asks for it.
    """
    kinds = {RentKind.SPOT, RentKind.QUOTE} if spot else {RentKind.ON_DEMAND, RentKind.QUOTE}
    return next((item for item in compared if item.tenancy.kind in kinds), None)


def size_of(accelerator: Accelerator, count: int, groups: int = 1) -> Size:
    """Return machines and power of groups of accelerators, in the machines of the estimate.

    Small groups share a machine.

    Raises
    ------
    InputError
        If the catalog has no board power.
    """
    if accelerator.board_power_w is None:
        reason = f" ({accelerator.no_purchase})" if accelerator.no_purchase else ""
        raise InputError(
            f"{accelerator.name} cannot be priced to own: its power is not known{reason}",
            value=None,
            allowed="an accelerator with a known power",
            remedy="Choose another accelerator; 'gpu-advisor estimate' prices renting it.",
            field="hardware.accelerator",
        )
    per_machine = owned_node(accelerator, count).accelerators
    alone = int(instances_needed(accelerators=count, per_instance=per_machine))
    return Size(
        accelerators=count * groups,
        machines=alone * -(-groups // max(1, per_machine // count)),
        per_machine=per_machine,
        board_power_w=accelerator.board_power_w,
        joined=alone > 1,
    )
