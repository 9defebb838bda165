"""Layers of convolutional, recurrent, diffusion and custom networks, and how they are nested.

A layer is a record that appends its rows to the table, as PyTorch runs it operation by operation.
Presets and users' own stacks are lists of layers. The input of a list determines how many elements
flow between them. Widths are channels of an image or features of a token.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from advisor.architecture.stack.build import MAX_STEPS, Build, Signal
from advisor.architecture.table.operators import OperatorKind, Part
from advisor.architecture.table.rows import COMPUTE, STREAM
from advisor.foundation.noun import Noun

Width = Annotated[int, Field(ge=1, le=1_000_000_000)]
Small = Annotated[int, Field(ge=1, le=1024)]
Label = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]

FUSING: Final = frozenset({OperatorKind.NORMALIZATION, OperatorKind.ELEMENTWISE})
"""Rows that a compiler fuses with the elementwise work after them."""


class Layer(Noun, ABC):
    """A layer of the vocabulary."""

    inner: ClassVar[tuple[str, ...]] = ()
    """Fields that hold layers."""

    def append(self, build: Build) -> None:
        """Append the layer's rows, and make its output the input of the next layer."""
        build.steps += 1
        if build.steps > MAX_STEPS:
            build.fail("the stack has too many layers", build.steps, f"{MAX_STEPS:,} steps")
        self._append(build)

    @abstractmethod
    def _append(self, build: Build) -> None:
        pass


Layers = tuple[Layer, ...]


def run(layers: Layers, build: Build) -> None:
    """Append the rows of the layers in order."""
    for layer in layers:
        layer.append(build)


def flat(layers: Layers) -> Iterator[Layer]:
    """Yield the layers, including those inside other layers."""
    for layer in layers:
        yield layer
        for name in layer.inner:
            yield from flat(getattr(layer, name))


class Save(Layer):
    """Saves the current tensor under a name."""

    name: Label

    def _append(self, build: Build) -> None:
        build.saved[self.name] = build.signal


class Take(Layer):
    """Continues with a saved tensor or with another input."""

    name: Label

    def _append(self, build: Build) -> None:
        build.signal = build.saved_signal(self.name)


class Concatenate(Layer):
    """Appends a copy of a saved tensor: its channels, or its positions (``along: positions``)."""

    name: Label
    along: Literal["channels", "positions"] = "channels"

    def _append(self, build: Build) -> None:
        signal, other = build.signal, build.saved_signal(self.name)
        form = STREAM if STREAM in (signal.format, other.format) else COMPUTE
        channels = self.along == "channels"
        sides = [(item.grid if channels else item.width) for item in (other, signal)]
        if sides[0] != sides[1]:
            what = "size" if channels else "width"
            saved = "a saved tensor and the tensor that it extends"
            build.fail(f"{saved} differ in {what}", sides[0], f"{sides[1]}")
        if channels:
            result = Signal(signal.width + other.width, signal.grid, form)
        else:
            result = Signal(signal.width, (signal.positions + other.positions,), form)
        build.memory_bound("concatenate", moved=2.0 * result.elements, backward=1.0)
        build.put(result)


class Residual(Layer):
    """Adds the body's output to its input, or to the shortcut's output."""

    inner = ("body", "shortcut")
    body: Layers
    shortcut: Layers = ()

    def _append(self, build: Build) -> None:
        start, first = build.signal, len(build.rows)
        opens = not build.in_segment and not _holds(self.body, Repeat)
        build.in_segment |= opens
        run(self.body, build)
        build.wait_beside(first, start)
        branch, build.signal = build.signal, start
        run(self.shortcut, build)
        main = build.signal
        if (main.width, main.positions) != (branch.width, branch.positions):
            build.fail(
                "the two paths of a residual differ in size",
                f"{branch.width:,} x {branch.grid} beside {main.width:,} x {main.grid}",
                "equal sizes; give a shortcut",
            )
        form = STREAM if STREAM in (main.format, branch.format) else COMPUTE
        # After a norm, a compiler reads the other path in the same pass.
        fused = 1.0 if build.ends_in(FUSING) else 3.0
        build.memory_bound(
            "residual",
            moved=fused * main.elements,
            unfused=3.0 * main.elements,
            # The gradients of the two paths are added; that of a branch in 16 bits is cast.
            backward=1.0 + 0.5 * (main.format is not branch.format),
            moved_format=form,
        )
        build.put(main.fresh(form=form))
        if opens:
            build.close_segment(first, start)


class Branch(Layer):
    """Layers beside the main path. Their result is saved under a name."""

    inner = ("layers",)
    name: Label
    layers: Layers

    def _append(self, build: Build) -> None:
        start = build.signal
        run(self.layers, build)
        build.saved[self.name], build.signal = build.signal, start


class Repeat(Layer):
    """Repeats layers, with separate or shared weights."""

    inner = ("layers",)
    times: Annotated[int, Field(ge=1, le=10_000)]
    layers: Layers
    shared: bool = False
    """Whether all repetitions share the weights of the first (ALBERT)."""

    def _append(self, build: Build) -> None:
        left, first = self.times, len(build.rows)
        if self.shared:
            width = build.signal.width
            run(self.layers, build)
            if build.signal.width != width:
                what = "layers that share weights change the width"
                build.fail(what, build.signal.width, f"{width}")
            first, left = len(build.rows), left - 1
        self._run(left, build)
        if self.shared:
            build.share_rows(first)

    def _run(self, left: int, build: Build) -> None:
        innermost = _holds(self.layers, Residual) and not _holds(self.layers, Repeat)
        while left:
            before = replace(build.signal, kept=set(build.signal.kept))
            start = len(build.rows)
            opens = not build.in_segment and innermost
            build.in_segment |= opens
            run(self.layers, build)
            if opens:
                build.close_segment(start, before)
            if build.signal == before:
                # The layers that follow have the same rows.
                build.repeat_rows(start, left)
                return
            left -= 1


class Section(Layer):
    """Layers with a common name, which prefixes the names of their rows."""

    inner = ("layers",)
    name: Label
    layers: Layers
    part: Part = Part.BLOCK
    frozen: bool = False
    """Whether training leaves it, and everything before it, unchanged."""

    def _append(self, build: Build) -> None:
        part, path = build.part, build.path
        build.part, build.path = self.part, (*path, self.name)
        start = len(build.rows)
        run(self.layers, build)
        build.part, build.path = part, path
        if self.frozen:
            build.freeze_rows(start)


def _holds(layers: Layers, kind: type[Layer]) -> bool:
    """Whether these layers contain a layer of that kind, at any depth of their main paths."""
    inside = (getattr(layer, layer.inner[0]) for layer in layers if layer.inner)
    return any(isinstance(layer, kind) for layer in layers) or any(
        _holds(nested, kind) for nested in inside
    )


def residual(*body: Layer, shortcut: Layers = ()) -> Residual:
    """Return layers whose output is added to their input, or to the shortcut's output."""
    return Residual(body=body, shortcut=shortcut)


def repeat(times: int, *layers: Layer) -> Repeat:
    """Return layers that are repeated with separate weights."""
    return Repeat(times=times, layers=layers)


def branch(name: str, *layers: Layer) -> Branch:
    """Return layers beside the main path."""
    return Branch(name=name, layers=layers)


def section(name: str, *layers: Layer, part: Part = Part.BLOCK) -> Section:
    """Return layers with a common name prefix."""
    return Section(name=name, part=part, layers=layers)
