"""Building blocks of the operator table: linear layers, norms, and the tensors that they keep.

Moved elements are 16-bit elements: an fp32 intermediate counts double.
"""

from __future__ import annotations

from typing import Final

from advisor.architecture.mixers.shapes import Norm, NormKind
from advisor.architecture.table.operators import (
    Division,
    Operator,
    OperatorKind,
    Part,
    SavedFormat,
    SavedTensor,
    SavedWhen,
)

FUSED_PASSES: Final = 2.0
"""A fused elementwise kernel reads its input and writes its output."""

RMS_NORM_PASSES: Final = 18.0
"""Hugging Face RMSNorm, kernel by kernel, in 16-bit elements: upcast 1+2, square 2+2, mean 2,
scale 2+2, downcast 2+1, weight 1+1."""
RMS_NORM_LAUNCHES: Final = 8
"""Upcast, square, mean, add epsilon, rsqrt, scale, downcast, weight."""


def linear(
    name: str,
    *,
    layers: int,
    in_features: int,
    out_features: int,
    bias: bool = False,
    target: str | None = None,
    part: Part = Part.BLOCK,
    division: Division = Division.TENSOR,
    experts: int = 1,
    active_experts: int = 1,
    groups: tuple[int, int] = (1, 1),
    tied: bool = False,
    saved: tuple[SavedTensor, ...] = (),
) -> Operator:
    """Return the row of a linear layer, or of one matrix in every expert of a layer."""
    elements = in_features * out_features + (out_features if bias else 0)
    # The embedding counts a tied matrix; the bias is separate.
    held = out_features * bias if tied else elements
    return Operator(
        name=name,
        kind=OperatorKind.MATMUL,
        part=part,
        layers=layers,
        division=division,
        parameters=held * experts,
        active_parameters=elements * active_experts,
        in_features=in_features,
        out_features=out_features,
        experts=experts,
        active_experts=active_experts,
        expert_groups=groups[0],
        active_groups=groups[1],
        target=target,
        flops_per_token=2.0 * in_features * out_features * active_experts,
        saved=saved,
    )


def lone_linear(
    name: str,
    *,
    layers: int,
    in_features: int,
    out_features: int,
    bias: bool = False,
    divided: bool = False,
) -> Operator:
    """Return the row of a linear layer with its own input; ranks may divide the matrix."""
    reader = name.rpartition(".")[2]
    return linear(
        name,
        layers=layers,
        in_features=in_features,
        out_features=out_features,
        bias=bias,
        saved=(linear_input(in_features, (reader,), divided=divided),),
    )


def normalization(
    name: str,
    *,
    norm: Norm,
    layers: int,
    width: int,
    rows: int = 1,
    scales: int | None = None,
    part: Part = Part.BLOCK,
    stream: SavedFormat = SavedFormat.STREAM,
    divided: bool = False,
) -> Operator:
    """Return the row of a norm over ``rows`` vectors of ``width`` elements per token.

    Parameters
    ----------
    width, rows : int
        Elements of one vector, and vectors per token (heads).
    scales : int, optional
        Elements of the learned scale; ``width`` by default.
    stream : SavedFormat
        Format of the input: that of the residual stream or of a matmul's output.
    divided : bool
        Whether tensor parallelism divides the vectors (heads).

    Notes
    -----
    Unfused RMSNorm keeps its input in fp32 and the normalised vector that the scale multiplies. A
    fused kernel keeps its input in the original format. Both keep 4 bytes of statistics per vector
    (8 for LayerNorm, whose PyTorch kernel is always fused).
    """
    elements = float(width * rows)
    statistics = float(rows) if norm.kind is NormKind.RMS else 2.0 * rows

    def kept(
        label: str,
        form: SavedFormat,
        when: SavedWhen,
        *,
        count: float = elements,
        remade: bool = False,
        read_by: tuple[str, ...] | None = None,
    ) -> SavedTensor:
        return SavedTensor(
            name=label,
            elements_per_token=count,
            format=form,
            when=when,
            divided=divided,
            remade=remade,
            read_by=read_by,
        )

    saved = [kept("statistics", SavedFormat.FP32, SavedWhen.ALWAYS, count=statistics)]
    if norm.kind is NormKind.LAYER:
        passes, launches = FUSED_PASSES, 1
        saved.append(kept("input", stream, SavedWhen.ALWAYS))
    else:
        passes, launches = RMS_NORM_PASSES, RMS_NORM_LAUNCHES
        normalised = SavedFormat.FP32 if norm.fp32_scale else stream
        saved += [
            kept("input_fp32", SavedFormat.FP32, SavedWhen.UNFUSED, remade=True),
            kept("normalised", normalised, SavedWhen.UNFUSED, remade=True, read_by=("norm",)),
            kept("input", stream, SavedWhen.FUSED),
        ]
    parameters = norm.parameters(width if scales is None else scales)
    return Operator(
        name=name,
        kind=OperatorKind.NORMALIZATION,
        part=part,
        layers=layers,
        division=Division.TENSOR if divided else Division.REPLICATED,
        parameters=parameters,
        active_parameters=parameters,
        moved_elements_per_token=FUSED_PASSES * elements,
        moved_elements_per_token_unfused=passes * elements,
        launches=launches,
        saved=tuple(saved),
    )


def elementwise(
    name: str,
    *,
    layers: int,
    fused: float,
    unfused: float,
    launches: int,
    kind: OperatorKind = OperatorKind.ELEMENTWISE,
    part: Part = Part.BLOCK,
    division: Division = Division.REPLICATED,
    saved: tuple[SavedTensor, ...] = (),
) -> Operator:
    """Return a memory-bound row: elements moved by a fused kernel and by single operations."""
    return Operator(
        name=name,
        kind=kind,
        part=part,
        layers=layers,
        division=division,
        moved_elements_per_token=fused,
        moved_elements_per_token_unfused=unfused,
        launches=launches,
        saved=saved,
    )


def linear_input(
    width: int, read_by: tuple[str, ...], *, divided: bool = False, remade: bool = True
) -> SavedTensor:
    """Return the input of linear layers, kept for the gradients of their weights.

    An undivided input of divided matrices stays whole under sequence parallelism.
    """
    return SavedTensor(
        name="input",
        elements_per_token=float(width),
        format=SavedFormat.COMPUTE,
        divided=divided,
        gathered=not divided,
        remade=remade,
        read_by=read_by,
    )
