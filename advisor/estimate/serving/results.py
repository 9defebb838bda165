"""What a served model does: latencies and rates, with their ranges."""

from typing import Self

from advisor.architecture.table.model import Unit
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range, Term


class LatencyAt(Noun):
    """Latencies that a share of requests stays under."""

    ttft_ms: Range
    tpot_ms: Range
    """Of the mean over one answer. [ms]"""


class Percentiles(Noun):
    """Latencies that half of the requests stay under, and those of the slower ones."""

    p50: LatencyAt
    p95: LatencyAt
    p99: LatencyAt


class UnderArrivals(Noun):
    """What a stated rate of requests makes of a deployment."""

    asked_requests_per_s: float
    most_requests_per_s: Range
    """Completed if requests never stop waiting. [requests/s]"""
    load: float
    """Asked over the most; from 1 on, requests wait longer and longer."""
    in_flight: float
    """Mean number of requests in all replicas, by Little's law."""
    waiting_share: float
    """Share of requests that wait until another leaves."""
    percentiles: Percentiles | None
    """None where the deployment does not keep up."""


class ServingEstimate(Noun):
    """Continuous batching at the steady concurrency of the workload.

    A network that writes no tokens processes a batch at once. Its image, or its encoded sequence,
    counts as the only token of the answer, and both latencies are those of the batch.
    """

    ttft_ms: Range
    tpot_ms: Range
    """Time per output token after the first, including prefill interference. [ms]"""
    streams: bool = True
    """False if an answer has too few tokens for a meaningful time between them."""
    output_tokens_per_s: Range
    """Whole deployment. [tokens/s]"""
    requests_per_s: Range
    max_concurrency: int
    """Requests of this length that fit in the cache of the whole deployment at once."""
    max_context_tokens: int
    """Longest context of one sequence at the workload's concurrency, limited by memory."""
    unit: Unit = Unit.TOKEN
    """Unit of the output: a token, an image, or a sample (a whole sequence)."""
    images_per_s: Range | None = None
    """Whole deployment, for networks that take images. [images/s]"""
    cameras: Range | None = None
    """Whole deployment: cameras of the stated frames per second."""
    sound_s_per_s: Range | None = None
    """Whole deployment, for networks that recognise speech: times real time. [s/s]"""
    replicas: int
    spare_replicas: int = 0
    """Beyond ``replicas``; the cost includes them, the other figures do not."""
    arrivals: UnderArrivals | None = None
    """With a stated rate of requests; the times above are then means over requests."""
    bound_by: str
    terms: tuple[Term, ...]
    """Exclusive shares of the time per output token. [s]"""

    def at(self, share: str) -> LatencyAt | Self:
        """Return what holds a percentile's latencies; the means where there are none."""
        known = self.arrivals and getattr(self.arrivals.percentiles, share, None)
        return known or self

    @property
    def timed(self) -> str:
        """What ``tpot_ms`` times, in words."""
        if self.unit is Unit.TOKEN:
            return "per token"
        return "for a batch" if self.arrivals is None else "for an answer"
