"""Building blocks of the operator table: linear layers, norms, and the tensors that they keep.

Moved elements are 16-bit elements: an fp32 intermediate counts double.
"""

from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, Self

from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    Part,
    SavedFormat,
    SavedTensor,
    SavedWhen,
)
from advisor.foundation.noun import Noun
from advisor.foundation.record import record

FUSED_PASSES: Final = 2.0
"""A fused elementwise kernel reads its input and writes its output."""

LOSS_PASSES: Final = 26.0 / 3.0
"""Unfused cross-entropy per logit, in 16-bit elements, a third of both passes. Forward: upcast 1+2,
log-softmax 2+2+2+2, which reads for the largest, the sum and the result. Backward: zeros 2,
log-softmax 4+4+2, which reads gradient and result twice, cast 2+1 (PyTorch 2.11, profiled on one
H100 with 32,000 and 128,256 words, 2026-11-28)."""

RMS_NORM_PASSES: Final = 18.0
"""Hugging Face RMSNorm, kernel by kernel, in 16-bit elements: upcast 1+2, square 2+2, mean 2,
scale 2+2, downcast 2+1, weight 1+1."""
RMS_NORM_LAUNCHES: Final = 8
"""Upcast, square, mean, add epsilon, rsqrt, scale, downcast, weight."""

COMPUTE, STREAM = SavedFormat.COMPUTE, SavedFormat.STREAM
TENSOR, REPLICATED = Division.TENSOR, Division.REPLICATED


class NormKind(StrEnum):
    """How hidden states are normalised."""

    RMS = "rms"
    LAYER = "layer"


class Norm(Noun):
    """A normalisation, with a learned scale by default (OLMo 1 has none)."""

    kind: NormKind = NormKind.RMS
    scale: bool = True
    bias: bool = False
    fp32_scale: bool = False
    """Whether the scale is applied in fp32, before the cast back (Gemma, gpt-oss)."""

    def parameters(self, width: int) -> int:
        """Return the elements of scale and bias for vectors of this width."""
        return width * (self.scale + self.bias)


@record
class Rows:
    """Makes the rows of equal layers."""

    path: str
    """Dotted name of the parent row, unique in the table; it precedes the names of the rows. Empty
    if they have whole names."""
    layers: int
    """Number of layers with these rows."""
    part: Part = Part.BLOCK
    hidden_size: int = 0
    """Width of the residual stream."""
    norms: Norm = Norm()
    """Kind of the model's norms."""

    def under(self, name: str) -> Self:
        """Return the maker of rows below a name."""
        return replace(self, path=f"{self.path}.{name}")

    def only(self, layers: int) -> Self:
        """Return the maker of rows that only so many of the layers have."""
        return replace(self, layers=layers)

    def row(
        self,
        name: str,
        kind: OperatorKind,
        *,
        division: Division = REPLICATED,
        parameters: int = 0,
        **columns: object,
    ) -> Operator:
        """Return a row; ``columns`` are further fields of :class:`Operator`."""
        return Operator.model_validate(
            {
                "name": f"{self.path}.{name}" if self.path else name,
                "kind": kind,
                "part": self.part,
                "layers": self.layers,
                "division": division,
                "parameters": parameters,
                "active_parameters": parameters,
                **columns,
            }
        )

    def linear(
        self,
        name: str,
        in_features: int,
        out_features: int,
        *,
        bias: bool = False,
        tied: bool = False,
        division: Division = TENSOR,
        experts: int = 1,
        active_experts: int = 1,
        **columns: object,
    ) -> Operator:
        """Return the row of a linear layer, or of one matrix in every expert of a layer."""
        elements = in_features * out_features + (out_features if bias else 0)
        # The embedding counts a tied matrix; the bias is separate.
        held = out_features * bias if tied else elements
        return self.row(
            name,
            OperatorKind.MATMUL,
            division=division,
            parameters=held * experts,
            active_parameters=elements * active_experts,
            in_features=in_features,
            out_features=out_features,
            experts=experts,
            active_experts=active_experts,
            flops_per_token=2.0 * in_features * out_features * active_experts,
            **columns,
        )

    def lone_linear(
        self,
        name: str,
        in_features: int,
        out_features: int,
        *,
        bias: bool = False,
        divided: bool = False,
        division: Division = TENSOR,
    ) -> Operator:
        """Return the row of a linear layer with its own input, which ranks may divide."""
        saved = (linear_input(in_features, (name,), divided=divided),)
        return self.linear(
            name, in_features, out_features, bias=bias, division=division, saved=saved
        )

    def norm(
        self,
        name: str,
        width: int,
        *,
        norm: Norm | None = None,
        rows: int = 1,
        scales: int | None = None,
        stream: SavedFormat = STREAM,
        divided: bool = False,
    ) -> Operator:
        """Return the row of a norm over ``rows`` vectors of ``width`` elements per token.

        Unfused RMSNorm keeps its input in fp32 and the normalised vector that the scale
        multiplies. A fused kernel keeps its input in the original format. Both keep 4 bytes of
        statistics per vector (8 for LayerNorm, whose PyTorch kernel is always fused).

        ``norm``: its kind, if it is not that of the model's norms. ``rows``: vectors per token
        (heads). ``scales``: elements of the learned scale; ``width`` by default. ``stream``: format
        of the input: that of the residual stream or of a matmul's output. ``divided``: whether
        tensor parallelism divides the vectors (heads).
        """
        norm = norm or self.norms
        elements, layer_norm = float(width * rows), norm.kind is NormKind.LAYER
        unfused = {"when": SavedWhen.UNFUSED, "divided": divided, "remade": True}
        saved = [kept("statistics", rows * (1 + layer_norm), SavedFormat.FP32, divided=divided)]
        if layer_norm:
            saved.append(kept("input", elements, stream, divided=divided))
        else:
            normalised = SavedFormat.FP32 if norm.fp32_scale else stream
            saved += [
                kept("input_fp32", elements, SavedFormat.FP32, **unfused),
                kept("normalised", elements, normalised, read_by=("norm",), **unfused),
                kept("input", elements, stream, when=SavedWhen.FUSED, divided=divided),
            ]
        return self.row(
            name,
            OperatorKind.NORMALIZATION,
            division=TENSOR if divided else REPLICATED,
            parameters=norm.parameters(width if scales is None else scales),
            moved_elements_per_token=FUSED_PASSES * elements,
            moved_elements_per_token_unfused=elements
            * (FUSED_PASSES if layer_norm else RMS_NORM_PASSES),
            launches=1 if layer_norm else RMS_NORM_LAUNCHES,
            saved=tuple(saved),
        )

    def elementwise(
        self,
        name: str,
        *,
        fused: float,
        unfused: float | None = None,
        kind: OperatorKind = OperatorKind.ELEMENTWISE,
        **columns: Any,
    ) -> Operator:
        """Return a memory-bound row: elements moved by a fused kernel and by single operations.

        ``unfused``: as many as ``fused`` by default.
        """
        return self.row(
            name,
            kind,
            moved_elements_per_token=fused,
            moved_elements_per_token_unfused=fused if unfused is None else unfused,
            **columns,
        )


def kept(name: str, elements: float, form: SavedFormat = COMPUTE, **facts: object) -> SavedTensor:
    """Return a tensor that the backward pass needs; ``facts`` are fields of `SavedTensor`."""
    return SavedTensor.model_validate(
        {"name": name, "elements_per_token": elements, "format": form, **facts}
    )


def linear_input(
    width: float, read_by: tuple[str, ...], *, divided: bool = False, remade: bool = True
) -> SavedTensor:
    """Return the input of linear layers, kept for the gradients of their weights.

    An undivided input of divided matrices stays whole under sequence parallelism.
    """
    return kept(
        "input", width, divided=divided, gathered=not divided, remade=remade, read_by=read_by
    )
