"""Operation counts; a multiply-add counts 2. Exact, given the shapes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]

FLASH_BACKWARD_FLOPS: Final = 2.5
"""Backward over forward FLOPs of flash attention: five products against two (Dao 2023)."""


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
