"""Reads the measured kernel tables into arrays in SI units."""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from advisor.calibration.fitting.robust import Parameter
from advisor.catalog.records import Teraflops
from advisor.foundation.noun import LARGEST, Noun, read_cells, read_table, refuse, shipped
from advisor.foundation.record import record
from advisor.foundation.resources import data_path
from advisor.foundation.units import MICROSECOND, TFLOP

Floats = NDArray[np.float64]
Texts = NDArray[np.str_]

FOLDER = "measurements/kernels"
ACHIEVABLE = "matmul_achievable.csv"
"""Best published matrix products of each card and format; beside ``measurements``."""


class Measured(Noun):
    """Measured kernels behind one curve."""

    peak: str
    """Format of the peak that the curve is relative to."""
    kernels: tuple[str, ...]
    stored: str = ""
    """Format of routed experts' weights."""


class KernelFits(Noun):
    """Contents of the file, which says what each entry is."""

    generations: dict[str, tuple[str, ...]]
    pooled: tuple[str, ...]
    formats: dict[str, Measured]
    experts: dict[str, Measured]
    block_scaled: tuple[str, ...]
    weight_bytes: dict[str, float]
    pcie_bytes_per_s: dict[str, float]
    ring_libraries: tuple[str, ...]
    small_bytes: float
    large_bytes: float
    cache_prone: tuple[str, ...]
    unsure_decodes: tuple[str, ...]
    curves: dict[str, tuple[Parameter, ...]]
    backward_share: float
    flash_2_flops_per_s: dict[str, float]
    portable: tuple[str, ...]
    scan_share: float
    overheads: dict[str, tuple[float, ...]]

    @property
    def pool(self) -> tuple[str, ...]:
        """Cards of the curve for generations without measurements."""
        return tuple(card for name in self.pooled for card in self.generations[name])


kernel_fits = shipped("kernel_fits.yaml", KernelFits)
"""Returns which kernels each curve is fitted on, and where each fit starts."""


@record
class Rows:
    """Columns of equal length."""

    accelerator: Texts
    """Catalog key."""

    def where(self, keep: NDArray[np.bool_]) -> Self:
        """Return the rows to keep."""
        return type(self)(**{item.name: getattr(self, item.name)[keep] for item in fields(self)})

    def of(self, accelerators: Iterable[str]) -> Self:
        """Return the rows of these accelerators."""
        return self.where(np.isin(self.accelerator, list(accelerators)))


@record
class Matmuls(Rows):
    """y[m, n] = x[m, k] W[k, n]."""

    kernel: Texts
    m: Floats
    n: Floats
    k: Floats
    cached: NDArray[np.bool_]
    """Whether the weights may have been in the second-level cache."""
    measured_s: Floats


@record
class Experts(Rows):
    """Routed experts of one layer: gate and up in one product, then down; even routing."""

    kernel: Texts
    rows: Floats
    """Tokens times experts per token, on one rank."""
    held: Floats
    """Experts of a rank that receive tokens."""
    hidden: Floats
    intermediate: Floats
    """Width of one expert's part on one rank."""
    measured_s: Floats


@record
class Prefills(Rows):
    """Causal attention over whole prompts."""

    batch: Floats
    sequence_length: Floats
    heads: Floats
    head_dim: Floats
    measured_s: Floats


@record
class Decodes(Rows):
    """Attention of one new token for each sequence over its cache, 16 bits."""

    batch: Floats
    cached_tokens: Floats
    key_value_heads: Floats
    head_dim: Floats
    cached: NDArray[np.bool_]
    measured_s: Floats


@record
class Depthwise(Rows):
    """One pass of a convolution of each channel alone, over square images."""

    kernel: Texts
    """Format."""
    direction: Texts
    """Pass: ``forward``, ``input_gradient`` or ``weight_gradient``."""
    batch: Floats
    channels: Floats
    side: Floats
    """Of the input. [pixels]"""
    size: Floats
    """Side of the filter. [pixels]"""
    stride: Floats
    channels_last: Floats
    measured_s: Floats


@record
class Collectives(Rows):
    """Exchanges between accelerators of one node."""

    operation: Texts
    library: Texts
    link: Texts
    ranks: Floats
    message_bytes: Floats
    measured_s: Floats


@record
class BestRates(Rows):
    """Highest measured rate of a large 16-bit matmul."""

    flops_per_s: Floats


@record
class KernelTables:
    """All tables."""

    matmuls: Matmuls
    experts: Experts
    prefills: Prefills
    decodes: Decodes
    depthwise: Depthwise
    collectives: Collectives
    best_rates: BestRates


Kind = TypeVar("Kind", bound=Rows)
LEAST: Final = {"cached": -1.0, "channels_last": -1.0, "ranks": 1.0}
"""What values of a column exceed, if not 0."""


class _Csv:
    """Text columns of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = read_cells(path)

    def texts(self, name: str) -> Texts:
        if name not in self.rows[0]:
            remedy = "Restore the column; README.md beside the file lists them."
            refuse(self.path.name, ", ".join(self.rows[0]), remedy, entry="header", field=name)
        return np.array([row[name] for row in self.rows], dtype=np.str_)

    def read(self, kind: type[Kind], **stated: Floats) -> Kind:
        """Return the columns that a kind of table has, but for those that are ``stated``."""
        found: dict[str, object] = {**stated}
        for item in fields(kind):
            if item.name == "measured_s":
                found[item.name] = self.numbers("latency_us") * MICROSECOND
            elif item.name == "cached":
                found[item.name] = self.numbers(item.name) > 0
            elif item.name not in stated:
                column = self.texts if item.type is Texts else self.numbers
                found[item.name] = column(item.name)
        return kind(**found)  # type: ignore[arg-type]

    def numbers(self, name: str) -> Floats:
        """Return values above the least of the column, up to the largest plausible one."""
        least = LEAST.get(name, 0.0)
        values = np.empty(len(self.rows))
        for index, text in enumerate(self.texts(name)):
            try:
                values[index] = float(text)
            except ValueError:
                values[index] = np.nan
            if not least < values[index] <= LARGEST:
                remedy = f"Give a number above {least:g}, up to {LARGEST:.0e}."
                refuse(self.path.name, str(text), remedy, entry=f"line {index + 2}", field=name)
        return values


class Achieved(Noun):
    """A line of ``matmul_achievable.csv``: the best published product."""

    accelerator: Annotated[str, Field(min_length=1)]
    format: Annotated[str, Field(min_length=1)]
    source_peak_tflops: Teraflops
    achieved_tflops: Teraflops
    shape_mnk: str = ""
    software: str = ""
    notes: str = ""
    attribution: str
    licence: str


def read_achievable(path: Path | None = None) -> list[Achieved]:
    """Read the best published products, one of each card and format.

    Raises CatalogError if the table is broken.

    ``path``: the shipped table by default.
    """
    return read_table(path or data_path(ACHIEVABLE), Achieved, key=("accelerator", "format"))


def read_kernel_tables(folder: Path) -> KernelTables:
    """Read the tables in ``folder``.

    Raises CatalogError if a column is missing or a value is not a positive number.

    ``folder``: the folder; its ``README.md`` describes the files.
    """
    return KernelTables(
        matmuls=_Csv(folder / "matmul.csv").read(Matmuls),
        experts=_experts(_Csv(folder / "experts.csv")),
        prefills=_Csv(folder / "attention_prefill.csv").read(Prefills),
        decodes=_Csv(folder / "attention_decode.csv").read(Decodes),
        depthwise=_Csv(folder / "depthwise.csv").read(Depthwise),
        collectives=_Csv(folder / "collectives.csv").read(Collectives),
        best_rates=_best_rates(folder),
    )


def _best_rates(folder: Path) -> BestRates:
    """Readings in 16 bits: of the table that reports of a probe are compared with, and two more."""
    best = [row for row in read_achievable(folder.parents[1] / ACHIEVABLE) if row.format == "bf16"]
    others = [_Csv(folder / f"matmul_best_{name}.csv") for name in ("torch", "maxtext")]
    cards = [np.array([row.accelerator for row in best], dtype=np.str_)]
    cards += [each.texts("accelerator") for each in others]
    rates = [np.array([row.achieved_tflops for row in best])]
    rates += [each.numbers("tflops") for each in others]
    return BestRates(accelerator=np.concatenate(cards), flops_per_s=np.concatenate(rates) * TFLOP)


def _experts(table: _Csv) -> Experts:
    ranks = table.numbers("expert_ranks")
    # Even a single token needs whole experts on its ranks.
    rows = np.maximum(table.numbers("tokens") * table.numbers("active") / ranks, 1.0)
    return table.read(
        Experts,
        rows=rows,
        held=np.minimum(table.numbers("experts") / ranks, rows),
        intermediate=table.numbers("intermediate") / table.numbers("tensor"),
    )
