"""Memory of a serving engine besides weights: the peak of a full step, and the longest context.

Every function takes floats or arrays and broadcasts.

References
----------
.. [1] vLLM, ``vllm/v1/worker/gpu_worker.py``, ``determine_available_memory``: the engine profiles
   one full step.
"""

import numpy as np

from advisor.equations import Number

RESIDUAL_COPIES = 3.0
"""Residual stream, block input and block output live beside the widest operator's tensors."""


def forward_peak_bytes(
    *,
    step_tokens: Number,
    bytes_per_element: Number,
    widest_elements: Number,
    hidden_size: Number,
    tensor_parallel: Number,
) -> Number:
    r"""Peak memory of the activations of one full step inside the blocks. [bytes]

    Parameters
    ----------
    step_tokens : float or ndarray
        The engine's limit of tokens in a step, :math:`B`. [tokens]
    bytes_per_element : float or ndarray
        Format of activations, :math:`b`. [bytes]
    widest_elements : float or ndarray
        Inputs and outputs of the widest operator of a block, :math:`w`. [elements/token]
    hidden_size : float or ndarray
        Width of the residual stream, :math:`h`. [elements/token]
    tensor_parallel : float or ndarray
        Ranks that divide the widest operator, :math:`t`.

    Notes
    -----
    .. math:: M = b B \left(\frac{w}{t} + 3 h\right)

    Leaves out workspaces of kernels.

    Examples
    --------
    >>> forward_peak_bytes(
    ...     step_tokens=8192,
    ...     bytes_per_element=2,
    ...     widest_elements=28672.0,
    ...     hidden_size=4096,
    ...     tensor_parallel=1,
    ... ) / 2**20
    640.0
    """
    return (
        bytes_per_element
        * step_tokens
        * (widest_elements / tensor_parallel + RESIDUAL_COPIES * hidden_size)
    )


def adapter_bytes(*, rank: Number, in_features: Number, out_features: Number) -> Number:
    r"""Memory that an engine reserves for LoRA adapters on one matrix, in 16 bits. [bytes]

    Parameters
    ----------
    rank : float or ndarray
        Adapters held at once times the rank reserved for each, :math:`n r`.
    in_features, out_features : float or ndarray
        Of the matrix on one card, :math:`k` and :math:`m`. A layer divided over cards keeps one of
        its two low-rank matrices whole.

    Notes
    -----
    .. math:: M = 2\,n\,r\,(k + m)

    Leaves out adapters of the embedding and of the head, and copies in the host's memory.

    References
    ----------
    .. [1] vLLM 0.14, ``vllm/config/lora.py``: ``max_loras``, ``max_lora_rank``, and
       ``fully_sharded_loras``, by default off.

    Examples
    --------
    >>> adapter_bytes(rank=4 * 16, in_features=4096, out_features=4096)
    1048576.0
    """
    return 2.0 * rank * (in_features + out_features)


def step_buffer_bytes(*, step_tokens: Number, vocab_size: Number, hidden_size: Number) -> Number:
    r"""Buffers of an engine that reserves one step in fp32: its residual stream and its logits.

    Parameters
    ----------
    step_tokens : float or ndarray
        The engine's limit of tokens in a step, :math:`B`. [tokens]
    vocab_size : float or ndarray
        Entries of the vocabulary, :math:`V`.
    hidden_size : float or ndarray
        Width of the residual stream, :math:`h`. [elements/token]

    Returns
    -------
    float or ndarray
        [bytes]

    Notes
    -----
    .. math:: M = 4 B (V + h)

    llama.cpp logs 258.50 MiB for Llama 3 8B at 512 tokens, with flash attention or a short
    context. Builds of 2026 reserve the logits of fewer tokens. Leaves out the scores that
    attention writes without flash attention.

    Examples
    --------
    >>> step_buffer_bytes(step_tokens=512, vocab_size=128_256, hidden_size=4096) / 2**20
    258.5
    """
    return 4.0 * step_tokens * (vocab_size + hidden_size)


def sampler_bytes(*, sequences: Number, vocab_size: Number, bytes_per_logit: Number) -> Number:
    """Memory of the sampler's tensors: logits, their sorted copy and probabilities. [bytes]

    Parameters
    ----------
    sequences : float or ndarray
        Sequences that the engine reserves memory for, :math:`S`.
    vocab_size : float or ndarray
        Entries of the vocabulary, :math:`V`.
    bytes_per_logit : float or ndarray
        All copies of one logit together, :math:`b`. [bytes]

    Notes
    -----
    .. math:: M = b S V

    Examples
    --------
    >>> sampler_bytes(sequences=256, vocab_size=128_256, bytes_per_logit=16) / 2**20
    501.0
    """
    return bytes_per_logit * sequences * vocab_size


def longest_in_piece(
    *, room_bytes: Number, start_tokens: Number, filled_bytes: Number, slope_bytes: Number
) -> Number:
    r"""Longest sequence whose cache fits, on a range where the cache grows linearly. [tokens]

    Infinite if the cache does not grow: every layer is windowed or recurrent.

    Parameters
    ----------
    room_bytes : float or ndarray
        Room for the cache of one sequence, :math:`R`. [bytes]
    start_tokens : float or ndarray
        Length at which the line begins, :math:`x_0`. [tokens]
    filled_bytes : float or ndarray
        Cache at that length, :math:`C_0`. [bytes]
    slope_bytes : float or ndarray
        Cache of one more token, :math:`c`. [bytes/token]

    Notes
    -----
    .. math:: x = x_0 + \frac{R - C_0}{c}

    Examples
    --------
    >>> found = longest_in_piece(
    ...     room_bytes=1e6, start_tokens=0.0, filled_bytes=0.0, slope_bytes=100.0
    ... )
    >>> float(found)
    10000.0
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        length: Number = np.where(
            np.asarray(slope_bytes) > 0,
            start_tokens + (room_bytes - filled_bytes) / slope_bytes,
            np.inf,
        )
    return length


def padded_share(*, width: Number, multiple: Number) -> Number:
    r"""Return a width rounded up to a multiple, over the width; 1 for a multiple of 1.

    Parameters
    ----------
    width : float or ndarray
        Width of a matrix on one rank, :math:`w`. [elements]
    multiple : float or ndarray
        What kernels take at once, :math:`m`. [elements]

    Notes
    -----
    .. math:: \lceil w / m \rceil \, m / w

    Examples
    --------
    >>> float(padded_share(width=2880, multiple=256))
    1.0666666666666667
    """
    share: Number = np.where(multiple > 1, np.ceil(width / multiple) * multiple / width, 1.0)
    return share
