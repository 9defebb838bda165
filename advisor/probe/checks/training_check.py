"""Compares predicted training steps with real ones on the measured machine."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import node_for
from advisor.errors import InputError, ProbeError
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.report import describe_time
from advisor.estimate.training.run import TrainingRun
from advisor.foundation.noun import Noun, shipped
from advisor.foundation.quantities import Range
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout, Recompute
from advisor.nouns.precision import RECIPES
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.stacks import Work, usual_stack
from advisor.nouns.training_choices import AttentionKernel, Optimizer
from advisor.probe.checks.step_model import StepModel, architecture_of
from advisor.probe.learned_constants import owned_hardware
from advisor.probe.measuring.run import plain_text
from advisor.probe.measuring.timing import timing_of
from advisor.probe.report import DeviceKind, ProbeReport, StepCheck, StepShape

WARM_UP_STEPS: Final = 2
FEWEST_STEPS: Final = 3
MOST_STEPS: Final = 20


class CheckModels(Noun):
    """Models to train, by the kind of device."""

    processors: tuple[StepShape, ...]
    accelerators: tuple[StepShape, ...]


check_models = shipped("check_models.yaml", CheckModels)
"""Returns the models that the check trains if none are given."""


def check_step(
    shape: StepShape,
    *,
    kind: DeviceKind,
    accelerator: Accelerator,
    calibration: Calibration,
    budget_s: float = 10.0,
    cancelled: Callable[[], bool] = lambda: False,
) -> StepCheck:
    """Train a small transformer for a few steps, on the first device of a kind.

    ``calibration`` holds the machine's own constants if it was probed. The measured steps take
    ``budget_s``; ``cancelled`` is called after each step and stops the check by True. The step uses
    AdamW, with bf16 autocast over fp32 weights on accelerators and fp32 on processors. Memory is
    what PyTorch allocates for tensors; None if it does not count them (processors). Raises
    ProbeError if PyTorch is missing, the device runs out of memory, or the check is cancelled
    before the third step.
    """
    try:
        import torch
        import torch.utils.checkpoint
    except ImportError:
        raise ProbeError(
            "the check of a training step needs PyTorch: pip install 'gpu-advisor[probe]'"
        ) from None
    cuda = kind in (DeviceKind.CUDA, DeviceKind.ROCM)
    place = {DeviceKind.CPU: "cpu", DeviceKind.MPS: "mps"}.get(kind, "cuda:0")
    precision = "fp32" if kind is DeviceKind.CPU else "bf16_amp"
    predicted_s, predicted_bytes = _predicted(shape, precision, accelerator, calibration)
    try:
        times, peak = _steps(torch, shape, place, precision, budget_s, cancelled)
    except torch.OutOfMemoryError:
        raise ProbeError(
            f"{shape.name}: a training step does not fit into the memory of this device"
        ) from None
    finally:
        if cuda:
            torch.cuda.empty_cache()
    return StepCheck(
        shape=shape,
        accelerator=accelerator.key,
        precision=precision,
        parameters=architecture_of(shape).total_parameters,
        measured=timing_of(times, calls=len(times)),
        predicted_s=predicted_s,
        measured_bytes=peak,
        predicted_bytes=predicted_bytes,
    )


def _predicted(
    shape: StepShape, precision: str, accelerator: Accelerator, calibration: Calibration
) -> tuple[Range, Range]:
    """Return the predicted time of the step and the predicted bytes of its tensors."""
    layout = ParallelLayout(
        micro_batch=shape.micro_batch,
        recompute=Recompute.FULL if shape.recompute else Recompute.NONE,
    )
    run = TrainingRun(
        architecture=architecture_of(shape),
        tokens=float(shape.micro_batch * shape.sequence_length),
        sequence_length=shape.sequence_length,
        global_batch=shape.micro_batch,
        recipe=RECIPES[precision],
        optimizer=Optimizer.ADAMW,
        attention=AttentionKernel.FLASH,
        software=usual_stack(Work.FINE_TUNING).name,
    )
    time = describe_time(run, layout, accelerator, node_for(accelerator), calibration)
    # PyTorch counts tensors only, without libraries and driver.
    facts = calibration.memory.changed(workspace_bytes=0.0, communication_bytes=0.0)
    memory = training_memory(run, LayoutArrays.of(layout), facts)
    interval = calibration.interval("training_tensors", measured=True)
    return time.step_s, interval.around(float(memory.allocated[0]))


def _steps(
    torch: Any,
    shape: StepShape,
    place: str,
    precision: str,
    budget_s: float,
    cancelled: Callable[[], bool],
) -> tuple[list[float], float | None]:
    """Run the steps; return their times [s] and the peak of allocated bytes."""
    device = torch.device(place)
    cuda = device.type == "cuda"
    before = torch.cuda.memory_allocated(device) if cuda else 0
    model = StepModel(shape, torch, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    size = (shape.micro_batch, shape.sequence_length + 1)
    torch.set_float32_matmul_precision("high")

    def step() -> float:
        start = perf_counter()
        words = torch.randint(shape.vocab_size, size, device=device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16_amp"):
            loss = model.loss(words[:, :-1], words[:, 1:])
        loss.backward()
        optimizer.step()
        if float(loss.detach()) <= 0:  # waits for the device
            raise ProbeError(f"{shape.name}: the loss of random tokens cannot be 0")
        if cuda:
            torch.cuda.synchronize(device)
        return perf_counter() - start

    for _ in range(WARM_UP_STEPS):
        step()
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    begin, times = perf_counter(), list[float]()
    while len(times) < FEWEST_STEPS or (
        len(times) < MOST_STEPS and perf_counter() - begin < budget_s
    ):
        if cancelled():
            if len(times) < FEWEST_STEPS:
                raise ProbeError(f"{shape.name}: stopped by the user")
            break
        times.append(step())
    peak = float(torch.cuda.max_memory_allocated(device) - before) if cuda else None
    return times, peak


def with_checks(
    report: ProbeReport,
    *,
    shapes: tuple[StepShape, ...] | None = None,
    budget_s: float = 10.0,
    cancelled: Callable[[], bool] = lambda: False,
) -> ProbeReport:
    """Return a new report of this machine with training steps measured on its first device.

    By default five small transformers train on accelerators, one on processors, each for
    ``budget_s``. The predictions of ``checks`` use the rates of the report. ``problems`` describes
    each failed check.
    """
    kind = report.devices[0].device.kind
    usual = check_models()
    shapes = shapes or (usual.processors if kind is DeviceKind.CPU else usual.accelerators)
    checks, problems = list(report.checks), list(report.problems)
    try:
        machine = owned_hardware(report, catalog=load_catalog(), calibration=load_calibration())[0]
    except InputError as error:
        return report.changed(problems=(*problems, plain_text(str(error))))
    measured = machine.measured
    if measured is None:
        raise ValueError("the machine of a report has its measurements")
    taught = load_calibration().changed(machines={machine.accelerator: measured.kernels})
    for shape in shapes:
        try:
            checks.append(
                check_step(
                    shape,
                    kind=kind,
                    accelerator=measured.accelerator,
                    calibration=taught,
                    budget_s=budget_s,
                    cancelled=cancelled,
                )
            )
        except ProbeError as error:
            problems.append(plain_text(str(error)))
    problems = list(dict.fromkeys(problems))
    return report.changed(checks=tuple(checks), problems=tuple(problems))
