"""The work of a case in one line."""

from __future__ import annotations

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.estimate.batch.forward import generates, inputs_per_answer, passes_per_answer
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.training_choices import FineTuningMethod
from advisor.nouns.workload import FineTuning, Pretraining, Serving, Training, Workload

METHOD_WORDS = {
    FineTuningMethod.FULL: " every parameter",
    FineTuningMethod.LORA: " with LoRA",
    FineTuningMethod.QLORA: " with QLoRA",
}
"""What follows *fine-tune* in the sentence about the work."""


def describe_workload(
    workload: Workload, run: TrainingRun | None, architecture: ModelArchitecture
) -> str:
    """Return the work in one line; training comes with its resolved run."""
    if not isinstance(workload, Serving):
        assert run is not None
        return _trained(workload, run)
    if not generates(architecture):
        return _batches(workload, architecture)
    lengths = f"of {workload.input_tokens:,} tokens in, {workload.output_tokens:,} out"
    if workload.requests_per_s is not None:
        how = workload.arrivals.label
        return f"serve {workload.requests_per_s:,.3g} requests/s that arrive {how}, {lengths}"
    requests = "request" if workload.concurrency == 1 else "concurrent requests"
    return f"serve {workload.concurrency:,} {requests} {lengths}"


def _batches(workload: Serving, architecture: ModelArchitecture) -> str:
    if architecture.unit is Unit.TOKEN:
        inputs = f"sequences of {workload.input_tokens:,} tokens"
    else:
        inputs = f"{architecture.unit.value}s"
    text = f"serve batches of {workload.concurrency:,} {inputs}"
    steps = passes_per_answer(architecture, workload)
    if steps > 1:
        text += f", {steps:,} denoising steps each"
    return text + (" with guidance" if inputs_per_answer(architecture, workload) > 1 else "")


def _trained(workload: Training, run: TrainingRun) -> str:
    what = "pretrain" if isinstance(workload, Pretraining) else "fine-tune"
    method = METHOD_WORDS[workload.method] if isinstance(workload, FineTuning) else ""
    if run.preference is not None:
        method += f" by {run.preference.value.upper()}"
    each = "sequences" if run.preference is None else "pairs"
    size = f"tokens in sequences of {run.sequence_length:,}, {run.global_batch:,} {each}"
    if run.unit is not Unit.TOKEN:
        size = f"{run.unit.value}s, {run.global_batch:,}"
    return f"{what}{method} on {run.tokens:,.0f} {size} per step"
