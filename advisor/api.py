"""The functions that Python users, the command line and the page call.

A name that is imported `as` itself is part of this facade. Every ``catalog`` holds the accelerators
and offers to search; the default is the shipped catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from advisor.architecture.resolve import resolve_model as resolve_model
from advisor.catalog import Catalog as Catalog
from advisor.catalog import load_catalog as load_catalog
from advisor.catalog.economy import load_economy
from advisor.catalog.economy import places as places
from advisor.estimate.results import Estimate as Estimate
from advisor.foundation.dates import current_day
from advisor.foundation.garbage import collection_paused
from advisor.foundation.imports import later
from advisor.foundation.names import weights_name
from advisor.nouns.case import Case as Case
from advisor.nouns.case_files import input_error as input_error
from advisor.nouns.case_files import load_case as load_case
from advisor.nouns.case_files import parse_case as parse_case
from advisor.nouns.hardware import Accelerator
from advisor.planning.placed import explained
from advisor.planning.prepared import as_case, prepared
from advisor.planning.recommend import recommend as _recommend
from advisor.planning.results import Recommendation as Recommendation
from advisor.planning.results import Rejection as Rejection
from advisor.planning.stated import placed

if TYPE_CHECKING:
    from advisor.calibration.scoring.published import PublishedRun as PublishedRun
    from advisor.calibration.scoring.published import predicted_now as predicted_now
    from advisor.calibration.scoring.published import published_runs as published_runs
    from advisor.calibration.scoring.published import similar_runs as similar_runs
    from advisor.calibration.scoring.report import ValidationReport as ValidationReport
    from advisor.calibration.scoring.validation import validate as validate
    from advisor.catalog.live.refresh import prices_age_s as prices_age_s
    from advisor.catalog.live.refresh import refresh_prices as refresh_prices
    from advisor.catalog.offer_list import list_offers as list_offers
    from advisor.catalog.offer_list import price_overview as price_overview
    from advisor.catalog.own.facts import parse_own_facts as parse_own_facts
    from advisor.catalog.own.facts import uploads_come_from as uploads_come_from
    from advisor.catalog.own.facts import using_catalog as using_catalog
    from advisor.estimate.beside_results import ApiComparison as ApiComparison
    from advisor.estimate.beside_results import Curve as Curve
    from advisor.estimate.beside_results import Day as Day
    from advisor.export.answer import export_formats as export_formats
    from advisor.export.checks.steps import platforms as platforms
    from advisor.export.fleet_report import fleet_report as fleet_report
    from advisor.export.formats import Export as Export
    from advisor.export.report import offers_csv as offers_csv
    from advisor.fleet.machines import list_machines as list_machines
    from advisor.fleet.plan import plan_fleet as plan_fleet
    from advisor.fleet.portfolio import Portfolio as Portfolio
    from advisor.fleet.portfolio import load_portfolio as load_portfolio
    from advisor.fleet.quick import example_portfolio as example_portfolio
    from advisor.fleet.quick import quick_portfolio as quick_portfolio
    from advisor.fleet.results import FleetPlan as FleetPlan
    from advisor.owning.results import Ownership as Ownership
    from advisor.planning.explain.curves import Scaling as Scaling
    from advisor.planning.explain.sentences import OBJECTIVE_WORDS as OBJECTIVE_WORDS
    from advisor.planning.explain.sentences import energy_used as energy_used
    from advisor.planning.explain.sentences import hosted_cells as hosted_cells
    from advisor.planning.explain.sentences import neighbour_cells as neighbour_cells
    from advisor.planning.explain.sentences import rent_sentence as rent_sentence
    from advisor.planning.explain.sentences import way_out_sentence as way_out_sentence
    from advisor.planning.explain.terms import answer_unit as answer_unit
    from advisor.planning.explain.terms import headlines as headlines
    from advisor.planning.explain.terms import latencies as latencies
    from advisor.planning.explain.terms import term_cells as term_cells
    from advisor.planning.explain.terms import term_sections as term_sections
    from advisor.planning.explain.turning import Cell as Cell
    from advisor.planning.explain.turning import Turn as Turn
    from advisor.planning.explain.turning import Turning as Turning
    from advisor.planning.explain.what_if import WhatIf as WhatIf
    from advisor.planning.fits.request import fits as fits
    from advisor.planning.fits.results import VERDICT_TITLES as VERDICT_TITLES
    from advisor.planning.fits.results import Fits as Fits

_LATER: Final = later(__file__)
"""Module by name, of those imported on first use."""


if not TYPE_CHECKING:  # the type checker would take it for every name

    def __getattr__(name: str) -> Any:
        """Import a name of ``_LATER``."""
        if name not in _LATER:
            raise AttributeError(f"module 'advisor.api' has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)


@collection_paused()
def recommend(
    case: Case | Mapping[str, Any],
    *,
    catalog: Catalog | None = None,
    on_sentence: Callable[[str], object] | None = None,
    beside: bool = True,
    brief: bool = False,
) -> Recommendation:
    """Search the catalog: which accelerators, how many, arranged how, for how long, at what cost.

    Returns ranked plans, the frontier, and every other accelerator with the reason against it. The
    case needs no ``hardware``. Raises InputError if it names something unknown or cannot be
    computed.

    ``on_sentence`` receives the answer in one sentence once, as soon as it is known. ``beside``
    also finds the layouts near the best plan of each objective that was not asked, and the smallest
    number of each accelerator that meets the deadline. ``brief`` leaves out the fewest, the layouts
    near those of the plans, plans after the second of the asked objective, and, where a plan
    exists, why the others lost.
    """
    asked = prepared(case, catalog, searching=True)
    return _recommend(asked, on_sentence=on_sentence, beside=beside, brief=brief)


def estimate(
    case: Case | Mapping[str, Any], *, catalog: Catalog | None = None, curves: bool = False
) -> Estimate:
    """Estimate one configuration: the case's hardware, and its layout or the best one.

    Returns memory, time and cost with their terms, and ways out if the work does not fit.
    ``hardware`` is required. Without ``layout``, the fastest layout that fits is used, or the one
    that needs the least memory if none fits. ``curves`` also computes how batch and length change
    memory and speed. Raises InputError if the hardware is missing or unknown, or lacks the
    precision.
    """
    return explained(*placed(case, catalog), curves=curves)


def memory_curves(
    case: Case | Mapping[str, Any], *, catalog: Catalog | None = None
) -> tuple[Curve, ...]:
    """Return how batch and length change the memory and speed of one configuration.

    One curve over the micro-batch or the concurrent requests, one over the sequence length.
    ``hardware`` is required. Without ``layout``, the best one is searched. Raises InputError if the
    hardware is missing or unknown, or lacks the precision.
    """
    from advisor.planning.explain.curves import memory_curves as _memory_curves

    return _memory_curves(*placed(case, catalog))


def scaling(case: Case | Mapping[str, Any], *, catalog: Catalog | None = None) -> Scaling:
    """Show how a run speeds up with the number of the case's accelerators.

    Gives the best layout for each number of accelerators, with its efficiency. ``hardware`` is
    required; its count only chooses the machine. ``layout`` is ignored. Raises InputError if the
    hardware is missing or unknown, or the workload serves.
    """
    from advisor.planning.explain.curves import scaling as _scaling

    return _scaling(*placed(as_case(case).changed(layout=None), catalog))


def turning(case: Case | Mapping[str, Any], *, catalog: Catalog | None = None) -> Turning:
    """Say what would make another accelerator the answer, and how each does in each number.

    ``turns()`` of the result: the value of each input beyond which another accelerator is the
    answer. ``cells()``: time and cost of each accelerator in each number, or why it does not work.
    Raises InputError if the case names something unknown or cannot be computed.
    """
    from advisor.planning.explain.turning import Turning

    return Turning(prepared(case, catalog, searching=True))


def what_if(
    case: Case | Mapping[str, Any], *, catalog: Catalog | None = None
) -> tuple[WhatIf, ...]:
    """Show what more or better hardware would buy, one change at a time.

    First the configuration as it is, then each change. ``hardware`` is required. ``layout`` is
    ignored: each change has its own best one. Raises InputError if the hardware is missing or
    unknown, or lacks the precision.
    """
    from advisor.planning.explain.what_if import what_ifs

    return what_ifs(placed(as_case(case).changed(layout=None), catalog)[0])


def own(case: Case | Mapping[str, Any], *, catalog: Catalog | None = None) -> Ownership:
    """Compare buying the case's hardware with renting it.

    Returns both costs over time, and the use and month at which buying becomes cheaper.

    ``owning`` and ``renting`` of the case hold the assumptions; what is missing takes a cited
    default. Without ``hardware``, it takes what ``owning.budget_usd`` buys, or the whole machines
    that cost least to own, as ``plan_fleet`` buys them, beside the cheapest rent of any card.
    Measured machines of ``limits.owned`` use their own rates. Raises InputError if price, power or
    tariff are neither known nor given, or nothing can do the work.
    """
    from advisor.fleet.least import least_machines
    from advisor.owning.answer import answer_own, in_eight_bits

    asked, economy = prepared(case, catalog), load_economy()
    least, buy = partial(least_machines, asked, economy), None
    narrow = partial(least_machines, in_eight_bits(asked), economy, None)
    if asked.case.owning.budget_usd is not None:
        from advisor.fleet.purse import buy_within

        buy = partial(buy_within, asked, economy)
    return answer_own(
        asked, economy=economy, today=current_day(), least=least, buy=buy, narrow=narrow
    )


def export(
    case: Case | Mapping[str, Any],
    to: str,
    *,
    answer: Recommendation | Estimate | None = None,
    checkpoint: str | None = None,
    log_to: str | None = None,
    link: str | None = None,
    platform: str | None = None,
    catalog: Catalog | None = None,
) -> Export:
    """Write a plan as a file: a launch configuration, or a report.

    Returns name, media type and content of the file. Raises InputError if the format is unknown, no
    plan is feasible, or the file would not start.

    ``to``: a format of ``export_formats``: a program that trains or serves, a cluster's file, or a
    report. ``answer``: the answer to the case, if it is known. Otherwise the case's hardware is
    estimated, or the catalog is searched if the case has none: then the best plan is written that
    the format can start. ``checkpoint``: hub id or folder of weights to load instead of the model's
    own. ``log_to``: tracker of experiments that training reports to: ``mlflow``. ``link``: address
    that opens the answer, for reports. ``platform``: where the plan is set up, for ``checklist``
    and ``check-script``: ``linux``, ``windows``, ``cloud``, ``slurm``, ``kubernetes``, ``jetson``,
    ``macos`` or ``tpu``; by default the usual one for the card.
    """
    from advisor.export import Wishes, export_case, format_named

    form = format_named(to)
    if checkpoint is not None:
        weights_name(checkpoint, field="--checkpoint")
    return export_case(
        as_case(case),
        form,
        Wishes(checkpoint, log_to, link, platform),
        answer=answer,
        search=partial(recommend, catalog=catalog),
        estimate=partial(estimate, catalog=catalog),
        catalog=catalog,
    )


def compare(keys: list[str], *, catalog: Catalog | None = None) -> tuple[Accelerator, ...]:
    """Return the accelerators named by ``keys``, in that order.

    Raises InputError if a key is unknown. The message suggests the nearest ones.
    """
    catalog = catalog or load_catalog()
    return tuple(catalog.accelerator(key) for key in keys)
