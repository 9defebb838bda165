"""The latency that a served model is held to where a case states none."""

from enum import Enum, auto
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.foundation.units import MILLISECOND, trimmed
from advisor.nouns.case import Case
from advisor.nouns.limits import Constraints
from advisor.nouns.serving_defaults import serving_defaults
from advisor.nouns.workload import Serving, Workload

LATENCIES: Final = ("max_ttft_ms", "max_tpot_ms")


class Pace(Enum):
    """How fast a served model answers where a case leaves it open."""

    USUAL = auto()
    READER = auto()
    """A service for several writes as slowly as one reads, too."""
    STATED = auto()
    """As slowly as it likes."""


def usual_limits(
    case: Case,
    architecture: ModelArchitecture,
    pace: Pace = Pace.USUAL,
    *,
    whole: Workload | None = None,
) -> Constraints:
    """Return the limits of a case with those of a latency where it states none.

    ``case``: only serving that writes answers token by token, or makes images, gains limits.
    ``whole``: the service that the case is a replica of.
    """
    workload, limits = case.workload, case.limits
    if not isinstance(workload, Serving) or pace is Pace.STATED:
        return limits
    from advisor.estimate.serving.report import STREAM_TOKENS

    patience = serving_defaults().patience
    first_ms = token_ms = None
    if architecture.denoises:
        # Who asks at a rate waits for one image, however many share its batch.
        images = workload.concurrency if workload.requests_per_s is None else 1
        first_ms = patience.image_ms * images
    elif architecture.generates and workload.output_tokens >= STREAM_TOKENS:
        first_ms = patience.first_token_ms + patience.prompt_token_ms * workload.input_tokens
        slow = pace is Pace.READER
        token_ms = (
            patience.reader_token_ms if slow else patience.between_tokens_ms(whole or workload)
        )
    return limits.changed(
        max_ttft_ms=limits.max_ttft_ms or first_ms, max_tpot_ms=limits.max_tpot_ms or token_ms
    )


def slower_limits(case: Case, architecture: ModelArchitecture) -> list[Constraints]:
    """Return the limits that a case may have where no plan meets the usual, one after the other.

    Whoever waits longer for the first token still reads on.
    """
    usual, reader = (usual_limits(case, architecture, one) for one in (Pace.USUAL, Pace.READER))
    stated = case.limits
    found = [
        stated.changed(max_ttft_ms=first, max_tpot_ms=later)
        for later in (usual.max_tpot_ms, reader.max_tpot_ms, stated.max_tpot_ms)
        for first in (usual.max_ttft_ms, stated.max_ttft_ms)
    ]
    return [one for place, one in enumerate(found) if place == found.index(one) > 0]


def pace_words(limits: Constraints, stated: Constraints, *, writes: bool) -> str:
    """Return the assumption that limits hold which nobody stated; empty if there are none."""
    pace, flags = latency_words(limits, stated, writes=writes)
    return f"{pace}, since no limit is stated ({flags})" if flags else ""


def latency_words(limits: Constraints, stated: Constraints, *, writes: bool) -> tuple[str, str]:
    """Return the limits that are not the stated ones in words, and their options."""
    first, later = limits.max_ttft_ms, limits.max_tpot_ms
    parts, flags = [], []
    if later is not None and later != stated.max_tpot_ms:
        parts.append(f"{trimmed(1.0 / (later * MILLISECOND), 3)} tokens/s or more")
        flags.append("--max-tpot-ms")
    if first is not None and first != stated.max_ttft_ms:
        what = "the first token" if writes else "all images of a batch"
        parts.append(f"{what} within {trimmed(first * MILLISECOND, 3)} s")
        flags.append("--max-ttft-ms")
    return f"with {' and '.join(parts)}", ", ".join(flags)
