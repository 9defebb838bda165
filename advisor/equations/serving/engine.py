"""Serving: cached context, experts touched, and how prefill and generation share an engine.

Every function takes floats or arrays and broadcasts. A *replica* is one engine; it answers its
requests with continuous batching, in steps that carry the running sequences and, when a new
request waits, a chunk of its prompt.
"""

from collections.abc import Sequence

import numpy as np

from advisor.equations import Number


def cache_share(*, heads: Number, tensor_parallel: Number) -> Number:
    r"""Share of a layer's cache that one tensor-parallel rank holds. [fraction]

    Between ``1 / heads`` and 1.

    Parameters
    ----------
    heads : Heads of the cache. A latent cache has 1, because every rank holds all of it.
    tensor_parallel : Tensor-parallel degree.

    Notes
    -----
    .. math:: s = \lceil n_{kv} / t \rceil / n_{kv}

    A head is never split: with more ranks than heads, ranks hold copies.

    References
    ----------
    .. [1] Pope et al., Efficiently Scaling Transformer Inference, 2022, arXiv:2211.05102,
       section 3.3.

    Examples
    --------
    >>> float(cache_share(heads=8, tensor_parallel=16))
    0.125
    """
    return np.ceil(heads / tensor_parallel) / heads


def mean_attended_tokens(*, first: Number, last: Number, window: Number) -> Number:
    r"""Mean number of keys attended to while the context grows from ``first`` to ``last``. [tokens]

    Parameters
    ----------
    first, last : Context at the start and at the end, ``first < last``. [tokens]
    window : Largest number of keys attended to; ``inf`` for full attention. [tokens]

    Notes
    -----
    .. math:: \bar c = \frac{G(b) - G(a)}{b - a}, \qquad
        G(x) = \int_0^x \min(u, w)\,du = m x - m^2 / 2, \quad m = \min(x, w)

    From 0 to the prompt's length this is the causal half of prefill; from there to the end it is
    the mean context of generation. Leaves out the half token of the exact discrete sum.

    Examples
    --------
    >>> float(mean_attended_tokens(first=0, last=4096, window=float("inf")))
    2048.0
    >>> float(mean_attended_tokens(first=4096, last=8192, window=1024))
    1024.0
    """

    def area(x: Number) -> Number:
        m = np.minimum(x, window)
        return m * x - m * m / 2

    return (area(last) - area(first)) / (last - first)


def experts_touched(*, experts: Number, active_experts: Number, tokens: Number) -> Number:
    r"""Expected number of distinct experts that a batch of tokens visits.

    At most ``experts``; equal to ``active_experts`` for one token.

    Parameters
    ----------
    experts : Routed experts in the layer.
    active_experts : Experts that one token visits.
    tokens : Tokens in the step.

    Notes
    -----
    .. math:: E_m = E\left(1 - (1 - k/E)^m\right)

    Assumes uniform and independent routing. Leaves out imbalance: real routers visit fewer experts.

    References
    ----------
    .. [1] Uniform occupancy; the effect is discussed in DeepSeek-V3, 2024, arXiv:2412.19437,
       section 3.4.2 (decoding reads few tokens per expert).

    Examples
    --------
    >>> float(experts_touched(experts=8, active_experts=2, tokens=1))
    2.0
    """
    return experts * (1 - (1 - active_experts / experts) ** tokens)


def rate_in_turn(amounts: Sequence[float], rates: Sequence[float]) -> float:
    r"""Rate of the whole of work whose parts pass through places one after the other. [units/s]

    Parameters
    ----------
    amounts : Part of the work at each place. [bytes]
    rates : Rate of each place, e.g. in bytes per second. [units/s]

    Notes
    -----
    .. math:: r = \sum_i a_i \Big/ \sum_i \frac{a_i}{r_i}

    The times of the parts add up, because one place works at a time: llama.cpp's layer split of one
    sequence. Leaves out that chunks of a long prompt overlap, and the transfer of the hidden state
    between cards (a few kilobytes for each token).

    Examples
    --------
    >>> rate_in_turn([1.0, 1.0], [936.0, 360.0])
    520.0
    """
    turns = sum(amount / rate for amount, rate in zip(amounts, rates, strict=True))
    return sum(amounts) / turns


def request_rate_per_s(
    *,
    concurrency: Number,
    decode_step_s: Number,
    prefill_extra_s: Number,
    first_token_s: Number,
    output_tokens: Number,
) -> Number:
    r"""Rate that one replica would complete if no request waited for another. [requests/s]

    Parameters
    ----------
    concurrency : Requests in flight in the replica, :math:`N`.
    decode_step_s : Step that carries only the running sequences, :math:`d`. [s]
    prefill_extra_s : Time that one prompt adds to the steps that carry it, :math:`E`. [s]
    first_token_s : Time of the steps that carry one prompt, :math:`F`. [s]
    output_tokens : Generated tokens per request, :math:`O`. [tokens]

    Notes
    -----
    Prompts take the share :math:`u = X E` of each second, so a generated token takes
    :math:`\tau = d / (1-u)`. Little's law :math:`N = X (F + (O-1)\tau)` gives

    .. math:: F u^2 - (F + (O-1)d + N E)\,u + N E = 0,

    whose smaller root is the rate times :math:`E`. If the prompt is free (:math:`E = 0`), the rate
    is :math:`N / (F + (O-1)d)`.

    References
    ----------
    .. [1] Little, 1961, doi:10.1287/opre.9.3.383.

    Examples
    --------
    >>> found = request_rate_per_s(
    ...     concurrency=1,
    ...     decode_step_s=0.01,
    ...     prefill_extra_s=0.1,
    ...     first_token_s=0.11,
    ...     output_tokens=1,
    ... )
    >>> round(float(found), 6)
    9.090909
    """
    offered = concurrency * prefill_extra_s
    linear = first_token_s + (output_tokens - 1) * decode_step_s + offered
    root = np.sqrt(np.maximum(linear * linear - 4 * first_token_s * offered, 0.0))
    # The textbook root divided by E, so that E = 0 needs no special case.
    return 2 * concurrency / (linear + root)


def time_per_output_token_s(
    *, decode_step_s: Number, prefill_extra_s: Number, request_rate_per_s: Number, steps: Number
) -> Number:
    r"""Time per generated token after the first, including the prompts of other requests. [s]

    Parameters
    ----------
    decode_step_s : Step that carries only the running sequences, :math:`d`. [s]
    prefill_extra_s : Time that one prompt adds to the steps that carry it, :math:`E`. [s]
    request_rate_per_s : Rate of *other* requests, :math:`X`. [requests/s]
    steps : Steps that a prompt occupies at the engine's token limit, :math:`n`.

    Notes
    -----
    .. math:: \tau = \min\left(\frac{d}{1 - X E},\; d + \frac{E}{n}\right)

    The second term is a step that always carries a full chunk of prompt.

    References
    ----------
    .. [1] Agrawal et al., Sarathi-Serve, 2024, arXiv:2403.02310, section 4.

    Examples
    --------
    >>> found = time_per_output_token_s(
    ...     decode_step_s=0.01, prefill_extra_s=0.1, request_rate_per_s=2.0, steps=1.0
    ... )
    >>> round(float(found), 6)
    0.0125
    """
    # At X E = 1, prompts would take all the time. From there on, the full chunk bounds the step.
    idle = np.maximum(1 - request_rate_per_s * prefill_extra_s, 1e-9)
    return np.minimum(decode_step_s / idle, decode_step_s + prefill_extra_s / steps)


def prefill_wait_s(
    *, concurrency: Number, service_s: Number, generation_s: Number, variation: Number = 1.0
) -> Number:
    r"""Time that a request waits for the prompts before it. [s]

    0 for a single request.

    Parameters
    ----------
    concurrency : Requests in flight in the replica, :math:`N`.
    service_s : Time for which one prompt occupies the engine's prompt slot, :math:`s`. [s]
    generation_s : Time that a request spends generating, :math:`Z`. [s]
    variation : Mean of the squared coefficients of variation of arrivals and prompts,
        :math:`\kappa`: 1 if both vary as exponential times do, 0 if both are regular.

    Notes
    -----
    A closed system of :math:`N` requests that generate (delay :math:`Z`) and queue for one
    server (:math:`s`). By the arrival theorem in Schweitzer's form the time at the server is
    :math:`R = s\,(1 + (N-1) R / (R + Z))`. With :math:`W = R - s` and Kingman's factor for what
    varies less,

    .. math:: W^2 + (Z + 2s - sN)\,W = \kappa\,s^2 (N-1)

    Leaves out the burst of a load generator that starts all requests at once.

    References
    ----------
    .. [1] Reiser and Lavenberg, Mean-Value Analysis of Closed Multichain Queuing Networks,
       1980, doi:10.1145/322186.322195.
    .. [2] Kingman, The single server queue in heavy traffic, 1961, doi:10.1017/S0305004100036094.

    Examples
    --------
    >>> float(prefill_wait_s(concurrency=1, service_s=0.1, generation_s=2.0))
    0.0
    >>> float(prefill_wait_s(concurrency=10, service_s=0.1, generation_s=0.0))
    0.9
    """
    spare = generation_s + 2 * service_s - service_s * concurrency
    product = variation * service_s * service_s * (concurrency - 1)
    root = np.sqrt(spare * spare + 4 * product)
    # Each form of the root is exact on one side of zero and loses digits on the other.
    light = spare > 0
    inverse = 2 * product / np.where(light, root + spare, 1.0)
    return np.maximum(np.where(light, inverse, (root - spare) / 2), 0.0)
