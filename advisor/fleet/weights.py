"""Weights and pace of a fleet's services where their cases leave them open."""

from typing import Final, NamedTuple

from advisor.estimate.tools.serving_formats import Way
from advisor.estimate.tools.software import ToolRules
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.quality import loses_little

SMALLEST_BYTES: Final = 1.0
"""Smallest weights that a machine serves unasked: published comparisons of 8 bits with 16 find
little loss (quality_loss.csv), those of 4 bits some. [bytes/parameter]"""
EIGHT_BIT_SAVES: Final = 0.25
"""Share of a service's cost that weights of 8 bits save at least where a plan takes them although
larger ones fit. Assumed: less is not worth a second look at the model's answers."""


def large(weights: str) -> bool:
    """Whether a plan takes a format although nobody asked for it."""
    return WEIGHT_FORMATS[weights].bytes_per_parameter >= SMALLEST_BYTES


class LargeWeights(ToolRules):
    """Rules of a case without small weights that nobody asked for, and without hosts' memory."""

    def _found_ways(self, card: Accelerator, many: bool) -> tuple[Way, ...]:
        found = super()._found_ways(card, many)
        return tuple(
            one for one in found if one.usual or (large(one.weight_format) and not one.hosted)
        )


class ServedWay(NamedTuple):
    """How a service runs where its case leaves that open."""

    paced: bool = False
    """Answers come at reading speed."""
    narrow: bool = False
    """Weights of 8 bits come first."""


AS_STATED: Final = ServedWay()
"""As the case says."""


class EightBits(LargeWeights):
    """The same with weights of 8 bits first, where their published loss is next to none."""

    def _found_ways(self, card: Accelerator, many: bool) -> tuple[Way, ...]:
        found = super()._found_ways(card, many)
        narrow = [one._replace(usual=True) for one in found if loses_little(one.weight_format)]
        return (*narrow, *(one for one in found if not loses_little(one.weight_format)))
