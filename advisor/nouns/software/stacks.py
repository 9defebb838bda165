"""Training software: a row of ``data/software.yaml`` for each stack, and its fitted constants."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from advisor.foundation.noun import Noun, check_numbers, checked, read_record, refuse
from advisor.foundation.resources import data_path
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.engines import Fraction, NonNegative, Positive, Seconds

SOFTWARE: Final = "software.yaml"
Degree = Literal["tensor", "pipeline", "context", "expert"]
ENOUGH_GROUPS: Final = 3
"""Fewest independent runs behind a useful constant: with only two, it is largely a guess whether
the next run falls between them."""
DEGREES: Final[tuple[Degree, ...]] = ("tensor", "pipeline", "context", "expert")
"""Degrees of a layout that a stack may offer besides data parallelism with or without sharding."""


class Work(StrEnum):
    """Kinds of work that each have a usual stack."""

    PRETRAINING = "pretraining"
    FINE_TUNING = "fine_tuning"
    SAMPLES = "samples"
    """Training of networks that take images or other samples, not tokens."""
    BATCHES = "batches"
    """Answers of networks that do not generate."""


class SelectiveRecompute(StrEnum):
    """The work that selective recomputation repeats."""

    CHEAP_WORK = "cheap_work"
    """Norms, activations and score matrices, but no products."""
    EVERY_SECOND_PRODUCT = "every_second_product"
    """Everything except the outputs of every second product and of the attention kernel: PyTorch's
    operator-wise policy."""


class GradientCast(StrEnum):
    """How gradients narrower than the master weights are widened for the update."""

    NONE = "none"
    """They are already summed in the wider format."""
    TENSOR = "tensor"
    """One tensor after another."""
    PARTITION = "partition"
    """All that a rank updates, in one contiguous buffer."""


class SoftwareStack(Noun):
    """The behaviour of one training stack: a row of ``data/software.yaml``, which explains them."""

    name: str
    title: str
    sentence: str
    sentence_with_adapters: str | None = None
    default_for: tuple[Work, ...]
    divides: tuple[Degree, ...]
    eager: bool
    fused_elementwise: bool
    fuses_images: bool = True
    pads_products: bool
    fused_softmax: bool
    launch_s: Seconds
    unit_host_s: Seconds
    wraps_adapters: bool = False
    processor_slowdown: Annotated[Positive, Field(ge=1)] = 1.0
    portable_attention: bool
    overlaps_traffic: bool
    gathers_beside: bool
    bucket_elements: Annotated[float, Field(gt=0, le=1e15)]
    loss_bytes_per_logit: NonNegative
    plain_loss: bool
    keeps_autocast_copies: bool
    keeps_narrow_inputs: bool
    divides_gathered_inputs: bool
    selective_recompute: SelectiveRecompute
    gradient_format: str | None
    keeps_gradients: bool
    copies_gradients_to_buckets: bool
    gradient_cast: GradientCast
    zero3_cast_elements: Annotated[float, Field(gt=0, le=1e15)] | None = None
    reduces_in_place: bool
    divides_lookup_gradient: bool
    every_expert: tuple[str, ...] = ()
    shards_ends_apart: bool
    launcher: Literal["megatron", "trl"]
    runs_deepspeed: bool
    trainer_options: dict[str, str]
    paced_as: str = ""
    sources: dict[str, str]


class SoftwareFacts(SoftwareStack):
    """A stack with its constants fitted to published runs."""

    slowdown: Annotated[Positive, Field(ge=1)]
    """Step time divided by the sum of its kernels and exposed traffic: host gaps, stragglers,
    clocks under load."""
    sample_slowdown: Annotated[Positive, Field(ge=1)] = 1.0
    """The same for networks that take images, of all eager stacks together."""
    adapter_slowdown: Annotated[Positive, Field(ge=1)] = 1.0
    """The same for adapters on a frozen base, which has no gradients and no update."""
    spread: Annotated[Positive, Field(ge=1)] = 1.0
    """Logarithm of the ends of its range over that of all stacks on the same work."""
    adapter_spread: Annotated[Positive, Field(ge=1)] = 1.0
    """The same for adapters."""
    slowdown_groups: Annotated[int, Field(ge=0)] = 0
    """Number of groups of published runs whose median is the slowdown."""
    tensor_overlap: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of tensor-parallel traffic that products hide under sequence parallelism."""
    expert_overlap: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the exchanges between experts that computation hides, if the schedule overlaps
    them."""
    grouped_compute: Fraction = 1.0
    """Rate of routed experts' products relative to one dense product of the same size, because of
    permutation, imbalance and quantisation of small groups."""
    expert_launches: NonNegative = 1.0
    """Kernels launched per local expert, matrix and pass in 8 bits and less, where each expert's
    operands are converted separately. In 16 bits one grouped kernel serves all experts."""

    @property
    def caution(self) -> tuple[str, ...]:
        """Return a warning if too few independent runs determine the slowdown."""
        if self.slowdown_groups >= ENOUGH_GROUPS:
            return ()
        loss = f"how much time {self.title} loses between kernels"
        if not self.slowdown_groups:
            return (f"No published run shows {loss}: it takes the median of all stacks.",)
        return (f"Too few published runs show {loss}: {self.slowdown_groups}. Take it as a guess.",)

    def slowdown_of(self, *, samples: bool, adapters: bool) -> float:
        """Return the slowdown for networks that take images, for adapters, or for all others."""
        if samples:
            return self.sample_slowdown
        return self.adapter_slowdown if adapters else self.slowdown


class _Table(Noun):
    stacks: dict[str, dict[str, Any]]


class _Stacks(Noun):
    stacks: dict[str, SoftwareStack]


_FITTED: Final = frozenset(SoftwareFacts.model_fields) - frozenset(SoftwareStack.model_fields)


@cache
def stack_rows() -> dict[str, dict[str, Any]]:
    """Return the rows of ``data/software.yaml`` unchecked, by name."""
    rows = read_record(data_path(SOFTWARE), _Table, under="stacks").stacks
    check_numbers(rows, file=SOFTWARE)
    return {name: {"name": name, **row} for name, row in rows.items()}


@cache
def known_stacks() -> Mapping[str, SoftwareStack]:
    """Return all stacks by name, in the order of their file.

    Raises CatalogError if a column is missing, unknown or out of bounds, or a kind of work does not
    have exactly one default stack.
    """
    rows = {
        name: {column: value for column, value in row.items() if column not in _FITTED}
        for name, row in stack_rows().items()
    }
    stacks = checked(_Stacks.model_validate, {"stacks": rows}, file=SOFTWARE).stacks
    for name, stack in stacks.items():
        for column in sorted(stack.sources.keys() - SoftwareFacts.model_fields.keys()):
            remedy = "Give the source of a column by its name."
            refuse(SOFTWARE, column, remedy, entry=name, field="sources")
    for work in Work:
        usual = [name for name, stack in stacks.items() if work in stack.default_for]
        if len(usual) != 1:
            remedy = f"Name {work.value} in exactly one row."
            refuse(SOFTWARE, work.value, remedy, entry=", ".join(usual), field="default_for")
    return stacks


def fitted_stacks() -> tuple[str, ...]:
    """Return the stacks whose slowdown is fitted to published runs, not stated in their row."""
    return tuple(name for name, row in stack_rows().items() if "slowdown" not in row)


def stack_named(name: str) -> SoftwareStack:
    """Return one stack.

    Raises ValueError if no stack has this name. The message lists the existing ones.

    >>> stack_named("megatron").title
    'Megatron-class'
    """
    found = known_stacks().get(name)
    if found is None:
        raise ValueError(f"unknown software {name!r}; choose one of {', '.join(known_stacks())}")
    return found


def usual_stack(work: Work) -> SoftwareStack:
    """Return the default stack for a kind of work.

    >>> usual_stack(Work.PRETRAINING).name
    'megatron'
    """
    return next(stack for stack in known_stacks().values() if work in stack.default_for)


def undivided(stack: SoftwareStack, layout: ParallelLayout) -> tuple[str, ...]:
    """Return the degrees of ``layout`` above 1 that ``stack`` does not offer.

    >>> undivided(stack_named("huggingface"), ParallelLayout(tensor=2, context=2))
    ('tensor',)
    """
    return tuple(
        name for name in DEGREES if name not in stack.divides and getattr(layout, name) > 1
    )


def beyond_stack(stack: SoftwareStack, layout: ParallelLayout) -> tuple[str, ...]:
    """Sentences on what ``layout`` asks of ``stack`` that it does not offer."""
    missing = undivided(stack, layout)
    if not missing:
        return ()
    able = " or ".join(one.name for one in known_stacks().values() if not undivided(one, layout))
    degrees = ", ".join(f"{name}={getattr(layout, name)}" for name in missing)
    return (f"{stack.name} offers no {degrees} as it is used by default; software {able} does",)
