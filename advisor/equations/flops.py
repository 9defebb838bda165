"""Operation counts; a multiply-add counts 2. Exact, given the shapes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]

FLASH_BACKWARD_FLOPS: Final = 2.5
"""Backward over forward FLOPs of flash attention: five products against two (Dao 2023)."""


def matmul_flops(*, tokens: Number, in_features: Number, out_features: Number) -> Number:
    r"""Forward FLOPs of one linear layer.

    Parameters
    ----------
    tokens : float or ndarray
        Rows of the input. [tokens]
    in_features, out_features : float or ndarray
        Shape of the matrix.

    Returns
    -------
    float or ndarray
        [FLOPs]

    Notes
    -----
    .. math:: F = 2\,T\,n_{in}\,n_{out}

    Examples
    --------
    >>> matmul_flops(tokens=1, in_features=4096, out_features=4096)
    33554432
    """
    return 2 * tokens * in_features * out_features


def attended_keys(*, sequence_length: Number, window: float | None, causal: bool) -> Number:
    r"""Average number of keys that a token of a sequence attends to.

    Parameters
    ----------
    sequence_length : float or ndarray
        Tokens of the sequence. [tokens]
    window : float or None
        Largest number of keys (sliding window); None for no limit.
    causal : bool
        True where a token sees itself and earlier tokens only.

    Returns
    -------
    float or ndarray
        [keys per token]

    Notes
    -----
    .. math::
        \text{full: } S \qquad \text{causal: } \frac{S}{2} \qquad
        \text{window } w < S:\; w - \frac{w^2}{2 S}

    The causal half follows the convention of FlashAttention (the diagonal's half row is
    dropped).

    References
    ----------
    .. [1] Dao, FlashAttention-2, 2023, arXiv:2307.08691, section 4.

    Examples
    --------
    >>> float(attended_keys(sequence_length=4096, window=None, causal=True))
    2048.0
    >>> float(attended_keys(sequence_length=4096, window=1024, causal=True))
    896.0
    """
    if not causal:
        return sequence_length if window is None else np.minimum(sequence_length, window)
    reach = sequence_length if window is None else np.minimum(sequence_length, window)
    return reach - reach * reach / (2 * sequence_length)


def training_flops(
    *, forward: Number, trainable_forward: Number, recomputed_forward: Number
) -> Number:
    r"""Forward, backward and recomputation.

    Parameters
    ----------
    forward : float or ndarray
        Forward FLOPs. [FLOPs]
    trainable_forward : float or ndarray
        The part of ``forward`` whose weights are trained (attention scores included, since both
        operands need a gradient). Frozen weights need no weight gradient. [FLOPs]
    recomputed_forward : float or ndarray
        Forward FLOPs run a second time. [FLOPs]

    Returns
    -------
    float or ndarray
        [FLOPs]

    Notes
    -----
    .. math:: F = 2 F_{fwd} + F_{trainable} + F_{recomputed}

    One pass forward, one for the gradient of the inputs, one for the gradient of the weights.
    Full training is thus three times the forward pass and LoRA nearly two thirds of that.

    References
    ----------
    .. [1] Kaplan et al., 2020, arXiv:2001.08361, section 2.1 (6 N per token).
    .. [2] Hu et al., LoRA, 2021, arXiv:2106.09685, section 4.

    Examples
    --------
    >>> training_flops(forward=2.0, trainable_forward=2.0, recomputed_forward=0.0)
    6.0
    """
    return 2 * forward + trainable_forward + recomputed_forward
