"""Checks a report against real training steps on the measured machine."""

from __future__ import annotations

from collections.abc import Callable

from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.errors import InputError, ProbeError
from advisor.probe.checks.training_check import CPU_SHAPES, GPU_SHAPES, check_step
from advisor.probe.learned_constants import owned_hardware
from advisor.probe.measuring.run import plain_text
from advisor.probe.report import DeviceKind, ProbeReport, StepShape


def with_checks(
    report: ProbeReport,
    *,
    shapes: tuple[StepShape, ...] | None = None,
    budget_s: float = 10.0,
    cancelled: Callable[[], bool] = lambda: False,
) -> ProbeReport:
    """Return the report with training steps measured on its first device.

    Parameters
    ----------
    report : ProbeReport
        A new report of this machine.
    shapes : tuple of StepShape, optional
        Transformers to train. Default: five small ones on accelerators, one on processors.
    budget_s : float, optional
        Time for the measured steps of each transformer. [s]

    Returns
    -------
    ProbeReport
        The report with ``checks``. ``problems`` describes each failed check. The predictions use
        the rates of the report.
    """
    kind = report.devices[0].device.kind
    shapes = shapes or (CPU_SHAPES if kind is DeviceKind.CPU else GPU_SHAPES)
    checks, problems = list(report.checks), list(report.problems)
    try:
        machine = owned_hardware(report, catalog=load_catalog(), calibration=load_calibration())[0]
    except InputError as error:
        return report.model_copy(update={"problems": (*problems, plain_text(str(error)))})
    measured = machine.measured
    if measured is None:
        msg = "the machine of a report has its measurements"
        raise ValueError(msg)
    taught = load_calibration().model_copy(
        update={"machines": {machine.accelerator: measured.kernels}}
    )
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
    return report.model_copy(update={"checks": tuple(checks), "problems": tuple(problems)})
