"""Kernels of networks that take images: depthwise convolutions, and what runs beside the rows."""

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.operators import Operator, OperatorKind
from advisor.equations.roofline import matmul_time_s
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.hardware.kernel_times import is_depthwise, is_product, moving_s
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.software.stacks import SoftwareFacts


def depthwise_passes(
    op: Operator, run: TrainingRun, candidates: Candidates, software: SoftwareFacts, tokens: Floats
) -> tuple[Floats, Floats]:
    """Forward and backward time of one depthwise convolution in one layer. [s]

    Its kernels are far from both roofs. They run on the vector units, in channels-last format.
    """
    del software
    hardware = candidates.hardware
    area = "wide_" if op.in_features > kernel_facts().wide_area else ""

    def timed(compute: Floats) -> Floats:
        return np.asarray(
            matmul_time_s(
                flops=tokens * op.flops_per_token,
                moved_bytes=run.recipe.element_bytes * tokens * op.moved_elements_per_token,
                peak_flops_per_s=hardware.vector_flops_per_s,
                bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
                compute=compute,
                bandwidth=hardware.depthwise_bandwidth,
                overhead_s=hardware.depthwise_overhead_s,
            )
        )

    backward = op.input_gradient * timed(hardware.depthwise_input_gradient)
    if not (run.frozen or op.frozen):
        backward = backward + timed(getattr(hardware, f"depthwise_{area}weight_gradient"))
    return timed(hardware.depthwise_forward), backward


def layout_cost(op: Operator, run: TrainingRun, candidates: Candidates) -> Floats | float:
    """Time of a row in an eager step over that of its work, by where PyTorch keeps the channels.

    In the default format, batch norm moves one element at a time, which cores limit instead of
    memory where it is fast. In bf16 it is PyTorch's own. For a detector's images of many sizes,
    cuDNN looks for no fast algorithm: Detectron2 and torchvision leave ``cudnn.benchmark`` off, and
    channels where they are.
    """
    if not run.stack.eager:
        return 1.0
    hardware, turned = candidates.hardware, channels_first(run)
    if op.lacks_bf16:
        native = kernel_facts().native_batch_norm if run.recipe.compute == "bf16" else 1.0
        moved = hardware.memory_bandwidth_bytes_per_s * hardware.elementwise_bandwidth
        single = moved / run.recipe.element_bytes * hardware.single_access_s
        return native * (np.maximum(1.0, single) if turned else 1.0)
    if op.minimal and turned and run.architecture.detects:
        return np.where(_on_tensor_cores(candidates), 1.0, hardware.convolution_saving)
    return 1.0


def turned_round(op: Operator, run: TrainingRun, candidates: Candidates, tokens: Floats) -> Floats:
    """Time to turn what one convolution reads and writes in one pass, if channels come first. [s]

    Tensor cores read channels last.
    """
    if not (run.stack.eager and op.kind is OperatorKind.CONVOLUTION and channels_first(run)):
        return np.zeros(())
    moved = 2.0 * run.recipe.element_bytes * tokens * op.moved_elements_per_token
    return np.where(_on_tensor_cores(candidates), moving_s(moved, candidates.hardware), 0.0)


def channels_first(run: TrainingRun) -> bool:
    """Whether convolutions read PyTorch's default format.

    So do those of diffusion models (huggingface/diffusers, train_text_to_image_sdxl.py).
    """
    given = run.switches.channels_last
    return run.architecture.detects or run.architecture.denoises if given is None else not given


def _on_tensor_cores(candidates: Candidates) -> NDArray[np.bool_]:
    hardware = candidates.hardware
    return hardware.library_flops_per_s > hardware.vector_flops_per_s


def beside_image_rows(
    op: Operator, run: TrainingRun, candidates: Candidates, tokens: Floats
) -> tuple[Floats, float]:
    """Time beside the passes of a norm, and kernels that eager code starts besides three. [s]

    Counted on steps of ResNet-50, ConvNeXt-T, ViT-B and U-Nets (PyTorch 2.11): the memory of a
    weight's gradient is set to zero and its parts are summed; a batch norm starts six kernels,
    another norm four, a function or sum two. Frozen products have two passes.
    """
    none = np.zeros(())
    if op.kind is OperatorKind.NORMALIZATION:
        vectors = tokens * op.vectors_per_token
        flops = vectors * kernel_facts().norm_vector_flops
        return flops / candidates.hardware.vector_flops_per_s, 3.0 if op.lacks_bf16 else 1.0
    if is_product(op) or is_depthwise(op):
        return none, -1.0 if run.frozen else 2.0
    return none, -float(op.launches)
