"""What an estimate returns: memory, FLOPs, time, serving figures and cost, with their terms."""

from __future__ import annotations

from advisor.architecture.table.sample import Unit
from advisor.estimate.curve_results import Curve
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.nouns.layout import ParallelLayout


class Parameters(Noun):
    """Exact parameter counts (or assumed, when only a count was given)."""

    total: int
    without_head: int
    """The total less the matrix that makes logits: as base classes (``...Model``) have it."""
    text_tower: int
    """The total less encoders of images and sound."""
    active: int
    """What one token uses: the total less the experts that it does not visit."""
    active_without_embedding: int
    """The same less the tables of which a token only looks a row up, as some publishers count."""
    trainable: int
    """Parameters that the optimizer updates (adapters only for LoRA)."""
    evidence: Evidence


class MemoryBreakdown(Noun):
    """Memory of the fullest accelerator at the fullest moment of a step. [bytes]"""

    weights_bytes: Range
    """Working and master copies of the parameters held on this accelerator."""
    gradients_bytes: Range
    optimizer_bytes: Range
    activations_bytes: Range
    logits_bytes: Range
    kv_cache_bytes: Range
    workspace_bytes: Range
    """Gathered blocks, gradient buckets, library workspaces, optimizer temporaries."""
    context_bytes: Range
    """Driver context, loaded kernels, buffers of the collective library."""
    fragmentation_bytes: Range
    """Reserved by the allocator above what is allocated."""
    total_bytes: Range
    usable_bytes: float
    """What the driver reports for this accelerator (training), or what a serving engine may fill
    of it: its memory fraction, graphs and context. [bytes]"""
    fits: bool
    """True only if the high end of the range fits."""
    peak_moment: str
    """``forward_end`` | ``backward_end`` | ``optimizer_step`` | ``serving``."""
    host_bytes: Range = Range.exact(0.0)
    """What one accelerator needs of its host's memory: states or activations moved there."""
    limiting_stage: str = ""
    """Which pipeline stage is the fullest: ``first`` | ``last`` | ``all``."""
    terms: tuple[Term, ...]


class FlopCount(Noun):
    """Floating-point operations of one optimizer step over the whole job."""

    model_per_step: float
    """Forward and backward without recomputation. [FLOPs]"""
    hardware_per_step: float
    """Recomputation included. [FLOPs]"""
    per_token: float
    """Model FLOPs per trained token (training) or per generated token (serving). [FLOPs]"""
    terms: tuple[Term, ...]


class StepTime(Noun):
    """Time of one optimizer step and of the run."""

    step_s: Range
    tokens_per_step: float
    steps: float
    tokens_per_s: Range
    """Whole job. [tokens/s]"""
    tokens_per_s_per_accelerator: Range
    unit: Unit = Unit.TOKEN
    """What is counted as a token here: tokens, or whole images or samples."""
    images_per_s: Range | None = None
    """Whole job, where the network takes images: the same as ``tokens_per_s``. [images/s]"""
    model_flops_utilization: Range
    """Model FLOPs achieved over the dense peak of the compute format. [fraction]"""
    goodput: Range
    """Share of wall-clock time that trains: the rest is failures, restarts, checkpoints."""
    startup_s: Range
    """From renting to the first step."""
    run_hours: Range
    """Start-up, all steps, evaluation, and what failures and checkpoints add."""
    interruptions: float = 0.0
    """Unplanned interruptions to expect during the run."""
    checkpoint_interval_s: float | None = None
    """Best time between two checkpoints. [s]"""
    run_terms: tuple[Term, ...] = ()
    """Exclusive shares that sum to ``run_hours.expected``. [s]"""
    bound_by: str
    """Largest share of the step: ``compute`` | ``bandwidth`` | ``network`` | ``bubble`` |
    ``launch`` | ``host``; ``input`` wherever the step waits for the input pipeline."""
    terms: tuple[Term, ...]
    """Exclusive shares that sum to ``step_s.expected``. [s]"""


class ServingEstimate(Noun):
    """Continuous batching at the steady concurrency of the workload.

    A network that writes no tokens answers a batch as one: an image, or what an encoder makes of
    a sequence, is then the only token of its answer, and both latencies are those of the batch.
    """

    ttft_ms: Range
    tpot_ms: Range
    """Time per output token after the first, prefill interference included. [ms]"""
    streams: bool = True
    """False where an answer has so few tokens that a time between them means little."""
    output_tokens_per_s: Range
    """Whole deployment. [tokens/s]"""
    requests_per_s: Range
    max_concurrency: int
    """Requests of this length whose cache fits the whole deployment at once."""
    max_context_tokens: int
    """Longest context of one sequence at the workload's concurrency, limited by memory."""
    unit: Unit = Unit.TOKEN
    """What one output is: a token, an image, or a sample (a whole sequence)."""
    images_per_s: Range | None = None
    """Whole deployment, where the network takes images. [images/s]"""
    replicas: int
    bound_by: str
    terms: tuple[Term, ...]
    """Exclusive shares of the time per output token. [s]"""


class CostBreakdown(Noun):
    """Money for the run (training) or for a month (serving)."""

    usd_per_hour: Range | None = None
    """Whole instances, all of them; None where nothing offers this hardware. [USD/h]"""
    rent_usd: Range | None = None
    """Run (training) or month of 730 h (serving). [USD]"""
    usd_per_million_tokens: Range | None = None
    """Trained tokens, or generated tokens at full load. [USD]"""
    purchase_usd: Range | None = None
    """Accelerators alone. [USD]"""
    energy_kwh: Range | None = None
    """Run or month, accelerators at board power, no cooling. [kWh]"""
    provider: str | None = None
    offer: str | None = None
    """Key of the offer priced here."""
    instance_type: str | None = None
    instances: int | None = None
    region: str | None = None
    price_date: str | None = None
    price_source: str | None = None
    terms: tuple[Term, ...] = ()


class WayOut(Noun):
    """A change that makes a case fit, computed by the engine for this case."""

    change: str
    """What to change, as an instruction."""
    sacrifice: str
    """What is given up: ``time`` | ``cards`` | ``load`` | ``numerics`` | ``method``."""
    needed_bytes: float
    """High end of the total afterwards. [bytes]"""
    usable_bytes: float
    """[bytes]"""
    saved_bytes: float
    """High end of the total before, less that afterwards; 0 where a larger card fits the case
    although it takes more there. [bytes]"""
    host_bytes: float = 0.0
    """What one accelerator then needs of its host's memory, at most. [bytes]"""
    time_ratio: float
    """Time of the run (training) or per output token (serving) over that of a card with enough
    memory for the case as asked. Under 1 is faster."""


class Neighbour(Noun):
    """A layout one step away from the estimated one, on the same accelerators."""

    change: str
    """What changes, from and to."""
    layout: ParallelLayout
    time_s: float
    """Of a step (training) or per output token (serving). [s]"""
    time_ratio: float
    """Over that of the estimated layout. Under 1 is faster."""
    memory_bytes: float
    """High end of the total on the fullest accelerator. [bytes]"""
    fits: bool
    note: str = ""
    """Which slower links the tensor-parallel group needs, if any."""


class Estimate(Noun):
    """Everything about one configuration."""

    model: str
    workload: str
    """One line that restates the work."""
    accelerator: str
    accelerator_name: str
    count: int
    layout: ParallelLayout
    precision: str
    """Recipe (training) or weight format (serving)."""
    parameters: Parameters
    memory: MemoryBreakdown
    flops: FlopCount
    time: StepTime | None = None
    serving: ServingEstimate | None = None
    cost: CostBreakdown
    assumptions: tuple[str, ...]
    references: tuple[str, ...]
    """Keys of the references that the terms cite, then printed in full by ``to_json``'s reader."""
    missed_limits: tuple[str, ...] = ()
    """A sentence for each limit of the case that it does not meet."""
    ways_out: tuple[WayOut, ...] = ()
    """Where the memory does not fit: what would make it fit, smallest sacrifice first."""
    curves: tuple[Curve, ...] = ()
    """Against batch and length, where they were asked for."""
    neighbours: tuple[Neighbour, ...] = ()
    """Layouts one step away, fastest first; of plans only the first of each ranking has them."""
