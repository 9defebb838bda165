"""Forward passes of batches, for networks that do not generate step by step.

Images of a classifier or of a diffusion model, sequences of a text encoder. The same code serves
one configuration and a million.
"""

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.table.operators import OperatorKind
from advisor.equations.roofline import matmul_time_s
from advisor.estimate.candidates import Candidates, Floats, Shares
from advisor.estimate.hardware.attention_times import attention_passes, scan_passes
from advisor.estimate.hardware.caching import in_cache
from advisor.estimate.hardware.image_kernels import depthwise_passes
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.hardware.kernel_times import (
    copies_time,
    elementwise_forward,
    is_depthwise,
    is_product,
    launch_time,
    matmul_forward,
    recurrence_passes,
)
from advisor.estimate.serving.stored_bytes import network_bytes
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sample_memory import moved_elements
from advisor.foundation.record import record
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import FORMAT_BYTES, RECIPES, WeightFormat
from advisor.nouns.software.efficiency import Calibration, Interval
from advisor.nouns.software.engines import ImageKernels
from advisor.nouns.software.stacks import SoftwareFacts, Work, usual_stack
from advisor.nouns.training_choices import AttentionKernel, Optimizer
from advisor.nouns.workload import Serving

BRANCHES = 1.5
"""Factor on a row's input and output: the input also waits for the residual sum, half as much."""


def passes_per_answer(architecture: ModelArchitecture, workload: Serving) -> int:
    """Forward passes of a batch for one answer."""
    if workload.denoising_steps is not None:
        return workload.denoising_steps
    if not architecture.denoises:
        return 1
    return architecture.usual_steps or kernel_facts().denoising_steps


def inputs_per_answer(architecture: ModelArchitecture, workload: Serving) -> int:
    """Inputs that pass together for one answer: two with classifier-free guidance."""
    guided = architecture.guided if workload.guidance is None else workload.guidance
    return 2 if guided else 1


@record
class BatchShares(Shares):
    """Exclusive shares of the time of one batch, one element per configuration. [s]"""

    matmul: Floats
    attention: Floats
    elementwise: Floats
    launch: Floats
    """Time that the accelerator waits for the host: launches and small copies."""
    pipeline: Floats
    """Text encoder, decoder of latents and host around the passes of a denoising network."""


@record
class BatchTimes:
    """Batches on all data-parallel ranks together, one element per configuration."""

    shares: BatchShares
    """Time of one batch with all its passes. [s]"""
    latency_s: Floats
    per_s: Floats
    """Images or sequences of the whole deployment. [1/s]"""
    weights_bytes: Floats
    activations_bytes: Floats
    workspace_bytes: Floats
    low_bytes: Floats
    expected_bytes: Floats
    high_bytes: Floats
    """Low and high end of the total, including the driver context. [bytes]"""
    usable_bytes: Floats
    largest_batch: Floats
    """Of each rank, by the high end of the memory."""

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether the batch fits."""
        return np.asarray(self.high_bytes <= self.usable_bytes)


def batch_times(
    architecture: ModelArchitecture,
    workload: Serving,
    weight_format: WeightFormat,
    candidates: Candidates,
    calibration: Calibration,
    *,
    stack: str | None = None,
) -> BatchTimes:
    """Return latency, rate and memory of batches of ``concurrency`` inputs.

    Guidance doubles the batch, because conditional and unconditional inputs pass together;
    denoising steps repeat the pass. The host of an eager pipeline is slower than that of a plain
    loop, and the decoder of latents reads and writes at the memory's rate. Leaves out resizing of
    images and transport. The slowdown of training does not apply: a
    forward pass has no slow ranks and no gaps for an optimizer.

    ``architecture``: a network that does not generate (``architecture.generates``). ``workload``:
    ``concurrency`` inputs at the same time over the whole deployment. ``candidates``: ``data``
    ranks share the batch; hardware rates are for the format of the weights. ``stack``: name of the
    software; None takes plain eager inference, the most common. Inference engines such as TensorRT
    are faster.
    """
    software = calibration.software[stack or usual_stack(Work.BATCHES).name]
    pipeline = calibration.pipeline
    if architecture.denoises and software.eager:
        software = software.changed(launch_s=pipeline.launch_s)
    layout = candidates.layout
    inputs = inputs_per_answer(architecture, workload)
    run = _run(architecture, workload, weight_format, software.name)
    local = np.ceil(workload.concurrency / layout.data) * inputs
    kernels = image_kernels(architecture, weight_format, calibration)
    if kernels is None:
        shares = _forward(run, candidates, software, local * run.sequence_length)
    else:
        shares = _compiled(architecture, kernels, candidates, weight_format, local)
    shares = BatchShares(
        **{
            item.name: passes_per_answer(architecture, workload) * getattr(shares, item.name)
            for item in fields(BatchShares)
        }
    )
    side = architecture.sample.image_size if architecture.sample else None
    if architecture.denoises and side is not None:
        decoded = np.ceil(workload.concurrency / layout.data) * side**2
        bandwidth = candidates.hardware.memory_bandwidth_bytes_per_s
        rest = pipeline.image_s + decoded * pipeline.decoded_bytes_per_pixel / bandwidth
        shares = replace(shares, pipeline=shares.pipeline + rest)
    latency = shares.total
    memory = calibration.memory
    zero = np.zeros_like(latency)
    weights = zero + network_bytes(architecture, weight_format)
    one = activation_bytes(run) * run.sequence_length
    activations = zero + local * one
    workspace = zero + memory.workspace_bytes
    interval = calibration.interval("batch_memory", measured=True)
    usable = zero + candidates.hardware.memory_bytes
    context = memory.context_bytes
    fixed = weights + workspace * interval.high + context["high"]
    per_input = one * interval.high * inputs
    return BatchTimes(
        shares=shares,
        latency_s=latency,
        per_s=workload.concurrency / latency,
        weights_bytes=weights,
        activations_bytes=activations,
        workspace_bytes=workspace,
        low_bytes=weights + interval.low * (activations + workspace) + context["low"],
        expected_bytes=weights + activations + workspace + context["expected"],
        high_bytes=fixed + interval.high * activations,
        usable_bytes=usable,
        largest_batch=np.maximum(0.0, np.floor((usable - fixed) / per_input)),
    )


def _run(
    architecture: ModelArchitecture, workload: Serving, weight_format: WeightFormat, software: str
) -> TrainingRun:
    """Return the forward pass as a training run, for the folds of the kernels."""
    name = "fp32" if weight_format.compute == "fp32" else "bf16_pure"
    token = architecture.unit is Unit.TOKEN
    return TrainingRun(
        architecture=architecture,
        tokens=float(workload.concurrency),
        sequence_length=workload.input_tokens if token else 1,
        global_batch=workload.concurrency,
        recipe=RECIPES[name],
        optimizer=Optimizer.SGD,
        attention=AttentionKernel.FLASH,
        software=software,
    )


def image_kernels(
    architecture: ModelArchitecture, weight_format: WeightFormat, calibration: Calibration
) -> ImageKernels | None:
    """Return the compiled kernels that run a network; None where it runs as eager code.

    They were fitted on networks that see an image once, in 16 bits and less.
    """
    once = architecture.unit is Unit.IMAGE and not architecture.denoises
    wide = weight_format.compute == "fp32"
    return calibration.serving.image_kernels if once and not wide else None


def _compiled(
    architecture: ModelArchitecture,
    kernels: ImageKernels,
    candidates: Candidates,
    weight_format: WeightFormat,
    images: Floats,
) -> BatchShares:
    """Time of one pass through kernels that hold norms, functions and sums."""
    hardware, each = candidates.hardware, weight_format.bytes_per_parameter
    zero = np.zeros(np.broadcast_shapes(images.shape, hardware.memory_bytes.shape))
    matmul, attention, launch = zero.copy(), zero.copy(), zero.copy()
    for op in architecture.operators:
        if not (is_product(op) or op.kind is OperatorKind.ATTENTION):
            continue
        work = matmul if is_product(op) else attention
        work += op.layers * np.asarray(
            matmul_time_s(
                flops=images * op.flops_per_token,
                moved_bytes=each * (images * moved_elements(op) + op.parameters),
                peak_flops_per_s=hardware.peak_flops_per_s,
                bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s,
                compute=kernels.compute,
                bandwidth=kernels.bandwidth,
            )
        )
        launch += op.layers * kernels.kernel_s
    launch += hardware.shared_memory * kernels.shared_memory_s
    launch += copies_time(kernel_facts().answer_copies, hardware)
    return BatchShares(
        matmul=matmul, attention=attention, elementwise=zero, launch=launch, pipeline=zero
    )


def in_measured_runs(
    architecture: ModelArchitecture, kernels: ImageKernels, accelerator: Accelerator, images: int
) -> bool:
    """Whether the runs that fitted compiled kernels cover a network, a card and a batch."""
    products = [op for op in architecture.operators if is_product(op)]
    whole = sum(op.layers * op.flops_per_token for op in products)
    convolved = sum(
        op.layers * op.flops_per_token for op in products if op.kind is OperatorKind.CONVOLUTION
    )
    return (
        accelerator.architecture in kernels.generations
        and images <= kernels.largest_batch
        and convolved >= kernels.convolutions * whole
    )


def batch_interval(
    architecture: ModelArchitecture,
    workload: Serving,
    weight_format: WeightFormat,
    accelerator: Accelerator,
    calibration: Calibration,
    *,
    measured: bool,
) -> Interval:
    """Return the interval of the time of a batch."""
    kernels = image_kernels(architecture, weight_format, calibration)
    quantity = "serving_denoising" if architecture.denoises else "serving_batch"
    if kernels is None:
        return calibration.interval(quantity, measured=measured)
    if in_measured_runs(architecture, kernels, accelerator, workload.concurrency):
        return calibration.intervals["serving_batch_tensorrt"]
    return calibration.interval(quantity, measured=False)


def _forward(
    run: TrainingRun, candidates: Candidates, software: SoftwareFacts, tokens: Floats
) -> BatchShares:
    """Time of one pass through all rows."""
    weights = FORMAT_BYTES[run.recipe.working]
    candidates = in_cache(run, candidates, tokens, weights)
    zero = np.zeros(np.broadcast_shapes(tokens.shape, candidates.hardware.memory_bytes.shape))
    matmul, attention, elementwise, launches = (zero.copy() for _ in range(4))
    for op in run.architecture.operators:
        count = float(op.launches)
        if is_product(op):
            matmul += op.layers * matmul_forward(op, run, candidates, software, tokens)
        elif is_depthwise(op) and software.eager:
            matmul += op.layers * depthwise_passes(op, run, candidates, software, tokens)[0]
        elif op.kind is OperatorKind.RECURRENCE:
            forward, _ = recurrence_passes(op, run, candidates, software, tokens)
            matmul += op.layers * forward
            count *= run.sequence_length
        elif op.kind in {OperatorKind.ATTENTION, OperatorKind.SCAN}:
            passes = scan_passes if op.kind is OperatorKind.SCAN else attention_passes
            attention += op.layers * passes(op, run, candidates, software, tokens)[0]
        else:
            elementwise += op.layers * elementwise_forward(op, run, candidates, software, tokens)
        launches += op.layers * count
    kernels = matmul + attention + elementwise
    launch = launch_time(launches, kernels, candidates.hardware, software)
    launch = launch + copies_time(kernel_facts().answer_copies, candidates.hardware)
    return BatchShares(
        matmul=matmul, attention=attention, elementwise=elementwise, launch=launch, pipeline=zero
    )


def activation_bytes(run: TrainingRun) -> float:
    """Input, output and residual branch of the widest row. [bytes/token or sample]"""
    widest = max(moved_elements(op) for op in run.architecture.operators)
    return FORMAT_BYTES[run.recipe.stream] * BRANCHES * widest
