"""How cards do a stated case's work where the search finds no layout: with the least memory."""

import math
from collections.abc import Sequence
from contextlib import suppress

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.errors import InputError
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate
from advisor.estimate.tools.software import ToolRules
from advisor.estimate.training.run import offer_for
from advisor.foundation.record import record
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout, Recompute, Sharding
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.tool_offers import ServingOffer, TrainingOffer
from advisor.nouns.software.tools import Tool
from advisor.nouns.workload import FineTuning, Serving
from advisor.planning.prepared import PricedCase
from advisor.planning.search.replicas import LAYER_DEGREES, PIPELINE_DEGREES
from advisor.planning.search.systems import System


@record
class Arranged:
    """How a card does the work."""

    tool: Tool
    precision: str
    layout: ParallelLayout
    cache: str | None = None
    """Of keys and values, where the plan chose it."""


@record
class Asked(PricedCase):
    """A case with its hardware, before its layout is chosen."""

    card: Accelerator
    count: int
    systems: Sequence[System]
    usual: Arranged
    """The tool in its largest format or proven recipe; stated fields, least memory in others."""

    @property
    def serving(self) -> bool:
        """Whether the work is serving."""
        return isinstance(self.case.workload, Serving)


def unsearched(asked: Asked, system: System, *, short: bool) -> Arranged:
    """Return tool, format and layout where the search has no layout for all accelerators.

    Serving takes the largest weight format that fits in the leanest layout, or else the narrowest.

    ``short``: the search has layouts, and none of them fits or carries the load.
    """
    if not asked.serving:
        return asked.usual
    case, architecture = asked.case, asked.architecture
    many = asked.count > LAYER_DEGREES[-1]
    rules = ToolRules.of(case, architecture)
    ways = [way for way in rules.ways(system.accelerator, many=many) if not way.hosted]
    if not architecture.generates:
        ways = ways[:1]
    # Only a tool that divides layers' matrices puts many cards to use.
    dividing = [way for way in ways if way.tool.divides(system.accelerator, "tensor")]
    arranged = [
        Arranged(
            way.tool,
            way.weight_format,
            leanest(architecture, asked.count, case, way.tool, system.accelerator),
            way.cache,
        )
        for way in (dividing if many else ()) or ways
    ]
    if not arranged:
        return asked.usual
    first = None
    for how in arranged:
        found = _tried(asked, system, how)
        if found and found.crowded:
            return how  # smaller weights let no more requests run at once
        if found and found.memory.fits:
            first = how
            break
    if first is not None and not short:
        return first
    # Where the memory holds the model, but too few requests, no other tool takes the work over.
    rest = [how for how in arranged if first is None or how.tool is first.tool]
    return min(rest, key=lambda how: WEIGHT_FORMATS[how.precision].bytes_per_parameter)


def _tried(asked: Asked, system: System, how: Arranged) -> Estimate | None:
    """Return the estimate; None if the network does not run in this layout."""
    place = Placement(
        system.accelerator,
        system.node,
        how.layout.accelerators,
        how.layout,
        how.precision,
        tool=how.tool,
        cache=how.cache,
    )
    with suppress(InputError):
        return estimate_configuration(asked, place)
    return None


def leanest(
    architecture: ModelArchitecture, count: int, case: Case, tool: Tool, card: Accelerator
) -> ParallelLayout:
    """Return the stated fields with the least memory in all others that the tool offers."""
    stated = {} if case.layout is None else case.layout.model_dump(exclude_unset=True)
    workload = case.workload
    others = math.prod(stated.get(name, 1) for name in ("pipeline", "context"))
    samples = architecture.unit is not Unit.TOKEN
    if isinstance(workload, Serving):
        offer: ServingOffer | TrainingOffer | None = tool.serving
    else:
        offer = offer_for(tool, workload, architecture)
    serves = isinstance(offer, ServingOffer)
    able = tool.divides(card, "tensor") if serves else offer is None or "tensor" in offer.divides
    splits = not samples and able
    # A stated degree of data parallelism leaves the others to the rest of the accelerators.
    free = splits and not stated.keys() & {"tensor", "data"}
    degrees = (1, 2, 4, 8) if free else (1,)
    divided = [degree for degree in degrees if count % (degree * others) == 0]
    heads = architecture.num_attention_heads
    even = (degree for degree in divided if heads % degree == 0)
    tensor = stated.get("tensor") or max(even, default=1)
    least: dict[str, object] = {"tensor": tensor}
    if serves and tool.divides(card, "pipeline") and not stated:
        depths = PIPELINE_DEGREES if splits else LAYER_DEGREES
        stages = (depth for depth in depths if count // tensor % depth == 0)
        others = max(min(degree, architecture.num_hidden_layers) for degree in stages)
        least["pipeline"] = others
    data = stated.get("data") or max(1, count // (tensor * others))
    least["data"] = data
    if isinstance(offer, TrainingOffer):
        blocks = not samples or any(op.segment for op in architecture.operators)
        four_bit = isinstance(workload, FineTuning) and workload.four_bit
        ranks = data * stated.get("context", 1)
        least["sharding"] = offer.shardings(four_bit=four_bit)[-1] if ranks > 1 else Sharding.DDP
        least["recompute"] = offer.recompute[-1] if blocks else Recompute.NONE
    # Contradictions are refused where the layout is estimated.
    return ParallelLayout().changed(**(least | stated))
