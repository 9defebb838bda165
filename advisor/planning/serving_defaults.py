"""What a served model is held to where a case leaves it open: ``data/serving_defaults.yaml``."""

from typing import Annotated, Final

from pydantic import Field

from advisor.architecture.table.model import ModelArchitecture
from advisor.foundation.noun import Noun, shipped
from advisor.foundation.units import GB, MILLISECOND, trimmed
from advisor.nouns.case import Case
from advisor.nouns.limits import Constraints
from advisor.nouns.workload import Serving

LATENCIES: Final = ("max_ttft_ms", "max_tpot_ms")
Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


class Patience(Noun):
    """How long who asks waits at most. [ms]"""

    token_ms: Positive
    """Between two tokens."""
    first_token_ms: Positive
    prompt_token_ms: Positive
    """More until the first token, for each token of the prompt."""
    image_ms: Positive
    source: str


class Start(Noun):
    """How long a machine takes to serve."""

    provision_s: Positive
    image_s: Positive
    weights_gb_per_s: Positive
    source: str

    def loaded_s(self, weights_bytes: float) -> float:
        """Return the time from a running machine to the first request. [s]"""
        return self.image_s + weights_bytes / (self.weights_gb_per_s * GB)


class ServingDefaults(Noun):
    """The file."""

    patience: Patience
    start: Start


serving_defaults = shipped("serving_defaults.yaml", ServingDefaults)
"""Returns the defaults."""


def at_reading_speed(case: Case, architecture: ModelArchitecture) -> Case:
    """Return a case with the latency limits of a reader where it states none.

    The same object if nothing changes.

    ``case``: only serving that writes answers token by token, or makes images, changes.
    """
    workload, limits = case.workload, case.limits
    if not isinstance(workload, Serving):
        return case
    from advisor.estimate.serving.report import STREAM_TOKENS

    patience = serving_defaults().patience
    update: dict[str, float] = {}
    if architecture.denoises:
        if limits.max_ttft_ms is None:
            # Who asks at a rate waits for one image, however many share its batch.
            images = workload.concurrency if workload.requests_per_s is None else 1
            update["max_ttft_ms"] = patience.image_ms * images
    elif architecture.generates and workload.output_tokens >= STREAM_TOKENS:
        if limits.max_tpot_ms is None:
            update["max_tpot_ms"] = patience.token_ms
        if limits.max_ttft_ms is None:
            read = patience.prompt_token_ms * workload.input_tokens
            update["max_ttft_ms"] = patience.first_token_ms + read
    if not update:
        return case
    return case.changed(limits=limits.changed(**update))


def pace_words(limits: Constraints, stated: Constraints, *, writes: bool) -> str:
    """Return the assumption that limits hold which nobody stated; empty if there are none."""
    pace, flags = latency_words(limits, stated, writes=writes)
    return f"{pace}, since no limit is stated ({flags})" if flags else ""


def latency_words(limits: Constraints, stated: Constraints, *, writes: bool) -> tuple[str, str]:
    """Return the limits that nobody stated in words, and their options."""
    first, later = limits.max_ttft_ms, limits.max_tpot_ms
    parts, flags = [], []
    if later is not None and stated.max_tpot_ms is None:
        parts.append(f"{trimmed(1.0 / (later * MILLISECOND), 3)} tokens/s or more")
        flags.append("--max-tpot-ms")
    if first is not None and stated.max_ttft_ms is None:
        what = "the first token" if writes else "all images of a batch"
        parts.append(f"{what} within {trimmed(first * MILLISECOND, 3)} s")
        flags.append("--max-ttft-ms")
    return f"with {' and '.join(parts)}", ", ".join(flags)
