"""The facade: what Python, the command line and the page call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from advisor.architecture.resolve import resolve_model
from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.economy import load_economy, places
from advisor.catalog.nodes import node_for
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.results import Estimate
from advisor.foundation.names import weights_name
from advisor.nouns.case import Case
from advisor.nouns.case_files import input_error, load_case, parse_case
from advisor.nouns.hardware import Accelerator
from advisor.planning.explain.sentences import missed_limits
from advisor.planning.measured import with_measured
from advisor.planning.prepared import as_case, placed, prepared, priced, resolved, shorter_lengths
from advisor.planning.recommend import recommend as _recommend
from advisor.planning.results import Recommendation
from advisor.planning.search.neighbours import neighbours

if TYPE_CHECKING:
    from advisor.calibration.scoring.published import (
        PublishedRun,
        predicted_now,
        published_runs,
        similar_runs,
    )
    from advisor.calibration.scoring.report import ValidationReport
    from advisor.calibration.scoring.validation import validate
    from advisor.catalog.live.refresh import refresh_prices
    from advisor.catalog.overview import PriceOverview, price_overview
    from advisor.estimate.curve_results import Curve
    from advisor.export.formats import Export, export_formats
    from advisor.owning.results import Ownership
    from advisor.planning.explain.scaling import Scaling
    from advisor.planning.fits.results import Fits

_LATER: Final = {
    "Curve": "advisor.estimate.curve_results",
    "Export": "advisor.export.formats",
    "Fits": "advisor.planning.fits.results",
    "Ownership": "advisor.owning.results",
    "PriceOverview": "advisor.catalog.overview",
    "PublishedRun": "advisor.calibration.scoring.published",
    "Scaling": "advisor.planning.explain.scaling",
    "ValidationReport": "advisor.calibration.scoring.report",
    "export_formats": "advisor.export.formats",
    "predicted_now": "advisor.calibration.scoring.published",
    "price_overview": "advisor.catalog.overview",
    "published_runs": "advisor.calibration.scoring.published",
    "refresh_prices": "advisor.catalog.live.refresh",
    "similar_runs": "advisor.calibration.scoring.published",
    "validate": "advisor.calibration.scoring.validation",
}
"""Imported on first use, as is what one function alone needs: a process should start fast."""


def __getattr__(name: str) -> Any:
    """Import a name of ``_LATER``."""
    if name not in _LATER:
        msg = f"module 'advisor.api' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_LATER[name]), name)


def recommend(
    case: Case | Mapping[str, Any],
    *,
    catalog: Catalog | None = None,
    on_sentence: Callable[[str], object] = lambda _: None,
) -> Recommendation:
    """Search the catalog: which accelerators, how many, arranged how, for how long, at what cost.

    Parameters
    ----------
    case : Case or mapping
    catalog : Catalog, optional
        The shipped catalog by default.
    on_sentence : callable, optional
        Is called once with the answer in one sentence, as soon as that is known.

    Returns
    -------
    Recommendation

    Raises
    ------
    InputError
        If the case asks for something unknown or impossible to compute.
    """
    case, architecture = resolved(as_case(case))
    catalog, calibration = with_measured(priced(case, catalog), load_calibration(), case.limits)
    return _recommend(
        case,
        architecture=architecture,
        catalog=catalog,
        calibration=calibration,
        on_sentence=on_sentence,
    )


def estimate(
    case: Case | Mapping[str, Any], *, catalog: Catalog | None = None, curves: bool = False
) -> Estimate:
    """Estimate one configuration: the case's hardware, and its layout or the best one.

    Parameters
    ----------
    case : Case or mapping
        ``hardware`` is required. Without ``layout`` the fastest layout that fits is used, or,
        when none fits, the one that needs least memory.
    catalog : Catalog, optional
    curves : bool, optional
        Also what batch and length do to memory and speed.

    Returns
    -------
    Estimate

    Raises
    ------
    InputError
        If the hardware is missing or unknown, or lacks the precision.
    """
    case, catalog, calibration, architecture, placement = placed(case, catalog)
    result = estimate_configuration(
        case, placement, architecture=architecture, calibration=calibration
    )
    around = neighbours(case, placement, architecture=architecture, calibration=calibration)
    missed = missed_limits(result, case.limits)
    result = result.model_copy(update={"neighbours": around, "missed_limits": missed})
    if curves:
        from advisor.planning.explain.curves import memory_curves as _memory_curves

        found = _memory_curves(case, placement, architecture=architecture, calibration=calibration)
        result = result.model_copy(update={"curves": found})
    if result.memory.fits:
        return result
    from advisor.planning.explain.ways_out import ways_out

    ways = ways_out(
        case,
        placement,
        result,
        architecture=architecture,
        catalog=catalog,
        calibration=calibration,
    )
    return result.model_copy(update={"ways_out": ways})


def memory_curves(
    case: Case | Mapping[str, Any], *, catalog: Catalog | None = None
) -> tuple[Curve, ...]:
    """Return what batch and length do to memory and speed of one configuration.

    Parameters
    ----------
    case : Case or mapping
        ``hardware`` is required; ``layout`` is searched when absent.
    catalog : Catalog, optional
        The shipped catalog by default.

    Returns
    -------
    tuple of Curve
        Against micro-batch or requests at a time, and against the length of a sequence.

    Raises
    ------
    InputError
        If the hardware is missing or unknown, or lacks the precision.
    """
    from advisor.planning.explain.curves import memory_curves as _memory_curves

    case, _, calibration, architecture, placement = placed(case, catalog)
    return _memory_curves(case, placement, architecture=architecture, calibration=calibration)


def scaling(case: Case | Mapping[str, Any], *, catalog: Catalog | None = None) -> Scaling:
    """Show how a run speeds up with the number of the case's accelerators.

    Parameters
    ----------
    case : Case or mapping
        With ``hardware``, whose count only chooses the machine; ``layout`` is ignored.
    catalog : Catalog, optional

    Returns
    -------
    Scaling
        The best layout of each number, with its efficiency.

    Raises
    ------
    InputError
        If the hardware is missing or unknown, or the workload serves.
    """
    from advisor.planning.explain.scaling import scaling as _scaling

    case = as_case(case).model_copy(update={"layout": None})
    case, _, calibration, architecture, placement = placed(case, catalog)
    return _scaling(case, placement, architecture=architecture, calibration=calibration)


def fits(
    accelerator: str,
    *,
    count: int = 1,
    context_tokens: int = 8192,
    concurrency: int = 8,
    everything: bool = False,
    catalog: Catalog | None = None,
) -> Fits:
    """Return which known models some cards can serve and train.

    Parameters
    ----------
    accelerator : str
        Key or name in the catalog.
    count : int, optional
        Cards, one node's or several.
    context_tokens : int, optional
        Prompt and answer together (serving), the sequence (training). [tokens]
    concurrency : int, optional
        Sequences served at once, beside one alone.
    everything : bool, optional
        Every preset that writes text instead of a short list.
    catalog : Catalog, optional

    Returns
    -------
    Fits

    Raises
    ------
    InputError
        If the accelerator is unknown, or an amount is out of bounds.
    """
    from advisor.planning.fits.request import cards_fit

    return cards_fit(
        accelerator,
        count=count,
        context_tokens=context_tokens,
        concurrency=concurrency,
        everything=everything,
        catalog=catalog or load_catalog(),
        calibration=load_calibration(),
    )


def own(case: Case | Mapping[str, Any], *, catalog: Catalog | None = None) -> Ownership:
    """Compare buying the case's hardware with renting it.

    Parameters
    ----------
    case : Case or mapping
        ``owning`` and ``renting`` hold the assumptions; each that is absent takes a cited
        default. Without ``hardware``, what ``owning.budget_usd`` buys is taken, or the cheapest
        plan's among the accelerators whose price is known. Machines of ``limits.owned`` that
        were measured are timed at their own rates.
    catalog : Catalog, optional

    Returns
    -------
    Ownership

    Raises
    ------
    InputError
        If price, power or tariff are not known and not given, or nothing can do the work.
    """
    from advisor.owning.answer import answer_own

    case, catalog, calibration, architecture = prepared(case, catalog)
    return answer_own(
        case,
        architecture=architecture,
        catalog=catalog,
        calibration=calibration,
        economy=load_economy(),
        today=date.today(),
    )


def export(
    case: Case | Mapping[str, Any],
    to: str,
    *,
    answer: Recommendation | Estimate | None = None,
    checkpoint: str | None = None,
    link: str | None = None,
    catalog: Catalog | None = None,
) -> Export:
    """Write a plan as a file: a launch configuration, or a report.

    Parameters
    ----------
    case : Case or mapping
    to : str
        ``vllm``, ``torchrun``, ``accelerate``, ``deepspeed``, ``slurm``, ``kubernetes``,
        ``skypilot``, ``markdown``, ``html``, ``json`` or ``csv``.
    answer : Recommendation or Estimate, optional
        The answer to the case where it is known; else its hardware is estimated, or, without
        hardware, the catalog searched.
    checkpoint : str, optional
        Hub id or folder of weights to load instead of the model's own.
    link : str, optional
        Address that opens the answer, for reports.
    catalog : Catalog, optional

    Returns
    -------
    Export

    Raises
    ------
    InputError
        If the format is unknown, nothing is feasible, or the file would not start.
    """
    from advisor.export import export_answer, format_named

    form = format_named(to)
    if checkpoint is not None:
        weights_name(checkpoint, field="--checkpoint")
    case = as_case(case)
    if answer is None:
        find = recommend if case.hardware is None else estimate
        answer = find(case, catalog=catalog)
    case, catalog, calibration, architecture = prepared(case, catalog)
    return export_answer(
        case,
        answer,
        form,
        architecture=architecture,
        catalog=catalog,
        calibration=calibration,
        today=date.today(),
        checkpoint=checkpoint,
        link=link,
    )


def compare(keys: list[str], *, catalog: Catalog | None = None) -> tuple[Accelerator, ...]:
    """Return the accelerators named by ``keys``, in that order.

    Raises
    ------
    InputError
        If one is unknown; the message names the nearest.
    """
    catalog = catalog or load_catalog()
    return tuple(catalog.accelerator(key) for key in keys)


__all__ = [
    "Case",
    "Catalog",
    "Curve",
    "Estimate",
    "Export",
    "Fits",
    "ModelArchitecture",
    "Ownership",
    "PriceOverview",
    "PublishedRun",
    "Recommendation",
    "Scaling",
    "ValidationReport",
    "compare",
    "estimate",
    "export",
    "export_formats",
    "fits",
    "input_error",
    "load_case",
    "load_catalog",
    "memory_curves",
    "node_for",
    "own",
    "parse_case",
    "places",
    "predicted_now",
    "price_overview",
    "published_runs",
    "recommend",
    "refresh_prices",
    "resolve_model",
    "scaling",
    "shorter_lengths",
    "similar_runs",
    "validate",
]
