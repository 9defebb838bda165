"""What a technique of serving would gain on a plan's cards, one sentence each."""

from collections.abc import Iterator
from typing import Any, Final

from advisor.architecture.pairs import writes_apart
from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.batch.forward import generates
from advisor.estimate.configuration import estimate_configuration
from advisor.estimate.placement import Placement
from advisor.foundation.formatting import milliseconds, percent, rate
from advisor.foundation.quantities import Range
from advisor.foundation.units import MILLISECOND
from advisor.nouns.case import Case
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.techniques import Speculation, speculation_facts
from advisor.nouns.workload import Serving

HIT_SHARE: Final = 0.5
"""Share of each prompt that the sentence on prefix caching supposes in the cache."""
LONG_PROMPT: Final = 256
"""Shorter prompts gain little from a prefix cache. [tokens]"""
WORTH: Final = 0.95
"""A technique is told if a time falls to this share of it."""


def served_improvements(
    case: Case, placement: Placement, *, architecture: ModelArchitecture, calibration: Calibration
) -> tuple[str, ...]:
    """Return one sentence for each technique that is worth its effort on a plan.

    Each with the speeds before and after; empty for networks that do not write text, and for those
    whose prompts pass an encoder: engines neither cache nor draft for them.

    Parameters
    ----------
    case : Case
        Of serving. What it states already is not offered.
    """
    workload = case.workload
    if not isinstance(workload, Serving) or not generates(architecture):
        return ()
    if writes_apart(architecture):
        return ()

    def speeds(update: dict[str, Any]) -> tuple[Range, Range, Range]:
        own = case.model_copy(update={"workload": workload.model_copy(update=update)})
        found = estimate_configuration(
            own, placement, architecture=architecture, calibration=calibration
        ).serving
        if found is None:
            msg = "serving has no estimate"
            raise TypeError(msg)
        return found.ttft_ms, found.tpot_ms, found.output_tokens_per_s

    first, token, output = speeds({})
    told = []
    for title, update in _offers(workload, architecture):
        after_first, after_token, after_output = speeds(update)
        faster = after_token.expected <= WORTH * token.expected
        sooner = after_first.expected <= WORTH * first.expected
        if not faster and not sooner:
            continue
        told.append(
            f"{title}: first token {_ms(first)} → {_ms(after_first)}, "
            f"{_ms(token)} → {_ms(after_token)} a token, "
            f"{rate(output.expected, 'tokens/s')} → {rate(after_output.expected, 'tokens/s')}"
        )
    return tuple(told)


def _offers(
    workload: Serving, architecture: ModelArchitecture
) -> Iterator[tuple[str, dict[str, Any]]]:
    if workload.prefix_hit_share is None and workload.input_tokens >= LONG_PROMPT:
        yield (
            f"prompts of which {percent(HIT_SHARE)} are cached (--prefix-hits {HIT_SHARE:.0%})",
            {"prefix_hit_share": HIT_SHARE},
        )
    if workload.speculation is None:
        heads = Speculation.MTP if architecture.prediction_layers else Speculation.EAGLE3
        for method in (heads, Speculation.NGRAM):
            title = speculation_facts()[method].title
            yield (
                f"speculative decoding with {title} (--speculation {method})",
                {"speculation": method},
            )


def _ms(value_ms: Range) -> str:
    return milliseconds(value_ms.expected * MILLISECOND)
