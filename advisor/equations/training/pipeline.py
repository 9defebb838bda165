"""Pipeline schedules: idle time while the pipeline fills and drains, and hidden traffic."""

import numpy as np

from advisor.equations import Number


def bubble_time_s(*, micro_batch_s: Number, pipeline: Number, virtual_stages: Number) -> Number:
    r"""Idle time of a pipeline in one step. [s]

    ``micro_batch_s``: forward plus backward of one micro-batch through one whole stage. [s]
    ``pipeline`` and ``virtual_stages``: stages, and model chunks per stage.

    Notes
    -----
    .. math:: t = \frac{p - 1}{v}\,t_{mb}

    which is the share :math:`(p-1)/(m v)` of the ideal time of :math:`m` micro-batches.

    References
    ----------
    .. [1] Narayanan et al., 2021, arXiv:2104.04473, sections 2.2.1 and 2.2.2.

    Examples
    --------
    >>> bubble_time_s(micro_batch_s=1.0, pipeline=8, virtual_stages=2)
    3.5
    """
    return (pipeline - 1) / virtual_stages * micro_batch_s


def dualpipe_bubble_time_s(*, micro_batch_s: Number, pipeline: Number) -> Number:
    r"""Idle time of one step of DualPipe, which feeds a pipeline from both ends. [s]

    ``micro_batch_s``: forward plus backward of one micro-batch through one stage. [s] ``pipeline``:
    ranks of the pipeline, an even number.

    Notes
    -----
    .. math:: t = (p/2 - 1)\,(F\&B + B - 3 W) = (p/2 - 1)\,\tfrac{2}{3}\,t_{mb}

    with a forward pass :math:`F`, a backward pass :math:`B = 2 F`, of which the gradients of the
    weights take :math:`W = F`, and both at once :math:`F\&B = F + B = t_{mb}`.

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V3, 2024, arXiv:2412.19437, section 3.2.1, table 2.

    Examples
    --------
    >>> dualpipe_bubble_time_s(micro_batch_s=3.0, pipeline=16)
    14.0
    """
    return (pipeline / 2 - 1) * 2.0 * micro_batch_s / 3.0


EXCHANGE_PROCESSORS = 20 / 132
"""Share of an H800's streaming multiprocessors that DualPipe gives to exchanges (DeepSeek-AI 2024,
arXiv:2412.19437, section 3.2.2)."""


def dualpipe_pair_time_s(*, compute_s: Number, exchange_s: Number) -> Number:
    r"""Time of computation together with the expert exchanges that run beside it. [s]

    ``compute_s`` and ``exchange_s``: time of each alone on the whole accelerator, :math:`t_c` and
    :math:`t_x`. [s]

    Notes
    -----
    .. math:: t = \max\left(\frac{t_c}{1 - s},\; t_x\right)

    with the share :math:`s` of the accelerator that moves data (``EXCHANGE_PROCESSORS``).

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V3, 2024, arXiv:2412.19437, sections 3.2.1 and 3.2.2.

    Examples
    --------
    >>> float(dualpipe_pair_time_s(compute_s=112.0, exchange_s=100.0))
    132.0
    """
    return np.maximum(compute_s / (1.0 - EXCHANGE_PROCESSORS), exchange_s)


def exposed_time_s(
    *,
    traffic_s: Number,
    cover_s: Number,
    overlap: Number,
    contention: Number = 0.0,
    alone: Number = 0.0,
) -> Number:
    r"""Time that traffic adds to the computation beside it. [s]

    ``traffic_s``: time of the traffic alone. [s] ``cover_s``: computation that runs at the same
    time. [s] ``overlap``: share of that computation that can hide traffic. [fraction]
    ``contention``: share of the hidden traffic that slows the computation: both use memory and
    multiprocessors. [fraction] ``alone``: share of the traffic that has nothing beside it: the last
    message of a backward pass, the first of a forward pass. [fraction]

    Notes
    -----
    .. math:: t = e + c\,(t_c - e), \quad e = \max(a\,t_c,\; t_c - o\,t_{cover})

    References
    ----------
    .. [1] NVIDIA, Megatron Bridge, Communication Overlap: one piece of the traffic stays exposed.

    Examples
    --------
    >>> float(exposed_time_s(traffic_s=3.0, cover_s=2.0, overlap=0.5))
    2.0
    >>> float(exposed_time_s(traffic_s=3.0, cover_s=2.0, overlap=0.5, contention=0.25))
    2.25
    >>> float(exposed_time_s(traffic_s=3.0, cover_s=9.0, overlap=1.0, alone=0.5))
    1.5
    """
    hiding = overlap * cover_s
    exposed: Number = np.maximum(alone * traffic_s, traffic_s - hiding)
    if np.any(contention):
        exposed = exposed + contention * (traffic_s - exposed)
    return exposed
