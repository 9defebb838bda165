"""Traffic between accelerator and host, and the update of weights on the host."""

import numpy as np

from advisor.equations import Number


def host_layers_s(
    *,
    held_bytes: Number,
    flops: Number,
    tokens: Number,
    layers: Number,
    host_bytes_per_s: Number,
    host_flops_per_s: Number,
    link_bytes_per_s: Number,
    streamed_tokens: Number,
    layer_overhead_s: Number,
    launches_s: Number,
) -> Number:
    r"""Time of a step for the layers, or their experts, whose weights the host's memory holds. [s]

    Parameters
    ----------
    held_bytes : Weights and cache in the host's memory that the step reads, :math:`M`. [bytes]
    flops : Operations of the step with these weights, :math:`F`. [FLOPs]
    tokens : Tokens in the step, :math:`B`.
    layers : Layers that the host works on, :math:`L`.
    host_bytes_per_s, host_flops_per_s : Rates that the host's memory and cores reach, :math:`W_h`
        and :math:`P_h`.
    link_bytes_per_s : Rate at which weights come to the card, :math:`W_l`. [bytes/s]
    streamed_tokens : Tokens from which weights come to the card, which then computes, :math:`B_s`.
    layer_overhead_s : Time that such a layer takes more, :math:`t_0`: card and host hand over to
        each other. [s]
    launches_s : Time that the divided graph takes more, launched in parts, :math:`t_1`. [s]

    Notes
    -----
    .. math:: t = t_1 + L t_0 + \begin{cases} \max(M / W_h, F / P_h) & B < B_s \\
        M / W_l & B \ge B_s \end{cases}

    In the second case, the time of the card's own arithmetic is left out: the caller adds it. Card
    and host take turns. Leaves out weights that the card keeps between steps.

    References
    ----------
    .. [1] llama.cpp, ``ggml/src/ggml-cuda/ggml-cuda.cu``: ``offload_op`` with a least batch of 32.

    Examples
    --------
    Half of a 40 GB model in memory that delivers 60 GB/s:

    >>> found = host_layers_s(
    ...     held_bytes=20e9,
    ...     flops=70e9,
    ...     tokens=1,
    ...     layers=40,
    ...     host_bytes_per_s=60e9,
    ...     host_flops_per_s=1e12,
    ...     link_bytes_per_s=25e9,
    ...     streamed_tokens=32,
    ...     layer_overhead_s=0.0,
    ...     launches_s=0.0,
    ... )
    >>> float(found)
    0.3333333333333333
    """
    computed = np.maximum(held_bytes / host_bytes_per_s, flops / host_flops_per_s)
    time = np.where(tokens < streamed_tokens, computed, held_bytes / link_bytes_per_s)
    return np.where(held_bytes > 0, launches_s + layers * layer_overhead_s + time, 0.0)


def host_update_s(
    *, parameters: Number, bytes_per_parameter: Number, host_bytes_per_s: Number
) -> Number:
    r"""Time to update weights on the host, limited by the host's memory bandwidth. [s]

    Parameters
    ----------
    parameters : Parameters that one machine updates. [elements]
    bytes_per_parameter : Bytes read and written: gradient once, master weight and states twice.
        [bytes]
    host_bytes_per_s : Bandwidth that the machine's memory sustains. [bytes/s]

    Notes
    -----
    .. math:: t = P\,b / B_h

    References
    ----------
    .. [1] Ren et al., ZeRO-Offload, 2021, arXiv:2101.06840, section 4.1 and 5.1 (CPU Adam).

    Examples
    --------
    A billion parameters with AdamW in fp32, gradient in 16 bits, at 100 GB/s:

    >>> host_update_s(parameters=1e9, bytes_per_parameter=26.0, host_bytes_per_s=100e9)
    0.26
    """
    return parameters * bytes_per_parameter / host_bytes_per_s
