"""Times of single operators by the roofline model with saturation.

Every function takes floats or arrays and broadcasts.
"""

from typing import Final

import numpy as np

from advisor.equations import Number

TILE_ELEMENTS: Final = 128.0 * 128.0
"""Output elements of one tile, the unit for the saturation of matmuls."""


def matmul_time_s(
    *,
    flops: Number,
    moved_bytes: Number,
    peak_flops_per_s: Number,
    bandwidth_bytes_per_s: Number,
    compute: Number,
    bandwidth: Number,
    output_elements: Number = 1.0,
    depth: Number = 1.0,
    overhead_s: Number = 0.0,
    half_tiles: Number = 0.0,
    half_depth: Number = 0.0,
) -> Number:
    r"""Time of one matrix product on one accelerator. [s]

    Parameters
    ----------
    flops : Operations; a multiply-add counts 2. [FLOPs]
    moved_bytes : Operands and result, each once. [bytes]
    peak_flops_per_s : Dense peak of the format. [FLOPs/s]
    bandwidth_bytes_per_s : Memory bandwidth. [bytes/s]
    compute, bandwidth : Reachable shares of the two peaks. [fraction]
    output_elements : Rows times columns of the result (of one expert, for grouped products).
        [elements]
    depth : Inner dimension k. [elements]
    overhead_s : Fixed cost of the kernel. [s]
    half_tiles, half_depth : Output tiles, and inner dimension, at which the rate is half of its
        limit.

    Notes
    -----
    .. math::
        t = t_0 + \sqrt{\left(\frac{F}{P e_c}
            \left(1 + \frac{x_h}{x}\right)\left(1 + \frac{k_h}{k}\right)\right)^2
            + \left(\frac{B}{W e_m}\right)^2}

    with :math:`x` the output in tiles of 128 x 128. The square root joins the two roofs without
    the corner of a maximum. Leaves out tile and wave quantisation and cache hits.

    References
    ----------
    .. [1] Williams et al., Roofline, 2009, doi:10.1145/1498765.1498785.
    .. [2] Form and constants fitted on aiconfigurator-core 0.12.0 kernel tables.

    Examples
    --------
    >>> found = matmul_time_s(
    ...     flops=2e12,
    ...     moved_bytes=1e6,
    ...     peak_flops_per_s=1e15,
    ...     bandwidth_bytes_per_s=1e12,
    ...     compute=0.5,
    ...     bandwidth=1.0,
    ... )
    >>> round(found, 6)
    0.004
    """
    tiles = output_elements / TILE_ELEMENTS
    compute_s = (
        flops / (peak_flops_per_s * compute) * (1 + half_tiles / tiles) * (1 + half_depth / depth)
    )
    memory_s = moved_bytes / (bandwidth_bytes_per_s * bandwidth)
    return overhead_s + (compute_s * compute_s + memory_s * memory_s) ** 0.5


def attention_time_s(
    *,
    flops: Number,
    keys: Number,
    peak_flops_per_s: Number,
    efficiency: Number,
    half_keys: Number,
    overhead_s: Number,
) -> Number:
    r"""Time of a flash-attention kernel over a whole sequence (compute-bound). [s]

    Parameters
    ----------
    flops : Operations that the kernel executes: half of the square if causal. [FLOPs]
    keys : Average number of keys that a query attends to. Infinite for a rate that does not depend
        on it. [tokens]
    peak_flops_per_s : Dense 16-bit peak. [FLOPs/s]
    efficiency : Reachable share of the peak on long sequences. [fraction]
    half_keys : Keys at which the rate is half of its limit. [tokens]
    overhead_s : Fixed cost of the kernel. [s]

    Notes
    -----
    .. math:: t = t_0 + \frac{F}{P e} \left(1 + \frac{k_h}{k}\right)

    The ramp covers softmax, prologue and masked tiles, which cost relatively more for short rows.

    References
    ----------
    .. [1] Dao, FlashAttention-2, 2023, arXiv:2307.08691, section 4.

    Examples
    --------
    >>> attention_time_s(
    ...     flops=1e12,
    ...     keys=1024.0,
    ...     peak_flops_per_s=1e15,
    ...     efficiency=0.5,
    ...     half_keys=512.0,
    ...     overhead_s=0.0,
    ... )
    0.003
    """
    return overhead_s + flops / (peak_flops_per_s * efficiency) * (1 + half_keys / keys)


def bandwidth_time_s(
    *, moved_bytes: Number, bandwidth_bytes_per_s: Number, efficiency: Number, overhead_s: Number
) -> Number:
    r"""Time of a memory-bound kernel. [s]

    Parameters
    ----------
    moved_bytes : Bytes read plus bytes written. [bytes]
    bandwidth_bytes_per_s : Memory bandwidth. [bytes/s]
    efficiency : Reachable share of the bandwidth. [fraction]
    overhead_s : Fixed cost of the kernel. [s]

    Notes
    -----
    .. math:: t = t_0 + \frac{B}{W e_m}

    References
    ----------
    .. [1] Williams et al., Roofline, 2009, doi:10.1145/1498765.1498785.

    Examples
    --------
    >>> bandwidth_time_s(
    ...     moved_bytes=1e9, bandwidth_bytes_per_s=1e12, efficiency=0.5, overhead_s=0.0
    ... )
    0.002
    """
    return overhead_s + moved_bytes / (bandwidth_bytes_per_s * efficiency)


def memory_roof_s(*, total_s: Number, memory_s: Number) -> Number:
    r"""Part of a product's time due to memory traffic, if the roofs join by squares. [s]

    0 if nothing runs.

    Parameters
    ----------
    total_s : Time of the product, :math:`t`. [s]
    memory_s : Time of its reading and writing alone, :math:`t_m`. [s]

    Notes
    -----
    .. math:: t \approx \sqrt{t_c^2 + t_m^2}, \qquad s_m = t_m^2 / t

    Each roof gets the share of its square, so the parts sum to the total time.

    Examples
    --------
    >>> float(memory_roof_s(total_s=5.0, memory_s=3.0))
    1.8
    """
    total = np.asarray(total_s)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, memory_s * memory_s / total, 0.0)
