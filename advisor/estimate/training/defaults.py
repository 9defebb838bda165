"""What a training run takes where the case leaves it open: ``data/training_defaults.yaml``.

Each choice is stated with the option that changes it.
"""

from math import log2
from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.table.operators import OperatorKind
from advisor.foundation.noun import Noun, shipped
from advisor.foundation.units import DAY_S, MILLION, trimmed
from advisor.nouns.software.tools import Tool
from advisor.nouns.training_choices import (
    CrossEntropy,
    DataLoading,
    FineTuningMethod,
    Optimizer,
    Preference,
)

DEFAULTS: Final = "training_defaults.yaml"
Positive = Annotated[float, Field(gt=0, le=1e15)]
Count = Annotated[int, Field(ge=1, le=10**9)]


class _Usual(Noun):
    """What a kind of network usually takes."""

    batch: Count | None = None
    """Items of one step; None follows from compute."""
    batch_tokens_factor: Positive | None = None
    batch_tokens_exponent: Positive | None = None
    most_tokens: Positive | None = None
    """Of one step. [tokens]"""
    large_parameters: Positive | None = None
    most_tokens_large: Positive | None = None
    """The same for models with at least that many parameters. [tokens]"""
    sequence: Count | None = None
    """Tokens of one sequence; None takes those of most text. [tokens]"""
    least_steps: Count
    optimizer: Optimizer
    samples: Count | None = None
    """Images or samples of the whole run; None takes those of all networks."""
    samples_as: str = ""
    told: str = Field(alias="as")
    """Whose habit it is, in a few words."""
    source: str


class _Amount(Noun):
    """How much is trained on: tokens, or images and samples."""

    tokens: Positive
    tokens_of: Literal["run", "parameter"]
    """Of the whole run, or for each active parameter."""
    samples: Count
    source: str


class DataSet(Noun):
    """The images that are assumed."""

    images: Count
    bytes: Positive
    """Of all of them, compressed."""
    mean_pixels: Positive

    @property
    def image_bytes(self) -> float:
        """Mean size of a compressed image. [bytes]"""
        return self.bytes / self.images


class CoreRates(Noun):
    """What one core of the host does. [images/s]"""

    decoded: Positive
    cropped: Positive


class Images(Noun):
    """What the host loads for networks that take images."""

    data_set: DataSet
    core_per_s: dict[DataLoading, CoreRates]
    source: str


class _LongestRun(Noun):
    """The time that a run may take where nobody states a deadline."""

    days: Positive
    source: str


class _Loss(Noun):
    cross_entropy: CrossEntropy
    preferences: tuple[Preference | None, ...] = (None, Preference.DPO)
    """Answers (None) or pairs that it holds for; others have the stack's."""
    told: str = Field(alias="as")
    source: str


class _Table(Noun):
    kinds: dict[str, str]
    pretraining: dict[str, _Usual]
    fine_tuning: dict[str, _Usual]
    pretraining_amount: _Amount
    fine_tuning_amount: _Amount
    longest_run: _LongestRun
    images: Images
    losses: dict[str, _Loss]


_table = shipped(DEFAULTS, _Table)


def usual_images() -> Images:
    """Return what the host loads for each image."""
    return _table().images


def longest_run_s() -> float:
    """Return the time that a run may take where nobody states a deadline. [s]"""
    return _table().longest_run.days * DAY_S


def network_kind(architecture: ModelArchitecture) -> str:
    """Return the kind of network, as the rows of the table name it."""
    if architecture.family in (named := _table().kinds):
        return named[architecture.family]
    kinds = {operator.kind for operator in architecture.operators}
    if architecture.denoises:
        return "diffusion"
    if architecture.unit is Unit.TOKEN:
        if OperatorKind.RECURRENCE in kinds:
            return "recurrent"
        return "text" if architecture.generates else "encoder"
    if architecture.unit is Unit.IMAGE:
        return "vision_transformer" if OperatorKind.ATTENTION in kinds else "convolutional"
    return "encoder_decoder" if OperatorKind.ATTENTION in kinds else "other"


def usual(architecture: ModelArchitecture, method: FineTuningMethod | None) -> _Usual:
    """Return what this kind of network usually takes in this kind of training."""
    table = _table()
    return (table.pretraining if method is None else table.fine_tuning)[network_kind(architecture)]


def usual_loss(tool: str, preference: Preference | None) -> tuple[CrossEntropy | None, str]:
    """Return the loss of a tool's current release, and a remark; None if it is the stack's own."""
    row = _table().losses.get(tool)
    if row is None or preference not in row.preferences:
        return None, ""
    return row.cross_entropy, row.told


def default_loss(
    stated: str | None, tool: Tool | None, preference: Preference | None, notes: list[str]
) -> CrossEntropy | None:
    """Return the loss that the tool computes; None for that of its stack.

    ``stated``: the software of the workload. A stated stack keeps the loss that it was fitted with.
    """
    runs = "trl" if tool is None else tool.name
    if stated not in (None, runs):
        return None
    cross_entropy, told = usual_loss(runs, preference)
    notes.extend([f"{told} (--cross-entropy)"] if told else [])
    return cross_entropy


def default_optimizer(
    architecture: ModelArchitecture, method: FineTuningMethod | None, notes: list[str]
) -> Optimizer:
    """Return the usual optimizer, noted unless it is AdamW."""
    row = usual(architecture, method)
    if row.optimizer is not Optimizer.ADAMW:
        notes.append(f"{row.optimizer.label}, {row.told} (--optimizer)")
    return row.optimizer


def default_amount(
    architecture: ModelArchitecture, method: FineTuningMethod | None, notes: list[str]
) -> float:
    """Return the tokens, images or samples of the whole run."""
    table, unit = _table(), architecture.unit
    row = table.pretraining_amount if method is None else table.fine_tuning_amount
    if unit is not Unit.TOKEN:
        kind = usual(architecture, method)
        amount = float(kind.samples or row.samples)
        said = f"{amount / 1e6:.3g} million" if amount >= MILLION else f"{amount:,.0f}"
        notes.append(f"{said} {unit.value}s{kind.samples_as and f' ({kind.samples_as})'}")
    elif row.tokens_of == "run":
        amount = row.tokens
        notes.append(f"{amount / 1e6:.0f} million tokens")
    else:
        amount = row.tokens * architecture.active_parameters
        law = f"{row.tokens:g} per parameter, compute-optimal"
        notes.append(f"{amount / 1e9:,.0f} billion tokens ({law})")
    return amount


def default_batch(
    architecture: ModelArchitecture,
    method: FineTuningMethod | None,
    *,
    sequence: int,
    tokens: float,
    paired: bool,
    notes: list[str],
) -> int:
    """Return the sequences, pairs or samples of one step: a power of two.

    ``sequence``: tokens of one item; 1 for images and samples. ``tokens``: of the whole run; images
    or samples for networks that take those.
    """
    row = usual(architecture, method)
    if row.batch is None:
        batch, law = _compute_optimal(row, architecture, tokens) / sequence, row.told
    else:
        batch, law = float(row.batch), row.told
    # The run keeps enough steps to converge.
    most = max(1.0, tokens // sequence / row.least_steps)
    size = 1 << round(log2(max(1.0, batch)))
    fewer = size > most
    if fewer:
        size = 1 << int(log2(most))
    noun = "sequences" if architecture.unit is Unit.TOKEN else f"{architecture.unit.value}s"
    noun = "pairs" if paired else noun
    note = (
        f" ({trimmed(size * sequence / 1e6, 2)} M tokens)"
        if sequence > 1 and method is None
        else ""
    )
    if fewer:
        law = (
            f"so that the run has at least {row.least_steps:,} steps" if size > 1 else "a short run"
        )
    notes.append(f"{size:,} {noun} per optimizer step{note}, {law} (--global-batch)")
    return size


def _compute_optimal(row: _Usual, architecture: ModelArchitecture, tokens: float) -> float:
    """Tokens of one step, from the FLOPs of the run. [tokens]"""
    large = architecture.total_parameters >= (row.large_parameters or float("inf"))
    flops = 6.0 * architecture.active_parameters * tokens
    most = row.most_tokens_large if large else row.most_tokens
    factor, exponent = row.batch_tokens_factor or 1.0, row.batch_tokens_exponent or 1.0
    return min(factor * float(flops**exponent), most or float("inf"))
