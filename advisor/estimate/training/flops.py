"""Operations of a trained token: those of the model, and those the hardware computes."""

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.equations.flops import adapter_flops_per_token, training_flops_per_token
from advisor.estimate.candidates import Floats
from advisor.estimate.fold import as_computed, fold_flops, made_again, remade_by_selection
from advisor.estimate.training.run import TrainingRun


def model_flops_per_token(architecture: ModelArchitecture, run: TrainingRun) -> float:
    """Forward and backward FLOPs of one trained token, without recomputation. [FLOPs]

    The forward pass of a preference's reference model counts too.
    """
    fold = fold_flops(architecture, run.sequence_length, run)
    reference = run.reference_passes * (fold.forward - fold.adapters)
    # Images and frozen rows need no gradients.
    spared = sum(
        op.layers * op.flops_per_token * (1 + (op.frozen and not run.frozen))
        for op in architecture.operators
        if not op.input_gradient
    )
    if run.frozen:
        return float(
            adapter_flops_per_token(
                forward=fold.forward,
                attention=fold.block_attention,
                adapters=fold.adapters,
                spared=spared,
                reference=reference,
            )
        )
    return float(training_flops_per_token(forward=fold.forward, spared=spared, reference=reference))


def hardware_flops_per_token(
    architecture: ModelArchitecture, run: TrainingRun, recompute: Floats
) -> Floats:
    """FLOPs of the computed model and of recomputation, per trained token. [FLOPs]"""
    architecture = as_computed(architecture, run)
    every = tuple(op for op in architecture.operators if made_again(op, architecture))
    some, again = (
        fold_flops(
            architecture.model_copy(update={"operators": remade}), run.sequence_length, run
        ).forward
        for remade in (remade_by_selection(architecture, run), every)
    )
    once_more = np.where(recompute >= 2, again, np.where(recompute >= 1, some, 0.0))
    return model_flops_per_token(architecture, run) + once_more
