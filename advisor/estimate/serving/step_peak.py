"""Memory of a server's fullest step, and how many sequences fit beside it."""

import numpy as np

from advisor.architecture.table.operators import OperatorKind, Part
from advisor.equations.serving.memory import forward_peak_bytes, step_buffer_bytes
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.engine_limits import sampled_sequences
from advisor.estimate.serving.stored_bytes import SIXTEEN_BIT_BYTES
from advisor.foundation.record import record
from advisor.nouns.software.engines import ServingFacts

MANY_SEQUENCES = 1e6
"""More requests than an engine takes."""


@record
class StepPeak:
    """The larger of two moments of a full step, which is started for some sequences.

    In the blocks: the widest operator's tensors and three copies of the residual stream, in 16
    bits. After the blocks: the sampler's tensors of one row of logits for each sequence and the
    hidden states. Both reproduce start-up logs of vLLM within 5 % (see the tests).
    """

    forward: Floats
    """In the blocks. [bytes]"""
    stream: Floats
    """Hidden states beside the sampler. [bytes]"""
    row: Floats
    """What the sampler takes for each sequence. [bytes]"""
    limit: Floats
    """Sequences that the sampler is ready for at most."""

    def terms(self, sequences: Floats) -> tuple[Floats, Floats]:
        """Return the activations and the logits of a server for some sequences. [bytes]"""
        rows = self.row * np.minimum(sequences, self.limit)
        sampling = self.stream + rows > self.forward
        return np.where(sampling, self.stream, self.forward), np.where(sampling, rows, 0.0)

    def sequences(self, room: Floats, each: Floats, most: float, factor: Floats | float) -> Floats:
        """Return the most sequences of ``each`` bytes that fit a room with their peak.

        ``most``: what an engine can hold. ``factor``: on all of the peak.
        """
        blocks = _fitting(room - factor * self.forward, each)
        sampled = _fitting(room - factor * self.stream, each + factor * self.row)
        fitting = np.minimum(blocks, sampled)
        # Beyond the limit, the sampler takes no more.
        beyond = _fitting(room - factor * sum(self.terms(self.limit)), each)
        return np.minimum(np.where(fitting < self.limit, fitting, beyond), most)


def step_peak(
    served: ServedModel,
    load: ServingLoad,
    layout: LayoutArrays,
    memory_bytes: Floats,
    engine: ServingFacts,
) -> StepPeak:
    """Return the peak of a step of the engine's limit of tokens."""
    hidden, vocabulary = served.model.hidden_size, float(served.model.vocab_size)
    tokens = load.step_limit(served, engine, memory_bytes)
    if engine.step_buffers:
        stream = step_buffer_bytes(step_tokens=tokens, hidden_size=hidden, vocab_size=0.0)
        all_of = step_buffer_bytes(step_tokens=tokens, hidden_size=hidden, vocab_size=vocabulary)
        zero = np.zeros_like(tokens)
        return StepPeak(zero, np.asarray(stream), np.asarray(all_of - stream), zero + 1.0)
    forward = forward_peak_bytes(
        step_tokens=tokens,
        bytes_per_element=SIXTEEN_BIT_BYTES,
        widest_elements=_widest(served),
        hidden_size=hidden,
        tensor_parallel=layout.tensor,
    )
    return StepPeak(
        forward=np.asarray(forward),
        stream=SIXTEEN_BIT_BYTES * tokens * hidden,
        row=np.asarray(engine.sampling_bytes_per_logit * vocabulary),
        limit=sampled_sequences(engine, memory_bytes),
    )


def _fitting(room: Floats, each: Floats) -> Floats:
    fitting = np.where(each > 0, room / np.maximum(each, 1.0), MANY_SEQUENCES)
    return np.floor(np.maximum(fitting, 0.0))


def _widest(served: ServedModel) -> float:
    """Return the elements per token of the widest operator of a block, inputs and outputs."""
    blocks = [row for row in served.model.operators if row.part is Part.BLOCK]
    fused = [
        row.moved_elements_served or row.moved_elements_per_token
        for row in blocks
        if row.kind is OperatorKind.ACTIVATION
    ]
    products = [
        float((matrix.in_features + matrix.out_features) * matrix.active_experts)
        for matrix in served.matrices
        if matrix.part is Part.BLOCK
    ]
    return max(fused + products, default=0.0)
