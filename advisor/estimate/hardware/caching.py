"""The part of a small network that stays in a processor's cache between steps."""

from dataclasses import replace

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.training.optimizer_states import optimizer_bytes_per_parameter
from advisor.estimate.training.run import TrainingRun
from advisor.estimate.training.sample_memory import moved_elements
from advisor.estimate.training.sharded_gathers import gradient_bytes_per_parameter
from advisor.foundation.record import by_identity
from advisor.nouns.precision import FORMAT_BYTES


def step_in_cache(run: TrainingRun, candidates: Candidates, tokens: Floats) -> Candidates:
    """Return configurations with the effect of processors' caches on a training step.

    As in :func:`in_cache`, with unsharded parameters, gradients and states.

    ``tokens``: of one micro-batch. [tokens or samples]
    """
    each = (
        FORMAT_BYTES[run.recipe.master or run.recipe.working]
        + gradient_bytes_per_parameter(run)
        + optimizer_bytes_per_parameter(run)
    )
    return in_cache(run, candidates, tokens, each)


@by_identity(64)
def _held_elements(architecture: ModelArchitecture) -> tuple[int, float]:
    """Parameters, and what the rows read and write for one token or sample. [elements]"""
    moved = sum(op.layers * moved_elements(op) for op in architecture.operators)
    return architecture.total_parameters, moved


def in_cache(
    run: TrainingRun, candidates: Candidates, tokens: Floats, parameter_bytes: float
) -> Candidates:
    """Return configurations with the bandwidth of a processor's cache.

    Faster if held data and moved data fit into the cache; unchanged if they exceed twice its size.

    ``tokens``: tokens or samples that pass together. [tokens or samples] ``parameter_bytes``: held
    for each parameter. [bytes]
    """
    hardware = candidates.hardware
    if not hardware.cache_bytes.any():
        return candidates
    parameters, moved = _held_elements(run.architecture)
    held = parameter_bytes * parameters + FORMAT_BYTES[run.recipe.stream] * moved * tokens
    cache = np.maximum(hardware.cache_bytes, 1.0)
    # The linear fall between is assumed: data that are used in turn replace each other.
    stays = np.clip(2.0 - held / cache, 0.0, 1.0)
    slower = 1.0 - stays + stays / kernel_facts().cache_speed
    faster = replace(
        hardware,
        memory_bandwidth_bytes_per_s=hardware.memory_bandwidth_bytes_per_s / slower,
        fresh_memory=stays + (1.0 - stays) * hardware.fresh_memory,
    )
    return replace(candidates, hardware=faster)
