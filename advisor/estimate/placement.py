"""Where and how a case's work runs: hardware, layout, precision, tool and price."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.results import SoftwareUse
from advisor.estimate.tools.software import tool_of
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.foundation.quantities import Range
from advisor.foundation.record import record
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, Node, Offer
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.tools import Tool
from advisor.nouns.workload import FineTuning, Serving


@record
class Placement:
    """Hardware, layout, precision and price of a configuration."""

    accelerator: Accelerator
    node: Node
    count: int
    layout: ParallelLayout
    precision: str
    """Recipe (training) or weight format (serving)."""
    offer: Offer | None = None
    usd_per_hour: float | None = None
    """All instances together; None if no offer rents this hardware. [USD/h]"""
    instances: int = 0
    owned: bool = False
    interrupted: Range | None = None
    """Spot: hours of the run for each hour of work."""
    tool: Tool | None = None
    """What does the work; None leaves the choice to the case."""
    cache: str | None = None
    """Format of the key-value cache that the plan chose; None for that of the case."""

    def equipped(self, case: Case, architecture: ModelArchitecture) -> Placement:
        """Return the placement with the tool that does the work of a case."""
        if self.tool is not None:
            return self
        form = self.precision if isinstance(case.workload, Serving) else None
        return replace(self, tool=tool_of(case, architecture, self.accelerator, form))

    def training(self, case: Case, architecture: ModelArchitecture) -> TrainingRun:
        """Return the resolved training workload of a case under this placement's tool."""
        if isinstance(case.workload, Serving):
            msg = "serving has no training run"
            raise TypeError(msg)
        tool = self.equipped(case, architecture).tool
        return resolve_training(case.workload, architecture, recipe_named(self.precision), tool)

    def software(self, case: Case, architecture: ModelArchitecture) -> SoftwareUse | None:
        """Return the tool as the estimate reports it; None without one."""
        tool = self.tool
        if tool is None:
            return None
        backend, support = tool.support(self.accelerator) or ("", None)
        tuned = isinstance(case.workload, FineTuning)
        first = tool_of(case, architecture, self.accelerator) if tuned else None
        most = first.most_cards if first is not None else inf
        return SoftwareUse(
            name=tool.name,
            title=tool.title,
            release=tool.release_on(self.accelerator),
            named=tool.named_on(self.accelerator),
            backend=backend,
            note=" ".join(item for item in (tool.ended, support.note if support else "") if item),
            instead_of=first.title if first is not None and first.name != tool.name else "",
            first_on_one=most < self.count,
        )
