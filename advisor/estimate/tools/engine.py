"""The engine whose constants estimate a serving tool on a card."""

from typing import Final

from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import PROCESSOR
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.software.tools import Tool

DEFAULT_ENGINE: Final = "vllm"
"""Its constants are the default ones."""


def constants_of(
    calibration: Calibration, tool: Tool | None, card: Accelerator, duty: Duty
) -> Calibration:
    """Return the constants under which a serving tool is estimated on a card."""
    found = calibration.under(engine_of(tool, card, calibration))
    most = tool and tool.at_once(duty)
    if not most:
        return found
    return found.changed(serving=found.serving.changed(most_sequences=most))


def engine_of(tool: Tool | None, card: Accelerator, calibration: Calibration) -> str | None:
    """Return the engine whose constants estimate a serving tool on a card; None: the default.

    A processor takes the default too, unless the engine was fitted on processors.
    """
    if tool is None or tool.engine in (None, DEFAULT_ENGINE):
        return None
    facts = calibration.engines.get(tool.engine)
    fitted = facts is not None and PROCESSOR in facts.backends
    return tool.engine if fitted or card.segment is not Segment.CPU else None
