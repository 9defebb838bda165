"""Training memory, term by term. Every function takes floats or arrays and broadcasts."""

import numpy as np

from advisor.equations import Number


def stage_share(*, layers: Number, pipeline: Number, virtual_stages: Number) -> Number:
    r"""Share of the model's layers in the fullest pipeline stage. [fraction]

    ``layers``: layers of the model. ``pipeline`` and ``virtual_stages``: stages, and model chunks
    per stage.

    Notes
    -----
    .. math:: \frac{v \lceil L / (p v) \rceil}{L}

    Examples
    --------
    >>> float(stage_share(layers=61, pipeline=16, virtual_stages=1)) * 61
    4.0
    """
    share: Number = virtual_stages * np.ceil(layers / (pipeline * virtual_stages)) / layers
    return np.minimum(share, 1.0)


def end_stage_layers(*, layers: Number, pipeline: Number, virtual_stages: Number) -> Number:
    r"""Layers missing from the first and last pipeline stage if the stages are not equal.

    0, 1 or 2 layers in total. The first stage has one layer less if at least one is missing, the
    last stage too if at least two are missing.

    ``layers``, ``pipeline`` and ``virtual_stages``: as for :func:`stage_share`.

    Notes
    -----
    .. math:: \min\left(2,\; p v \lceil L / (p v) \rceil - L\right)

    The embedding and the head take the place of a layer.

    References
    ----------
    .. [1] Llama team, 2024, arXiv:2407.21783, section 3.3.2 (126 layers on 16 stages).

    Examples
    --------
    >>> float(end_stage_layers(layers=126, pipeline=16, virtual_stages=1))
    2.0
    >>> float(end_stage_layers(layers=96, pipeline=16, virtual_stages=1))
    0.0
    """
    chunks = pipeline * virtual_stages
    missing: Number = np.minimum(chunks * np.ceil(layers / chunks) - layers, 2.0)
    return np.where((pipeline > 1) & (layers >= pipeline), missing, 0.0)


def in_flight(
    *,
    stage: Number,
    pipeline: Number,
    virtual_stages: Number,
    micro_batches: Number,
    beside: Number = 0.0,
) -> Number:
    r"""Micro-batches whose activations a pipeline stage holds at once.

    In units of the activations of the whole stage. [micro-batches]

    Parameters
    ----------
    stage : Index of the stage, 0 first.
    pipeline, virtual_stages : Stages, and model chunks per stage (1: plain 1F1B).
    micro_batches : Micro-batches per optimizer step.
    beside : Forward passes that run beside a backward pass, :math:`b`: 1 if the schedule overlaps
        two micro-batches.

    Notes
    -----
    .. math::
        v = 1:\; \min(m, p - r + b) \qquad
        v > 1:\; \min\left(m, \frac{2 (p - r - 1) + (v - 1) p + 1 + b}{v}\right)

    References
    ----------
    .. [1] Narayanan et al., 2021, arXiv:2104.04473, section 2.2 (schedules).
    .. [2] Korthikanti et al., 2022, arXiv:2205.05198, section 4.2.3.
    .. [3] Megatron-Core, ``pipeline_parallel/schedules.py``: one more forward pass of warm-up
       with ``overlap_moe_expert_parallel_comm``.

    Examples
    --------
    >>> float(in_flight(stage=0, pipeline=8, virtual_stages=1, micro_batches=64))
    8.0
    >>> float(in_flight(stage=7, pipeline=8, virtual_stages=1, micro_batches=64))
    1.0
    >>> float(in_flight(stage=7, pipeline=8, virtual_stages=2, micro_batches=64, beside=1))
    5.0
    """
    plain = pipeline - stage
    interleaved = (2 * (pipeline - stage - 1) + (virtual_stages - 1) * pipeline + 1) / (
        virtual_stages
    )
    first = np.where(virtual_stages > 1, interleaved, plain)
    return np.minimum(first + beside / virtual_stages, micro_batches)


def saved_activation_bytes(
    *,
    tokens: Number,
    divided_bytes: Number,
    gathered_bytes: Number,
    replicated_bytes: Number,
    tensor: Number,
    sequence_parallel: Number,
) -> Number:
    r"""Memory of the tensors kept for the backward pass of one micro-batch. [bytes]

    Parameters
    ----------
    tokens : Tokens of the micro-batch on this rank (context parallelism divides them). [tokens]
    divided_bytes : Bytes per token that tensor parallelism always divides. [bytes]
    gathered_bytes : Bytes per token that neither tensor nor sequence parallelism divides. [bytes]
    replicated_bytes : Bytes per token that only sequence parallelism divides. [bytes]
    tensor : Tensor-parallel degree.
    sequence_parallel : 1 with sequence parallelism, 0 without.

    Notes
    -----
    .. math:: M = T \left(\frac{a_d}{t} + a_g + \frac{a_r}{t^{[sp]}}\right)

    References
    ----------
    .. [1] Korthikanti et al., 2022, arXiv:2205.05198, equations 1-4.

    Examples
    --------
    >>> found = saved_activation_bytes(
    ...     tokens=10,
    ...     divided_bytes=8.0,
    ...     gathered_bytes=1.0,
    ...     replicated_bytes=4.0,
    ...     tensor=4,
    ...     sequence_parallel=1,
    ... )
    >>> float(found)
    40.0
    """
    spread = np.where(sequence_parallel > 0, tensor, 1.0)
    return tokens * (divided_bytes / tensor + gathered_bytes + replicated_bytes / spread)


def nf4_bytes(*, parameters: Number) -> Number:
    r"""Memory of frozen weights in NF4 with double quantisation. [bytes]

    ``parameters``: weights in NF4. [elements]

    Notes
    -----
    .. math:: M = \frac{n}{2} + \frac{n}{64} + \frac{4 n}{16384}

    Half a byte per element, one byte per block of 64, four bytes per 256 blocks. Leaves out 68
    bytes per tensor.

    References
    ----------
    .. [1] Dettmers et al., QLoRA, 2023, arXiv:2305.14314, section 3.

    Examples
    --------
    >>> nf4_bytes(parameters=16384.0)
    8452.0
    """
    return parameters / 2 + parameters / 64 + 4 * parameters / 16384


def blockwise_state_bytes(*, elements: Number) -> Number:
    r"""Memory of one 8-bit optimizer state with a scale per block. [bytes]

    ``elements``: elements of the state. [elements]

    Notes
    -----
    .. math:: M = n + \frac{4 n}{256}

    One byte per element and four bytes per block of 256. Leaves out rounding up the last block.

    References
    ----------
    .. [1] Dettmers et al., 8-bit optimizers, 2022, arXiv:2110.02861, section 2.

    Examples
    --------
    >>> blockwise_state_bytes(elements=256.0)
    260.0
    """
    return elements + 4 * elements / 256


def adapter_parameters(*, in_features: Number, out_features: Number, rank: Number) -> Number:
    r"""Trainable parameters of one low-rank adapter. [elements]

    ``in_features`` and ``out_features``: shape of the adapted matrix. ``rank``: rank of the update.

    Notes
    -----
    .. math:: P = r\,(n_{in} + n_{out})

    References
    ----------
    .. [1] Hu et al., LoRA, 2021, arXiv:2106.09685, section 4.

    Examples
    --------
    >>> adapter_parameters(in_features=4096, out_features=1024, rank=8)
    40960
    """
    return rank * (in_features + out_features)
