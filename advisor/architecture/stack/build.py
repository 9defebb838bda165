"""State of the layer compiler: the current tensor, its kept copies, and the rows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final, NoReturn, Self

from advisor.architecture.table.operators import (
    Operator,
    OperatorKind,
    Part,
    SavedFormat,
    SavedTensor,
)
from advisor.architecture.table.rows import COMPUTE, STREAM, TENSOR, Rows, kept
from advisor.errors import InputError

MAX_ROWS: Final = 1000
"""Layers that differ. Each is a moment at which the memory may be fullest."""
MAX_STEPS: Final = 20_000
MAX_LAYERS: Final = 1_000_000
MAX_ELEMENTS: Final = 10**15
"""Most elements of one matrix or of one sample's tensor, far more than any memory holds."""

FIELD: Final = "model.stack"


@dataclass(slots=True)
class Signal:
    """A tensor between layers."""

    width: int
    """Channels or features."""
    grid: tuple[int, ...]
    """Sides of an image or length of a sequence; empty for a single vector."""
    format: SavedFormat = STREAM
    kept: set[SavedFormat] = field(default_factory=set)
    """Formats in which the backward pass already keeps the tensor."""
    gradient: bool = True
    """False for the network's input, which needs no gradient."""

    @property
    def positions(self) -> int:
        """Number of pixels or tokens."""
        return prod(self.grid)

    @property
    def elements(self) -> int:
        """Number of elements in one sample."""
        return self.width * self.positions

    def fresh(self, *, form: SavedFormat | None = None, **sizes: Any) -> Self:
        """Return a new tensor like this one but for format and ``sizes``, without kept copies."""
        changed: dict[str, Any] = {"kept": set(), "gradient": True, **sizes}
        return replace(self, format=form or self.format, **changed)


@dataclass(slots=True)
class Build:
    """The rows so far, and the input of the next layer."""

    signal: Signal
    whole: bool
    """True if a whole sample passes at once; False if tokens of a sequence do."""
    saved: dict[str, Signal] = field(default_factory=dict)
    rows: list[Operator] = field(default_factory=list)
    part: Part = Part.BLOCK
    path: tuple[str, ...] = ()
    steps: int = 0
    segments: int = 0
    """Number of recomputed blocks so far."""
    in_segment: bool = False
    """Whether recomputation treats the layers as one block. That is what the libraries'
    ``gradient_checkpointing`` wraps: one pass of the innermost repetition with residuals (a
    transformer layer), or a residual that neither repeats anything nor is repeated (a block of a
    U-Net)."""
    largest: float = 1.0
    """Value of ``Operator.largest`` for the rows that follow."""
    _names: dict[str, int] = field(default_factory=dict)

    def name(self, label: str) -> str:
        """Return a dotted name for a row, unique in the table."""
        dotted = ".".join((*self.path, label))
        count = self._names[dotted] = self._names.get(dotted, 0) + 1
        return dotted if count == 1 else f"{dotted}_{count}"

    def keep(
        self, signal: Signal, form: SavedFormat, read_by: tuple[str, ...] | None = None
    ) -> tuple[SavedTensor, ...]:
        """Return the tensor that keeping it in this format adds to the copies already kept.

        Under autocast, each reader casts a tensor in another format again. If both formats are
        equal, there is only one tensor.
        """
        if form is signal.format and form in signal.kept:
            return ()
        other = STREAM if form is COMPUTE else COMPUTE
        copied = other if signal.kept else None
        signal.kept.add(form)
        return (kept("input", signal.elements, form, copy_of=copied, read_by=read_by),)

    def put(self, signal: Signal) -> None:
        """Set the input of the next layer."""
        if signal.elements > MAX_ELEMENTS:
            found = f"{signal.elements:.3g} elements"
            self.fail("a layer makes a tensor that no memory can hold", found)
        self.signal = signal

    def saved_signal(self, name: str) -> Signal:
        """Return the tensor of that name.

        Raises InputError if no earlier layer saved a tensor of that name.
        """
        if name not in self.saved:
            self.fail(
                f"no earlier layer saves a tensor named {name!r}",
                name,
                ", ".join(self.saved) or "the name of an earlier save",
            )
        return self.saved[name]

    def ends_in(self, kinds: frozenset[OperatorKind]) -> bool:
        """Return whether the last row has one of these kinds."""
        return bool(self.rows) and self.rows[-1].kind in kinds

    def add(self, row: Operator) -> None:
        """Append a row."""
        if len(self.rows) >= MAX_ROWS:
            self.fail("the stack has too many different layers", len(self.rows), f"{MAX_ROWS:,}")
        if self.largest > 1:
            row = row.changed(largest=self.largest)
        self.rows.append(row)

    def repeat_rows(self, start: int, times: int) -> None:
        """Repeat the rows from ``start`` on: each counts for ``times`` as many layers."""
        if times * max((row.layers for row in self.rows[start:]), default=1) > MAX_LAYERS:
            self.fail("the stack has too many layers", times, f"{MAX_LAYERS:,} alike")
        self._change(start, lambda row: {"layers": row.layers * times})

    def share_rows(self, start: int) -> None:
        """Let the rows from ``start`` on share weights that earlier rows count."""
        self._change(start, lambda _: {"parameters": 0, "active_parameters": 0})

    def wait_beside(self, start: int, source: Signal) -> None:
        """Keep the gradient of ``source`` during the backward pass of rows from ``start`` on."""
        waiting = source.elements
        self._change(start, lambda row: {"waiting_elements": row.waiting_elements + waiting})

    def close_segment(self, start: int, source: Signal) -> None:
        """Make the rows from ``start`` on one block, which is recomputed from its input."""
        self.in_segment = False
        self.segments += 1
        self._change(start, lambda _: {"segment": self.segments, "segment_input": None})
        entry = kept("block_input", source.elements, source.format)
        self.rows[start : start + 1] = [
            row.changed(segment_input=entry) for row in self.rows[start : start + 1]
        ]

    def freeze_rows(self, start: int) -> None:
        """Freeze the rows from ``start`` on: training runs them forward only and keeps nothing."""
        kept_nothing = {"input_gradient": False, "saved": (), "segment_input": None}
        self._change(start, lambda _: {"frozen": True, **kept_nothing})
        self.signal = self.signal.fresh(gradient=False)

    def _change(self, start: int, update: Callable[[Operator], dict[str, object]]) -> None:
        self.rows[start:] = [row.changed(**update(row)) for row in self.rows[start:]]

    def add_row(self, label: str, kind: OperatorKind, **columns: Any) -> None:
        """Append a row of one layer; ``columns`` are further fields of :class:`Operator`."""
        self.add(Rows("", 1, self.part).row(self.name(label), kind, **columns))

    def memory_bound(self, label: str, *, moved: float, **columns: Any) -> None:
        """Append a memory-bound row, as :meth:`Rows.elementwise` makes it."""
        columns.setdefault("moved_format", self.signal.format)
        name, at = self.name(label), Rows("", 1, self.part)
        self.add(at.elementwise(name, fused=moved, **columns))

    def product(
        self,
        label: str,
        *,
        depth: int,
        columns: int,
        positions: float,
        groups: int = 1,
        biases: int = 0,
        kind: OperatorKind = OperatorKind.MATMUL,
        moved: float | None = None,
        source: Signal | None = None,
        tied: bool = False,
        again: bool = False,
        **others: Any,
    ) -> None:
        """Append a product with ``positions`` rows, inner dimension ``depth``, ``columns``.

        Its matrix is ``tied`` to a table, or used ``again``; ``source`` is what it reads and may
        have to cast; ``others`` are fields of `Operator`.
        """
        elements = depth * columns * groups
        if elements > MAX_ELEMENTS:
            self.fail("a layer has a matrix that no memory can hold", f"{elements:.3g} elements")
        self.add_row(
            label,
            kind,
            division=TENSOR,
            parameters=(0 if tied or again else elements) + biases,
            active_parameters=(0 if again else elements) + biases,
            in_features=depth,
            out_features=columns,
            groups=groups,
            positions_per_token=positions,
            flops_per_token=2.0 * positions * elements,
            moved_elements_per_token=positions * groups * (depth + columns)
            if moved is None
            else moved,
            cast_elements_per_token=source.elements if source and source.format is STREAM else 0.0,
            **others,
        )

    def fail(self, what: str, value: object, allowed: str = "less") -> NoReturn:
        """Refuse the stack."""
        remedy = "Correct the layer, or the size of the input."
        raise InputError(what, value=value, allowed=allowed, remedy=remedy, field=FIELD)
