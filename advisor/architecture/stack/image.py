"""Layers over the pixels of an image, or over other positions that have neighbours."""

from dataclasses import replace
from math import prod
from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.architecture.stack.build import Build, Signal
from advisor.architecture.stack.layers import Layer, Small, Width
from advisor.architecture.stack.pointwise import Activation, Function, Linear
from advisor.architecture.table.operators import OperatorKind, SavedFormat, SavedTensor
from advisor.architecture.table.rows import COMPUTE, STREAM, kept

Padding = Annotated[int, Field(ge=0, le=1024)]

INDEX_ELEMENTS: Final = 2
"""Size of a 64-bit index, which maxima keep, in elements of 32 bits."""


class Convolution(Layer):
    """A convolution, as the product of its patches. It may shrink or enlarge the sides."""

    out: Width | None = None
    """Output channels; None keeps the number of input channels."""
    kernel: Small = 3
    stride: Small = 1
    padding: Padding | None = None
    """None pads an odd kernel so that stride 1 keeps the size; an even kernel is not padded."""
    groups: Width | Literal["depthwise"] = 1
    bias: bool = True
    transposed: bool = False
    shared: bool = False
    """Whether it shares the weights of an earlier convolution, which counts them."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        if not signal.grid:
            what = "a convolution needs positions, but its input is a vector"
            build.fail(what, signal.width, "grid")
        out = signal.width if self.out is None else self.out
        groups = signal.width if self.groups == "depthwise" else self.groups
        if signal.width % groups or out % groups:
            build.fail(
                "groups of a convolution do not divide its channels",
                groups,
                f"a divisor of {signal.width:,} and of {out:,}",
            )
        grid = self._grid(build)
        area = self.kernel ** len(grid)
        result = Signal(out, grid, COMPUTE)
        build.product(
            "convolution",
            kind=OperatorKind.CONVOLUTION,
            # A transposed convolution multiplies every input position and scatters the results.
            depth=signal.width // groups * (1 if self.transposed else area),
            columns=out // groups * (area if self.transposed else 1),
            positions=signal.positions if self.transposed else prod(grid),
            groups=groups,
            biases=out if self.bias and not self.shared else 0,
            moved=signal.elements + result.elements,
            source=signal,
            again=self.shared,
            input_gradient=signal.gradient,
            minimal=(self.kernel, self.stride, groups) == (3, 1, 1),
            saved=build.keep(signal, COMPUTE, ("convolution",)),
        )
        build.put(result)

    def _grid(self, build: Build) -> tuple[int, ...]:
        kernel, stride, grid = self.kernel, self.stride, build.signal.grid
        padding = self.padding
        if padding is None:
            padding = kernel // 2 if kernel % 2 else 0
        if self.transposed:
            sides = tuple((side - 1) * stride - 2 * padding + kernel for side in grid)
        else:
            sides = _strided(grid, kernel, stride, padding)
        if min(sides) < 1:
            what = "the input is smaller than the kernel of a convolution"
            build.fail(what, grid, f"{kernel} up")
        return sides


def _strided(grid: tuple[int, ...], kernel: int, stride: int, padding: int) -> tuple[int, ...]:
    return tuple((side + 2 * padding - kernel) // stride + 1 for side in grid)


class Pool(Layer):
    """The largest or mean value of a window, or of the whole image if ``kernel`` is None."""

    kind: Literal["max", "average", "first"] = "max"
    """``first`` takes the first token and drops the others: a view that computes nothing."""
    kernel: Small | None = 2
    stride: Small | None = None
    """Step; None steps by the kernel."""
    padding: Padding = 0
    out: Small = 1
    """Side of the result, if there is no kernel."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        if self.kind == "first":
            build.put(signal.fresh(grid=()))
            return
        if self.kernel is None:
            grid = (self.out,) * len(signal.grid) if self.out > 1 else ()
        else:
            grid = _strided(signal.grid, self.kernel, self.stride or self.kernel, self.padding)
            if not grid or min(grid) < 1:
                build.fail("the input is smaller than the window of a pool", signal.grid, "larger")
        result = signal.fresh(grid=grid)
        saved: tuple[SavedTensor, ...] = ()
        if self.kind == "max":
            index = kept("index", INDEX_ELEMENTS * result.elements, SavedFormat.FP32)
            saved = (*build.keep(signal, signal.format), index)
        elif grid:
            saved = build.keep(signal, signal.format)
        moved = signal.elements + result.elements
        build.memory_bound(f"{self.kind}_pool", moved=moved, saved=saved)
        build.put(result)


class Flatten(Layer):
    """Turns all positions into the features of one vector; nothing is computed or copied."""

    def _append(self, build: Build) -> None:
        build.signal = replace(build.signal, width=build.signal.elements, grid=())


class ExtraTokens(Layer):
    """Tokens placed before those of the image (class token)."""

    tokens: Small = 1
    learned: bool = True

    def _append(self, build: Build) -> None:
        signal = build.signal
        result = signal.fresh(grid=(signal.positions + self.tokens,), form=STREAM)
        build.memory_bound(
            "extra_tokens",
            moved=signal.elements + result.elements,
            parameters=self.tokens * signal.width * self.learned,
        )
        build.put(result)


class SqueezeExcite(Layer):
    """Weights the channels by a small network that reads their means."""

    hidden: Width
    function: Function = "relu"
    gate: Function = "sigmoid"

    def _append(self, build: Build) -> None:
        whole = build.signal
        Pool(kind="average", kernel=None).append(build)
        Linear(out=self.hidden).append(build)
        Activation(function=self.function).append(build)
        Linear(out=whole.width).append(build)
        Activation(function=self.gate).append(build)
        gates = build.signal
        saved = (*build.keep(whole, whole.format), *build.keep(gates, gates.format))
        # Gradients: of the map 2, of the gate a product 3 and a sum 1, and their sum with the
        # mean's 3.
        build.memory_bound("gating", moved=2.0 * whole.elements, backward=4.5, saved=saved)
        build.put(whole.fresh())


class Upsample(Layer):
    """Repeats every pixel along each side. Its gradient needs no saved tensor."""

    factor: Small = 2

    def _append(self, build: Build) -> None:
        signal = build.signal
        result = signal.fresh(grid=tuple(side * self.factor for side in signal.grid))
        build.memory_bound("upsample", moved=signal.elements + result.elements, backward=1.0)
        build.put(result)


class Merge(Layer):
    """Copies squares of neighbouring pixels into the channels of one (Swin)."""

    factor: Small = 2

    def _append(self, build: Build) -> None:
        signal, factor = build.signal, self.factor
        if not signal.grid or min(signal.grid) < factor:
            what = "the input is smaller than the squares to merge"
            build.fail(what, signal.grid, f"{factor} up")
        grid = tuple(side // factor for side in signal.grid)
        result = signal.fresh(width=signal.width * factor ** len(grid), grid=grid)
        copied = 2.0 * result.elements
        # A compiler reads elements where they are, if only their order changes.
        build.memory_bound("merge", moved=copied * (factor > 1), unfused=copied, backward=1.0)
        build.put(result)


class Regions(Layer):
    """Cuts regions out of the image's features and samples each to a square (RoIAlign).

    The regions are stacked along one side, so that convolutions run over all of them. The gradient
    needs only their boxes.
    """

    count: Annotated[int, Field(ge=1, le=1_000_000)]
    side: Small = 7
    most: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Largest number in an image, which memory must hold; None means always ``count``."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        if len(signal.grid) != 2:
            what = "regions need the features of an image as input"
            build.fail(what, signal.grid, "two sides")
        result = signal.fresh(grid=(self.count * self.side, self.side))
        # Each sample is interpolated from four neighbours, at two by two points of a cell.
        build.memory_bound(
            "regions",
            moved=float(signal.elements + result.elements),
            unfused=signal.elements + 5.0 * result.elements,
        )
        # The number of regions does not depend on the size of the image.
        build.largest = (self.most or self.count) / self.count
        build.put(result)
