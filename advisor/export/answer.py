"""Writes the answer to a case as a file."""

from __future__ import annotations

from datetime import date

from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import Catalog
from advisor.catalog.nodes import node_for, owned_node
from advisor.estimate.results import Estimate
from advisor.export.formats import REPORTS, Export, Format, cannot
from advisor.export.launchers import launch_file
from advisor.export.report import report_file
from advisor.export.setup import Setup
from advisor.nouns.case import Case
from advisor.nouns.efficiency import Calibration
from advisor.nouns.hardware import PriceKind
from advisor.planning.results import Recommendation


def export_answer(
    case: Case,
    answer: Recommendation | Estimate,
    to: Format,
    *,
    architecture: ModelArchitecture,
    catalog: Catalog,
    calibration: Calibration,
    today: date,
    checkpoint: str | None = None,
    link: str | None = None,
) -> Export:
    """Return the answer as a file.

    Parameters
    ----------
    case : Case
        The case, with the open lengths of its workload fitted to the model.
    answer : Recommendation or Estimate
        A launch configuration uses the first plan of a recommendation.
    checkpoint : str, optional
        Weights to load instead of the model's own.
    link : str, optional
        Address that opens the answer, for reports.

    Raises
    ------
    InputError
        If no plan is feasible, or the launch configuration would not start.
    """
    if to in REPORTS:
        made = f"Made on {today.isoformat()} by gpu-advisor"
        newest = answer.catalog_date if isinstance(answer, Recommendation) else ""
        made += f" with prices up to {newest}." if newest else "."
        return Export.of(to, report_file(answer, to, made=made, link=link))
    plan = answer if isinstance(answer, Estimate) else _first(answer)
    accelerator = catalog.accelerator(plan.accelerator)
    offers = (item for item in catalog.offers if item.key == plan.cost.offer)
    offer = next(offers, None)
    node = node_for(accelerator, offer) if offer else owned_node(accelerator, plan.count)
    setup = Setup(
        estimate=plan,
        workload=case.workload,
        model=architecture,
        accelerator=accelerator,
        machine_size=node.accelerators,
        calibration=calibration,
        checkpoint=checkpoint,
        spot=case.limits.price_kind is PriceKind.SPOT,
    )
    return Export.of(to, launch_file(setup, to))


def _first(answer: Recommendation) -> Estimate:
    if not answer.plans:
        raise cannot(
            "there is no plan to export",
            value=answer.answer,
            allowed="a case with a plan, or a report, which states what would help",
            remedy="Loosen a limit, or add --accelerator and --count.",
        )
    return answer.plans[0].estimate
