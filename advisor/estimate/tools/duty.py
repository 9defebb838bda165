"""The kind of work, by the tools that do it."""

from advisor.architecture.pairs import writes_apart
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.architecture.table.operators import OperatorKind
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.software.tools import tool_choice
from advisor.nouns.workload import FineTuning, Serving, Workload


def duty_of(workload: Workload, architecture: ModelArchitecture) -> Duty:
    """Return the kind of work, by the tools that do it."""
    recurrent = any(op.kind is OperatorKind.RECURRENCE for op in architecture.operators)
    if not isinstance(workload, Serving):
        if architecture.denoises:
            return Duty.TRAIN_DIFFUSION
        if architecture.unit is not Unit.TOKEN or recurrent:
            return Duty.TRAIN_SAMPLES
        return Duty.TUNE if isinstance(workload, FineTuning) else Duty.PRETRAIN
    # A pair whose lengths are fitted writes token after token, but its prompt is read apart.
    if writes_apart(architecture) or architecture.unit is Unit.SAMPLE:
        speech = architecture.family in tool_choice().speech
        return Duty.TRANSCRIBE if speech else Duty.PAIR
    if architecture.generates:
        return Duty.RECUR if recurrent else Duty.GENERATE
    if architecture.unit is Unit.TOKEN:
        return Duty.ENCODE
    return Duty.DENOISE if architecture.denoises else Duty.CLASSIFY
