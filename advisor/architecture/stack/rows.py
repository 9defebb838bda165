"""Operator rows of each layer of the vocabulary, as PyTorch runs it operation by operation.

The tensors kept for the backward pass follow PyTorch: products, norms, GELU and SiLU keep their
input, ReLU and sigmoid their output, maxima an index of eight bytes, dropout a mask of one byte.
"""

from dataclasses import replace
from math import prod
from typing import Final

from advisor.architecture.mixers.feed_forward import ACTIVATIONS
from advisor.architecture.stack import layers as vocabulary
from advisor.architecture.stack.build import Build, Signal, fresh
from advisor.architecture.table.operators import (
    Division,
    OperatorKind,
    SavedFormat,
    SavedTensor,
    SavedWhen,
)
from advisor.architecture.table.rows import COMPUTE, FUSED_PASSES, LOSS_PASSES, STREAM, kept

KEEPS_OUTPUT: Final = frozenset({"relu", "relu6", "sigmoid", "tanh", "hardsigmoid"})
"""Functions whose gradient needs only their output."""

FUSING: Final = frozenset({OperatorKind.NORMALIZATION, OperatorKind.ELEMENTWISE})
"""Rows that a compiler fuses with the elementwise work after them."""

WRITTEN_OUT: Final = {name: ACTIVATIONS[name] for name in ("gelu_new", "quick_gelu", "relu2")}
"""Functions that the model classes compute in several steps."""

STEPWISE_PASSES, STEPWISE_LAUNCHES = 7.0, 6
"""T5's RMSNorm, kernel by kernel: square 2, mean 1, scale 2, weight 2; epsilon and square root are
of one element a vector."""

INDEX_ELEMENTS: Final = 2
"""Size of a 64-bit index in elements of 32 bits."""


def convolution(layer: vocabulary.Convolution, build: Build) -> None:
    """Append a convolution as the product of its patches."""
    signal = build.signal
    if not signal.grid:
        build.fail("a convolution needs positions, but its input is a vector", signal.width, "grid")
    out = signal.width if layer.out is None else layer.out
    groups = signal.width if layer.groups == "depthwise" else layer.groups
    if signal.width % groups or out % groups:
        build.fail(
            "groups of a convolution do not divide its channels",
            groups,
            f"a divisor of {signal.width:,} and of {out:,}",
        )
    grid = _convolved(layer, build)
    area = layer.kernel ** len(grid)
    # A transposed convolution multiplies every input position and scatters the results.
    positions = signal.positions if layer.transposed else prod(grid)
    columns = out // groups * (area if layer.transposed else 1)
    depth = signal.width // groups * (1 if layer.transposed else area)
    result = Signal(out, grid, COMPUTE)
    build.product(
        "convolution",
        kind=OperatorKind.CONVOLUTION,
        depth=depth,
        columns=columns,
        positions=positions,
        groups=groups,
        biases=out if layer.bias and not layer.shared else 0,
        moved=signal.elements + result.elements,
        again=layer.shared,
        input_gradient=signal.gradient,
        minimal=(layer.kernel, layer.stride, groups) == (3, 1, 1),
        saved=build.keep(signal, COMPUTE, ("convolution",)),
    )
    build.put(result)


def _convolved(layer: vocabulary.Convolution, build: Build) -> tuple[int, ...]:
    kernel, stride, grid = layer.kernel, layer.stride, build.signal.grid
    padding = layer.padding
    if padding is None:
        padding = kernel // 2 if kernel % 2 else 0
    if layer.transposed:
        sides = tuple((side - 1) * stride - 2 * padding + kernel for side in grid)
    else:
        sides = tuple((side + 2 * padding - kernel) // stride + 1 for side in grid)
    if min(sides) < 1:
        build.fail("the input is smaller than the kernel of a convolution", grid, f"{kernel} up")
    return sides


def linear(layer: vocabulary.Linear, build: Build) -> None:
    """Append a matrix product at every position."""
    signal = build.signal
    reader = layer.target or "linear"
    build.product(
        "linear",
        depth=signal.width,
        columns=layer.out,
        positions=signal.positions,
        biases=layer.out if layer.bias else 0,
        target=layer.target,
        tied=layer.tied,
        input_gradient=signal.gradient,
        saved=build.keep(signal, COMPUTE, (reader,)),
    )
    build.put(fresh(signal, width=layer.out, form=COMPUTE))


def normalization(layer: vocabulary.Normalization, build: Build) -> None:
    """Append a norm. Batch norm uses the format of its input, the others that of the stream."""
    signal = build.signal
    if layer.kind == "frozen":
        # One pass scales and one shifts. With constants, the backward pass needs no input.
        moved = 2.0 * signal.elements
        build.memory_bound("frozen_norm", moved=moved, unfused=2 * moved, launches=2)
        build.put(fresh(signal))
        return
    form = signal.format if layer.kind == "batch" else STREAM
    saved = build.keep(signal, form)
    if layer.kind in ("layer", "rms"):
        statistics = signal.positions * (2 if layer.kind == "layer" else 1)
        saved = (*saved, kept("statistics", statistics, SavedFormat.FP32))
    if layer.stepwise:
        # The scale multiplies the normalised vector, which it needs again.
        saved = (*saved, kept("normalised", signal.elements, STREAM, when=SavedWhen.UNFUSED))
    elements = {"rms": 1, "layer": 2}.get(layer.kind, 2) * signal.width * layer.affine
    build.memory_bound(
        f"{layer.kind}_norm",
        kind=OperatorKind.NORMALIZATION,
        # Statistics over other positions need a separate pass.
        moved=(3.0 if layer.kind in ("batch", "group") else 2.0) * signal.elements,
        unfused=STEPWISE_PASSES * signal.elements if layer.stepwise else None,
        launches=STEPWISE_LAUNCHES if layer.stepwise else 1,
        parameters=elements,
        saved=saved,
    )
    build.put(fresh(signal, form=form))


def activation(layer: vocabulary.Activation, build: Build) -> None:
    """Append an elementwise function."""
    activated(layer.function, build)


def activated(function: vocabulary.Function, build: Build) -> None:
    """Append an elementwise function by name."""
    signal = build.signal
    result = fresh(signal)
    saved = build.keep(result if function in KEEPS_OUTPUT else signal, signal.format)
    written = WRITTEN_OUT.get(function)
    if written is not None:
        stream, compute = written.stream_intermediates, written.compute_intermediates
        saved += (kept("steps", stream * signal.elements, STREAM),) if stream else ()
        saved += (kept("step", compute * signal.elements, signal.format),) if compute else ()
    build.memory_bound(
        function,
        kind=OperatorKind.ACTIVATION,
        # Compilers fuse it with the norm or sum before it.
        moved=0.0 if build.ends_in(FUSING) else 2.0 * signal.elements,
        unfused=(2.0 if written is None else written.passes) * signal.elements,
        launches=1 if written is None else written.launches,
        saved=saved,
    )
    build.put(result)


def gated_product(layer: vocabulary.GatedProduct, build: Build) -> None:
    """Append a gated product, which keeps both halves and the function's result."""
    signal = build.signal
    if signal.width % 2:
        build.fail("a gated product needs an even width", signal.width, "an even number")
    result = fresh(signal, width=signal.width // 2)
    saved = build.keep(signal, signal.format)
    build.memory_bound(
        "gated_product",
        kind=OperatorKind.ACTIVATION,
        moved=3.0 * result.elements,
        unfused=5.0 * result.elements,
        launches=2,
        saved=(*saved, kept("gate", result.elements, signal.format)),
    )
    build.put(result)


def pool(layer: vocabulary.Pool, build: Build) -> None:
    """Append a pool over windows, or over everything."""
    signal = build.signal
    if layer.kind == "first":
        # A view: nothing is computed.
        build.put(fresh(signal, grid=()))
        return
    if layer.kernel is None:
        grid = (layer.out,) * len(signal.grid) if layer.out > 1 else ()
    else:
        stride = layer.stride or layer.kernel
        grid = tuple(
            (side + 2 * layer.padding - layer.kernel) // stride + 1 for side in signal.grid
        )
        if not grid or min(grid) < 1:
            build.fail("the input is smaller than the window of a pool", signal.grid, "larger")
    result = fresh(signal, grid=grid)
    saved: tuple[SavedTensor, ...] = ()
    if layer.kind == "max":
        index = kept("index", INDEX_ELEMENTS * result.elements, SavedFormat.FP32)
        saved = (*build.keep(signal, signal.format), index)
    elif grid:
        saved = build.keep(signal, signal.format)
    build.memory_bound(f"{layer.kind}_pool", moved=signal.elements + result.elements, saved=saved)
    build.put(result)


def flatten(layer: vocabulary.Flatten, build: Build) -> None:
    """Turn positions into features; nothing is computed or copied."""
    del layer
    build.signal = replace(build.signal, width=build.signal.elements, grid=())


def dropout(layer: vocabulary.Dropout, build: Build) -> None:
    """Append a dropout and its mask."""
    del layer
    signal = build.signal
    mask = kept("mask", signal.elements, SavedFormat.BYTE)
    build.memory_bound("dropout", moved=2.5 * signal.elements, saved=(mask,))
    build.put(fresh(signal))


def scale(layer: vocabulary.Scale, build: Build) -> None:
    """Append a learned factor for each channel. fp32 parameters make the product fp32."""
    del layer
    signal = build.signal
    build.memory_bound(
        "scale",
        moved=2.0 * signal.elements,
        parameters=signal.width,
        saved=build.keep(signal, signal.format, ("scale",)),
    )
    build.put(fresh(signal, form=STREAM))


def learned(layer: vocabulary.Learned, build: Build) -> None:
    """Append learned elements that are added to the current tensor."""
    signal = build.signal
    build.memory_bound("learned", moved=2.0 * signal.elements, parameters=layer.elements)
    build.put(fresh(signal, form=STREAM))


def extra_tokens(layer: vocabulary.ExtraTokens, build: Build) -> None:
    """Add tokens before those of the image."""
    signal = build.signal
    result = fresh(signal, grid=(signal.positions + layer.tokens,), form=STREAM)
    build.memory_bound(
        "extra_tokens",
        moved=signal.elements + result.elements,
        parameters=layer.tokens * signal.width * layer.learned,
    )
    build.put(result)


def squeeze_excite(layer: vocabulary.SqueezeExcite, build: Build) -> None:
    """Append means, two matrices, and the product of each channel and its gate."""
    signal = build.signal
    whole = build.signal
    pool(vocabulary.Pool(kind="average", kernel=None), build)
    linear(vocabulary.Linear(out=layer.hidden), build)
    activated(layer.function, build)
    linear(vocabulary.Linear(out=whole.width), build)
    activated(layer.gate, build)
    saved = (*build.keep(whole, whole.format), *build.keep(build.signal, build.signal.format))
    build.memory_bound("gating", moved=2.0 * signal.elements, saved=saved)
    build.put(fresh(whole))


def upsample(layer: vocabulary.Upsample, build: Build) -> None:
    """Append a repetition of every pixel. Its gradient needs no saved tensor."""
    signal = build.signal
    result = fresh(signal, grid=tuple(side * layer.factor for side in signal.grid))
    build.memory_bound("upsample", moved=signal.elements + result.elements)
    build.put(result)


def merge(layer: vocabulary.Merge, build: Build) -> None:
    """Append a copy that joins neighbouring pixels."""
    signal, factor = build.signal, layer.factor
    if not signal.grid or min(signal.grid) < factor:
        build.fail("the input is smaller than the squares to merge", signal.grid, f"{factor} up")
    grid = tuple(side // factor for side in signal.grid)
    result = fresh(signal, width=signal.width * factor ** len(grid), grid=grid)
    build.memory_bound("merge", moved=2.0 * result.elements)
    build.put(result)


def regions(layer: vocabulary.Regions, build: Build) -> None:
    """Append the sampling of regions. Its gradient needs only their boxes."""
    signal = build.signal
    if len(signal.grid) != 2:
        build.fail("regions need the features of an image as input", signal.grid, "two sides")
    result = fresh(signal, grid=(layer.count * layer.side, layer.side))
    # Each sample is interpolated from four neighbours, at two by two points of a cell.
    build.memory_bound(
        "regions",
        moved=float(signal.elements + result.elements),
        unfused=signal.elements + 5.0 * result.elements,
    )
    # The number of regions does not depend on the size of the image.
    build.largest = (layer.most or layer.count) / layer.count
    build.put(result)


FOCAL_STEPS: Final = 10
"""Kept tensors, one for each operation: ordered scores, those of valid anchors, targets, sigmoid,
cross-entropy, two products for 1 - p, its power, two factors."""


def focal_loss(layer: vocabulary.FocalLoss, build: Build) -> None:
    """Append the loss of every score. A fused kernel keeps only the scores."""
    del layer
    signal = build.signal
    steps = kept("steps", FOCAL_STEPS * signal.elements, STREAM, when=SavedWhen.UNFUSED)
    build.memory_bound(
        "focal_loss",
        moved=2.0 * signal.elements,
        unfused=2.5 * FOCAL_STEPS * signal.elements,
        launches=FOCAL_STEPS,
        saved=(*build.keep(signal, STREAM), steps),
    )


def cross_entropy(layer: vocabulary.CrossEntropy, build: Build) -> None:
    """Append the loss of every logit; what it keeps is counted apart (`loss_bytes_per_logit`)."""
    del layer
    build.memory_bound(
        "loss",
        kind=OperatorKind.CROSS_ENTROPY,
        division=Division.TENSOR,
        moved=FUSED_PASSES * build.signal.elements,
        unfused=LOSS_PASSES * build.signal.elements,
        launches=3,
    )


def matching(layer: vocabulary.Matching, build: Build) -> None:
    """Append the host's time to assign predictions to objects."""
    build.memory_bound("matching", moved=0.0, host_s=layer.host_s)
