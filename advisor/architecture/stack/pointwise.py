"""Layers that treat every position alike: products, norms, functions, losses.

The tensors kept for the backward pass follow PyTorch: products, norms, GELU and SiLU keep their
input, ReLU and sigmoid their output, dropout a mask of one byte.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.architecture.mixers.feed_forward import ACTIVATIONS
from advisor.architecture.stack.build import Build
from advisor.architecture.stack.layers import FUSING, Layer, Layers, Width
from advisor.architecture.table.operators import OperatorKind, SavedFormat, SavedWhen
from advisor.architecture.table.rows import COMPUTE, FUSED_PASSES, LOSS_PASSES, STREAM, TENSOR, kept
from advisor.foundation.names import Name

Function = Literal[
    "relu",
    "relu2",
    "relu6",
    "gelu",
    "gelu_new",
    "silu",
    "quick_gelu",
    "hardswish",
    "hardsigmoid",
    "sigmoid",
    "tanh",
]

KEEPS_OUTPUT: Final = frozenset({"relu", "relu6", "sigmoid", "tanh", "hardsigmoid"})
"""Functions whose gradient needs only their output."""

WRITTEN_OUT: Final = {name: ACTIVATIONS[name] for name in ("gelu_new", "quick_gelu", "relu2")}
"""Functions that the model classes compute in several steps."""

STEPWISE_PASSES, STEPWISE_LAUNCHES = 7.0, 6
"""T5's RMSNorm, kernel by kernel: square 2, mean 1, scale 2, weight 2; epsilon and square root are
of one element a vector."""

FOCAL_STEPS: Final = 10
"""Kept tensors, one for each operation: ordered scores, those of valid anchors, targets, sigmoid,
cross-entropy, two products for 1 - p, its power, two factors."""


class Linear(Layer):
    """A matrix product at every position."""

    out: Width
    bias: bool = True
    target: Name | None = None
    """Adapter target of this matrix."""
    tied: bool = False
    """Whether it shares the matrix of an embedding, which counts it."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        build.product(
            "linear",
            depth=signal.width,
            columns=self.out,
            positions=signal.positions,
            source=signal,
            biases=self.out if self.bias else 0,
            target=self.target,
            tied=self.tied,
            input_gradient=signal.gradient,
            saved=build.keep(signal, COMPUTE, (self.target or "linear",)),
        )
        build.put(signal.fresh(width=self.out, form=COMPUTE))


class Normalization(Layer):
    """A norm with learned scale and bias. A frozen one only scales and shifts by constants.

    Batch norm uses the format of its input, the others that of the stream.
    """

    kind: Literal["batch", "layer", "group", "rms", "frozen"] = "batch"
    affine: bool = True
    """Whether it has learned elements."""
    stepwise: bool = False
    """Whether single operations compute it in fp32 where no compiler joins them (T5's RMSNorm)."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        if self.kind == "frozen":
            # One pass scales and one shifts. With constants, the backward pass needs no input.
            moved = 2.0 * signal.elements
            build.memory_bound(
                "frozen_norm", moved=moved, unfused=2 * moved, launches=2, backward=0.5
            )
            build.put(signal.fresh())
            return
        form = signal.format if self.kind == "batch" else STREAM
        saved = build.keep(signal, form)
        if self.kind in ("layer", "rms"):
            statistics = signal.positions * (2 if self.kind == "layer" else 1)
            saved = (*saved, kept("statistics", statistics, SavedFormat.FP32))
        if self.stepwise:
            # The scale multiplies the normalised vector, which it needs again.
            saved = (*saved, kept("normalised", signal.elements, STREAM, when=SavedWhen.UNFUSED))
        # Statistics over other positions need a separate pass.
        passes = 3.0 if self.kind in ("batch", "group") else 2.0
        build.memory_bound(
            f"{self.kind}_norm",
            kind=OperatorKind.NORMALIZATION,
            moved=passes * signal.elements,
            # Input and gradient are read for the sums over them, read again and written.
            backward=5.0 / passes,
            moved_format=form,
            cast_elements_per_token=0.0 if form is signal.format else signal.elements,
            vectors_per_token=signal.positions if self.kind in ("layer", "rms") else 0.0,
            lacks_bf16=self.kind == "batch",
            unfused=STEPWISE_PASSES * signal.elements if self.stepwise else None,
            launches=STEPWISE_LAUNCHES if self.stepwise else 1,
            parameters=(1 if self.kind == "rms" else 2) * signal.width * self.affine,
            saved=saved,
        )
        build.put(signal.fresh(form=form))


class Activation(Layer):
    """An elementwise function."""

    function: Function = "relu"

    def _append(self, build: Build) -> None:
        signal = build.signal
        result = signal.fresh()
        source = result if self.function in KEEPS_OUTPUT else signal
        saved = build.keep(source, signal.format)
        written = WRITTEN_OUT.get(self.function)
        if written is not None:
            stream, compute = written.stream_intermediates, written.compute_intermediates
            saved += (kept("steps", stream * signal.elements, STREAM),) if stream else ()
            saved += (kept("step", compute * signal.elements, signal.format),) if compute else ()
        build.memory_bound(
            self.function,
            kind=OperatorKind.ACTIVATION,
            # Compilers fuse it with the norm or sum before it.
            moved=0.0 if build.ends_in(FUSING) else 2.0 * signal.elements,
            unfused=(2.0 if written is None else written.passes) * signal.elements,
            # It reads the gradient and what was kept.
            backward=1.5 if written is None else 2.0,
            launches=1 if written is None else written.launches,
            saved=saved,
        )
        build.put(result)


class GatedProduct(Layer):
    """Halves the width: multiplies one half by a function of the other (GEGLU, SwiGLU).

    It keeps both halves and the function's result.
    """

    function: Function = "gelu"

    def _append(self, build: Build) -> None:
        signal = build.signal
        if signal.width % 2:
            build.fail("a gated product needs an even width", signal.width, "an even number")
        result = signal.fresh(width=signal.width // 2)
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


class Dropout(Layer):
    """Drops elements in training and keeps a mask of one byte per element."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        mask = kept("mask", signal.elements, SavedFormat.BYTE)
        build.memory_bound("dropout", moved=2.5 * signal.elements, backward=1.0, saved=(mask,))
        build.put(signal.fresh())


class Scale(Layer):
    """A learned factor for each channel (layer scale). fp32 parameters make the product fp32."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        build.memory_bound(
            "scale",
            moved=2.0 * signal.elements,
            # The gradient of the factors is a product of two tensors, then a sum.
            backward=3.0,
            moved_format=STREAM,
            parameters=signal.width,
            saved=build.keep(signal, signal.format, ("scale",)),
        )
        build.put(signal.fresh(form=STREAM))


class Learned(Layer):
    """Learned elements, added or only stored: positions, class tokens, biases of windows."""

    elements: Annotated[int, Field(ge=1, le=10**12)]

    def _append(self, build: Build) -> None:
        signal = build.signal
        build.memory_bound(
            "learned", moved=2.0 * signal.elements, backward=0.5, parameters=self.elements
        )
        build.put(signal.fresh(form=STREAM))


class FocalLoss(Layer):
    """The focal loss of scores (arXiv:1708.02002), as in fvcore. A fused kernel keeps only them."""

    def _append(self, build: Build) -> None:
        signal = build.signal
        steps = kept("steps", FOCAL_STEPS * signal.elements, STREAM, when=SavedWhen.UNFUSED)
        build.memory_bound(
            "focal_loss",
            moved=2.0 * signal.elements,
            unfused=2.5 * FOCAL_STEPS * signal.elements,
            launches=FOCAL_STEPS,
            saved=(*build.keep(signal, STREAM), steps),
        )


class CrossEntropy(Layer):
    """The loss of every logit; what it keeps is counted apart (`loss_bytes_per_logit`)."""

    def _append(self, build: Build) -> None:
        build.memory_bound(
            "loss",
            kind=OperatorKind.CROSS_ENTROPY,
            division=TENSOR,
            moved=FUSED_PASSES * build.signal.elements,
            unfused=LOSS_PASSES * build.signal.elements,
            launches=3,
        )


class Matching(Layer):
    """Assigns predictions to objects in training; host and device take turns."""

    host_s: Annotated[float, Field(ge=0, le=3600)]
    """Host time for one image. [s]"""

    def _append(self, build: Build) -> None:
        build.memory_bound("matching", moved=0.0, host_s=self.host_s)


def feed_forward(
    width: int,
    inner: int,
    middle: Layer,
    *,
    bias: bool = True,
    up_bias: bool = True,
    mask: Layers = (),
) -> Layers:
    """Return two matrices with an activation between them; ``inner`` is what the first makes."""
    up = Linear(out=inner, bias=bias and up_bias, target="up")
    return (up, middle, *mask, Linear(out=width, bias=bias, target="down"))
