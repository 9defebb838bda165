"""Traffic of a training step: how often each way of parallelism sends, and what of it shows."""

import numpy as np

from advisor.equations import Number


def tensor_traffic_s(
    *, branches: Number, all_reduce_s: Number, remade: Number, exposed: Number
) -> Number:
    r"""Reductions of tensor parallelism in one micro-batch. [s]

    ``branches``: attention and feed-forward branches of the stage. ``all_reduce_s``: one reduction
    of a micro-batch's activations. [s] ``remade``: 1 where the forward pass runs again before the
    backward pass, else 0. ``exposed``: share that products do not hide. [fraction]

    Notes
    -----
    .. math:: t = n_b\,(2 + a)\,t_{ar}\,(1 - o)

    One reduction forward and one backward in each branch.

    References
    ----------
    .. [1] Shoeybi et al., Megatron-LM, 2019, arXiv:1909.08053, section 3.
    .. [2] Narayanan et al., 2021, arXiv:2104.04473, section 2.3.

    Examples
    --------
    >>> tensor_traffic_s(branches=64, all_reduce_s=0.5, remade=0.0, exposed=0.25)
    16.0
    """
    return branches * (2.0 + remade) * all_reduce_s * exposed


def expert_traffic_s(*, layers: Number, exchange_s: Number, remade: Number) -> Number:
    r"""Exchanges between experts in one micro-batch. [s]

    ``layers``: layers with routed experts on the stage. ``exchange_s``: one exchange of a
    micro-batch's tokens. [s] ``remade``: 1 where the forward pass runs again before the backward
    pass, else 0.

    Notes
    -----
    .. math:: t = L_e\,(4 + 2 a)\,t_x

    Dispatch and combine, forward and backward.

    References
    ----------
    .. [1] Lepikhin et al., GShard, 2020, arXiv:2006.16668, section 3.

    Examples
    --------
    >>> expert_traffic_s(layers=10, exchange_s=0.1, remade=1.0)
    6.0
    """
    return layers * (4.0 + 2.0 * remade) * exchange_s


def key_value_message_bytes(
    *, tokens: Number, context: Number, elements_per_token: Number, rows: Number, tensor: Number
) -> Number:
    r"""Keys and values of one layer that ranks of a divided sequence pass on, in 16 bits. [bytes]

    Parameters
    ----------
    tokens : Tokens of the micro-batch on this rank. [tokens]
    context : Ranks that share a sequence.
    elements_per_token : Keys and values of all kinds of attention, one layer of each.
        [elements/token]
    rows : Kinds of attention; the message is their mean.
    tensor : Tensor-parallel degree.

    Notes
    -----
    .. math:: M = \frac{2\,T\,c\,e}{n\,t}

    References
    ----------
    .. [1] Liu et al., Ring Attention, 2023, arXiv:2310.01889, section 3.

    Examples
    --------
    >>> key_value_message_bytes(tokens=1024.0, context=4, elements_per_token=2048, rows=1, tensor=2)
    8388608.0
    """
    return 2.0 * tokens * context * elements_per_token / rows / tensor


def context_traffic_s(*, layers: Number, ring_s: Number, remade: Number) -> Number:
    r"""Keys and values that go round the ranks of a divided sequence in one micro-batch. [s]

    ``layers``: layers of the stage. ``ring_s``: keys and values of one layer, once round. [s]
    ``remade``: 1 where the forward pass runs again before the backward pass, else 0.

    Notes
    -----
    .. math:: t = L\,(3 + a)\,t_r

    Keys and values forward; they and their gradients backward.

    References
    ----------
    .. [1] Liu et al., Ring Attention, 2023, arXiv:2310.01889, section 3.

    Examples
    --------
    >>> context_traffic_s(layers=32, ring_s=0.5, remade=0.0)
    48.0
    """
    return layers * (3.0 + remade) * ring_s


def pipeline_traffic_s(*, virtual_stages: Number, hop_s: Number) -> Number:
    r"""Activations and gradients that one micro-batch carries from stage to stage. [s]

    ``virtual_stages``: model chunks for each stage. ``hop_s``: one micro-batch's activations to the
    next stage. [s]

    Notes
    -----
    .. math:: t = 2\,v\,t_h

    References
    ----------
    .. [1] Narayanan et al., 2021, arXiv:2104.04473, section 2.2.2.

    Examples
    --------
    >>> pipeline_traffic_s(virtual_stages=2, hop_s=0.25)
    1.0
    """
    return 2.0 * virtual_stages * hop_s


def overlapped_exchange_s(*, exchange_s: Number, cover_s: Number, overlap: Number) -> Number:
    r"""Exchanges between experts that another micro-batch's computation leaves to see. [s]

    ``exchange_s``: the exchanges on their own. [s] ``cover_s``: computation beside them. [s]
    ``overlap``: share of the exchanges that can run beside it. [fraction]

    Notes
    -----
    .. math:: t = \max(0,\; t_x - \min(o\,t_x,\; t_c))

    References
    ----------
    .. [1] DeepSeek-AI, DeepSeek-V3, 2024, arXiv:2412.19437, section 3.2.1 (DualPipe).

    Examples
    --------
    >>> float(overlapped_exchange_s(exchange_s=4.0, cover_s=10.0, overlap=0.75))
    1.0
    """
    return np.maximum(0.0, exchange_s - np.minimum(overlap * exchange_s, cover_s))


def contention_of(
    *, traffic_s: Number, on_links_s: Number, link_share: Number, host_share: Number
) -> Number:
    r"""Share of hidden traffic that slows the computation beside it. [fraction]

    Collectives take memory bandwidth and multiprocessors from the kernels beside them. On links
    they take them for the bytes that they move: traffic that a network slows down takes no more.

    ``traffic_s``: time of the traffic. [s] ``on_links_s``: time that it would take at the rate of
    the links inside a machine. [s] ``link_share``: share at that rate; 0 without links. [fraction]
    ``host_share``: share of traffic through the host's memory; 0 for other traffic. [fraction]

    Notes
    -----
    .. math:: c = \max(c_{host},\; c_{link}\,t_{link} / t)

    References
    ----------
    .. [1] arXiv:2507.03114: kernels beside collectives, on machines with links.

    Examples
    --------
    >>> float(contention_of(traffic_s=4.0, on_links_s=1.0, link_share=0.1, host_share=0.0))
    0.025
    """
    share = on_links_s / np.maximum(traffic_s, np.finfo(float).tiny)
    beside = np.where(np.greater(link_share, 0.0), link_share * share, 0.0)
    return np.maximum(host_share, beside)


def slowest_s(*, cover_s: Number, machines: Number, jitter: Number) -> Number:
    r"""Wait of a step for the slowest of its machines. [s]

    0 for one machine, whose waits the software's slowdown holds.

    ``cover_s``: computation of a step. [s] ``machines``: machines of the job, at least 1.
    ``jitter``: standard deviation of a machine's time for a second of work. [s/sqrt(s)]

    Notes
    -----
    .. math:: t = \sigma \sqrt{t_c} \sqrt{2 \ln n}

    A machine's delays are many, small and independent, so their variance grows with the time.
    The step ends with its slowest machine: the expected maximum of n independent normal times
    over their mean, to leading order. So short steps lose a larger share than long ones.
    Leaves out machines that stay slow, which whole runs count, and oversubscribed networks.

    References
    ----------
    .. [1] Boucheron, Lugosi and Massart, Concentration Inequalities, 2013, section 2.5 (maximum of
       n normal variables; recalled).
    .. [2] Hoefler et al., Characterizing the Influence of System Noise on Large-Scale
       Applications by Simulation, SC 2010, doi:10.1109/SC.2010.12.

    Examples
    --------
    >>> float(slowest_s(cover_s=2.0, machines=1.0, jitter=0.02))
    0.0
    >>> round(float(slowest_s(cover_s=4.0, machines=64.0, jitter=0.02)), 3)
    0.115
    """
    return jitter * np.sqrt(2.0 * cover_s * np.log(machines))
