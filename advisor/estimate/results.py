"""Results of an estimate: memory, FLOPs, time, serving figures and cost, with terms."""

from typing import Final

from advisor.architecture.table.model import Unit
from advisor.estimate.beside_results import ApiComparison, Curve, Day
from advisor.estimate.serving.results import ServingEstimate
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.nouns.hardware import JOIN
from advisor.nouns.layout import ParallelLayout

NOTHING: Final = Range.exact(0.0)


class Parameters(Noun):
    """Exact parameter counts (or assumed, when only a count was given)."""

    total: int
    without_head: int
    """The total without the matrix that makes logits, as in base classes (``...Model``)."""
    text_tower: int
    """The total without encoders of images and sound."""
    with_vision: int
    """The total with the vision tower, of which the estimate of a text tower holds the weights."""
    active: int
    """Parameters that one token uses: the total without the experts it does not visit."""
    active_without_embedding: int
    """The same without embedding tables, as some publishers count."""
    trainable: int
    """Parameters that the optimizer updates (adapters only for LoRA)."""
    evidence: Evidence


class MemoryBreakdown(Noun):
    """Memory of the fullest accelerator at the fullest moment of a step. [bytes]"""

    weights_bytes: Range
    """Working and master copies of the parameters held on this accelerator."""
    gradients_bytes: Range = NOTHING
    optimizer_bytes: Range = NOTHING
    activations_bytes: Range
    logits_bytes: Range = NOTHING
    kv_cache_bytes: Range = NOTHING
    workspace_bytes: Range
    """Gathered blocks, gradient buckets, library workspaces, optimizer temporaries."""
    context_bytes: Range
    """Driver context, loaded kernels, buffers of the collective library."""
    fragmentation_bytes: Range = NOTHING
    """Reserved by the allocator above what is allocated."""
    total_bytes: Range
    usable_bytes: float
    """Memory that the driver reports (training) or that a serving engine may fill: its memory
    fraction, graphs and context. [bytes]"""
    usual_bytes: float | None = None
    """Training: total below which nine of ten published runs stay. It decides what fits; the range
    is that of a run unlike them. [bytes]"""
    fits: bool
    peak_moment: str
    """``forward_end`` | ``backward_end`` | ``optimizer_step`` | ``serving``."""
    host_bytes: Range = NOTHING
    """Host memory for one accelerator: states or activations that moved there."""
    limiting_stage: str = ""
    """Which pipeline stage is the fullest: ``first`` | ``last`` | ``all``."""
    terms: tuple[Term, ...]

    @property
    def needed_bytes(self) -> float:
        """What decides whether it fits. [bytes]"""
        return self.total_bytes.high if self.usual_bytes is None else self.usual_bytes

    @property
    def tight(self) -> bool:
        """Whether it fits as published runs do, but a run unlike them may not."""
        return self.fits and self.total_bytes.high > self.usable_bytes


MEMORY_TITLES: Final = {
    "weights_bytes": "Weights",
    "gradients_bytes": "Gradients",
    "optimizer_bytes": "Optimizer states",
    "activations_bytes": "Activations",
    "logits_bytes": "Logits and loss",
    "kv_cache_bytes": "Key-value cache",
    "workspace_bytes": "Workspaces and buffers",
    "context_bytes": "Driver context",
    "fragmentation_bytes": "Allocator fragmentation",
}
"""Fields of ``MemoryBreakdown`` in words."""


class FlopCount(Noun):
    """Floating-point operations of one optimizer step over the whole job."""

    model_per_step: float
    """Forward and backward without recomputation. [FLOPs]"""
    hardware_per_step: float
    """Including recomputation. [FLOPs]"""
    per_token: float
    """Model FLOPs per trained token (training) or per generated token (serving). [FLOPs]"""
    terms: tuple[Term, ...]


class StepTime(Noun):
    """Time of one optimizer step and of the run."""

    step_s: Range
    tokens_per_step: float
    steps: float
    tokens_per_s: Range
    """Whole job, as in a tuned benchmark. [tokens/s]"""
    tokens_per_s_per_accelerator: Range
    unit: Unit = Unit.TOKEN
    """The unit that ``tokens`` means here: tokens, whole images or samples."""
    images_per_s: Range | None = None
    """Whole job, for networks that take images: the same as ``tokens_per_s``. [images/s]"""
    model_flops_utilization: Range
    """Model FLOPs achieved over the dense peak of the compute format. [fraction]"""
    goodput: Range
    """Share of wall-clock time that failures, restarts and checkpoints leave."""
    startup_s: Range
    """From renting to the first step."""
    run_hours: Range
    """What a whole run delivers: start-up, all steps and evaluation as published runs delivered
    them, failures and checkpoints. Deadline and cost use it."""
    benchmark_hours: Range
    """The steps alone, each as fast as in a tuned benchmark (``step_s``)."""
    delivered_tokens_per_s: Range
    """Whole job, over ``run_hours``. [tokens/s]"""
    interruptions: float = 0.0
    """Unplanned interruptions to expect during the run."""
    checkpoint_interval_s: float | None = None
    """Best time between two checkpoints. [s]"""
    run_terms: tuple[Term, ...] = ()
    """Exclusive shares that sum to ``run_hours.expected``. [s]"""
    bound_by: str
    """Largest share of the step: ``compute`` | ``bandwidth`` | ``network`` | ``bubble`` |
    ``launch`` | ``host``; ``input`` if the step waits for the input pipeline."""
    terms: tuple[Term, ...]
    """Exclusive shares that sum to ``step_s.expected``. [s]"""


class CostBreakdown(Noun):
    """Money for the run (training) or for a month (serving)."""

    usd_per_hour: Range | None = None
    """All whole instances together; None if no offer has this hardware. [USD/h]"""
    rent_usd: Range | None = None
    """Run (training) or month of 730 h (serving). [USD]"""
    usd_per_million_tokens: Range | None = None
    """Trained tokens, or generated tokens with the prompts that they answer. [USD]"""
    usd_per_million_input_tokens: Range | None = None
    """Serving text: tokens of prompts, which cost the time that the engine takes to read them.
    [USD]"""
    usd_per_million_output_tokens: Range | None = None
    """Serving text: tokens of answers alone. [USD]"""
    purchase_usd: Range | None = None
    """Accelerators alone. [USD]"""
    energy_kwh: Range | None = None
    """The run, or a month of 730 hours in use: accelerators and the rest of their machines at the
    power that they draw, cooling included. None if a board power is unknown. [kWh]"""
    carbon_kg: Range | None = None
    """Of that energy, at the mean of the grid; without making the machines. [kg]"""
    carbon_place: str = ""
    """The grid."""
    provider: str | None = None
    offer: str | None = None
    """Key of the offer priced here."""
    instance_type: str | None = None
    instances: int | None = None
    region: str | None = None
    commitment: str = ""
    """Term and plan that the price asks for; empty on demand and on spot."""
    rental_terms: str = ""
    """What the price asks for besides money, in sentences: a commitment, or machines that end."""
    price_date: str | None = None
    price_source: str | None = None
    price_age_days: int | None = None
    """The largest possible age if the day is unknown. [days]"""
    price_may_be: float = 1.0
    """Upper end of that price today over it, for its age: it ranks the plans."""
    terms: tuple[Term, ...] = ()


class WayOut(Noun):
    """A change that makes a case fit, computed by the engine for this case."""

    change: str
    """The change, as an instruction."""
    sacrifice: str
    """``time`` | ``software`` | ``load`` | ``numerics`` | ``method`` | ``lengths`` | ``host`` |
    ``cards``."""
    needed_bytes: float
    """High end of the total after the change. [bytes]"""
    usable_bytes: float
    """[bytes]"""
    saved_bytes: float
    """High end of the total before the change minus the one after it; 0 if the case fits on a
    larger card but needs more there. [bytes]"""
    likely_bytes: float | None = None
    """Expected total, where it fits and only the high end of its range does not. [bytes]"""
    host_bytes: float = 0.0
    """Most host memory for one accelerator after the change. [bytes]"""
    time_ratio: float
    """Time of the run (training) or per output token (serving) over the time of the unchanged case
    on a card with enough memory. Under 1 is faster."""


class Neighbour(Noun):
    """A layout one step away from the estimated one, on the same accelerators."""

    change: str
    """The change, from and to."""
    layout: ParallelLayout
    time_s: float
    """Of a step (training) or per output token (serving). [s]"""
    time_ratio: float
    """Over that of the estimated layout. Under 1 is faster."""
    memory_bytes: float
    """High end of the total on the fullest accelerator. [bytes]"""
    fits: bool
    note: str = ""
    """Slower links that the tensor-parallel group needs, if any."""


class SoftwareUse(Noun):
    """The tool that does the work: a row of ``data/tools.yaml``."""

    name: str
    title: str
    release: str
    """On the card; empty if none is known."""
    named: str
    """Title, release, and the package that brings the tool to the card."""
    backend: str
    """Backend under which it runs on the card; empty if it does not run there."""
    note: str = ""
    instead_of: str = ""
    """Title of the first tool for the card, if it does not do the fine-tune."""
    first_on_one: bool = False
    """Whether that tool's limit is one card, not memory."""

    @property
    def sentence(self) -> str:
        """What does the work, and why not the first tool."""
        if self.first_on_one:
            return f"Software: {self.named}; {self.instead_of} trains on one card."
        why = f"; under {self.instead_of} this needs too much memory on the card"
        return f"Software: {self.named}{why if self.instead_of else ''}."


class Estimate(Noun):
    """The full estimate of one configuration."""

    model: str
    workload: str
    """One line that restates the work."""
    accelerator: str
    accelerator_name: str
    count: int
    layout: ParallelLayout
    stated: tuple[str, ...] = ()
    """Fields of the layout that the case states; the search chose the others."""
    precision: str
    """Recipe (training) or weight format (serving)."""
    kv_cache_format: str | None = None
    """Format of keys and values; None for work that keeps none."""
    software: SoftwareUse | None = None
    """None if no known software does the work on the card."""
    parameters: Parameters
    memory: MemoryBreakdown
    flops: FlopCount
    time: StepTime | None = None
    day: Day | None = None
    """With a day of requests: its bills."""
    serving: ServingEstimate | None = None
    cost: CostBreakdown
    assumptions: tuple[str, ...]
    references: tuple[str, ...]
    """Keys of the references that the terms cite, then printed in full by ``to_json``'s reader."""
    api: ApiComparison | None = None
    """Serving text: hosted models beside these machines, where a price is known."""
    missed_limits: tuple[str, ...] = ()
    """A sentence for each limit of the case that it does not meet."""
    ways_out: tuple[WayOut, ...] = ()
    """If the memory does not fit: changes that make it fit, smallest sacrifice first."""
    curves: tuple[Curve, ...] = ()
    """Curves over batch and length, if asked for."""
    improvements: tuple[str, ...] = ()
    """Software or options that make the work faster or smaller on the same cards, with effect."""
    neighbours: tuple[Neighbour, ...] = ()
    """Layouts one step away, fastest first; only the first plan of each ranking has them."""

    @property
    def numerics(self) -> dict[str, str | None]:
        """Fields of a workload that ask for the same number formats."""
        if self.serving is None:
            return {"precision": self.precision}
        return {"weight_format": self.precision, "kv_cache_format": self.kv_cache_format}

    @property
    def memory_place(self) -> str:
        """Where the memory of the breakdown is: unlike cards hold one model together."""
        return "on all cards together" if JOIN in self.accelerator else "on each accelerator"

    @property
    def sound_hour_usd(self) -> Range | None:
        """Rent for an hour of transcribed sound; None for other work. [USD]"""
        sound = self.serving.sound_s_per_s if self.serving else None
        price = self.cost.usd_per_hour
        return sound.reciprocal(price.expected) if sound and price else None

    @property
    def crowded(self) -> str:
        """How many requests its software runs at once, if the memory would hold more."""
        room = self.memory.needed_bytes <= self.memory.usable_bytes
        if self.memory.fits or self.serving is None or not room or self.memory.host_bytes.expected:
            return ""
        most = self.serving.max_concurrency
        title = self.software.title if self.software else "its software"
        return f"{title} runs {most:,} request{'' if most == 1 else 's'} at once on these cards"

    @property
    def memory_of(self) -> str:
        """The same in two words, after an amount; empty of one card."""
        if JOIN in self.accelerator:
            return " in all"
        return " on each" if self.count > 1 else ""

    @property
    def cards(self) -> int:
        """Accelerators in use, and those of spare replicas."""
        spares = 0 if self.serving is None else self.serving.spare_replicas
        return self.count + spares * self.layout.replica_cards
