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
    step_tokens : The engine's limit of tokens in a step, :math:`B`. [tokens]
    bytes_per_element : Format of activations, :math:`b`. [bytes]
    widest_elements : Inputs and outputs of the widest operator of a block, :math:`w`.
        [elements/token]
    hidden_size : Width of the residual stream, :math:`h`. [elements/token]
    tensor_parallel : Ranks that divide the widest operator, :math:`t`.

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


def step_buffer_bytes(*, step_tokens: Number, vocab_size: Number, hidden_size: Number) -> Number:
    r"""Buffers of an engine that reserves a step in fp32: residual stream and logits. [bytes]

    Parameters
    ----------
    step_tokens : The engine's limit of tokens in a step, :math:`B`. [tokens]
    vocab_size : Entries of the vocabulary, :math:`V`.
    hidden_size : Width of the residual stream, :math:`h`. [elements/token]

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


def longest_in_piece(
    *, room_bytes: Number, start_tokens: Number, filled_bytes: Number, slope_bytes: Number
) -> Number:
    r"""Longest sequence whose cache fits, on a range where the cache grows linearly. [tokens]

    Infinite if the cache does not grow: every layer is windowed or recurrent.

    Parameters
    ----------
    room_bytes : Room for the cache of one sequence, :math:`R`. [bytes]
    start_tokens : Length at which the line begins, :math:`x_0`. [tokens]
    filled_bytes : Cache at that length, :math:`C_0`. [bytes]
    slope_bytes : Cache of one more token, :math:`c`. [bytes/token]

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
        return np.where(
            np.asarray(slope_bytes) > 0,
            start_tokens + (room_bytes - filled_bytes) / slope_bytes,
            np.inf,
        )
