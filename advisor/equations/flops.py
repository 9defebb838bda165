"""Operation counts, exact for given shapes. A multiply-add counts 2."""

from typing import Final

import numpy as np

from advisor.equations import Number

FLASH_BACKWARD_FLOPS: Final = 2.5
"""Backward over forward FLOPs of flash attention: five products against two (Dao 2023)."""


def attended_keys(*, sequence_length: Number, window: float | None, causal: bool) -> Number:
    r"""Average number of keys that a token of a sequence attends to. [keys per token]

    Parameters
    ----------
    sequence_length : Tokens of the sequence. [tokens]
    window : Largest number of keys (sliding window); None for no limit.
    causal : True if a token attends only to itself and earlier tokens.

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


def training_flops_per_token(*, forward: Number, spared: Number, reference: Number) -> Number:
    """Forward and backward FLOPs of one token where every weight trains. [FLOPs/token]

    Parameters
    ----------
    forward : Forward pass. [FLOPs/token]
    spared : Gradients that nobody asks for: of an image, of frozen rows. [FLOPs/token]
    reference : Forward pass of a preference's reference model. [FLOPs/token]

    Notes
    -----
    .. math:: 3 F - F_s + F_r

    Each product has two in the backward pass: for the gradient of its input and of its weight.

    References
    ----------
    .. [1] Kaplan et al., 2020, arXiv:2001.08361, section 2.1.

    Examples
    --------
    >>> training_flops_per_token(forward=2.0, spared=0.5, reference=0.0)
    5.5
    """
    return 3 * forward - spared + reference


def adapter_flops_per_token(
    *, forward: Number, attention: Number, adapters: Number, spared: Number, reference: Number
) -> Number:
    r"""Forward and backward pass of one token where adapters train on frozen weights. [FLOPs/token]

    Parameters
    ----------
    forward : Forward pass, adapters included. [FLOPs/token]
    attention : Attention of the forward pass: it has no weights, and two products backward for each
        one. [FLOPs/token]
    adapters : Adapters of the forward pass. [FLOPs/token]
    spared, reference : As for :func:`training_flops_per_token`. [FLOPs/token]

    Notes
    -----
    .. math:: 2 F - F_s + F_{attn} + F_{ad} + F_r

    Frozen weights have no gradient, so that their backward pass is as long as their forward pass.

    References
    ----------
    .. [1] Hu et al., LoRA, 2021, arXiv:2106.09685, section 4.

    Examples
    --------
    >>> adapter_flops_per_token(
    ...     forward=10.0, attention=2.0, adapters=1.0, spared=0.0, reference=0.0
    ... )
    23.0
    """
    return 2 * forward - spared + attention + adapters + reference


def tower_flops(
    *, parameters: Number, patches: Number, hidden_size: Number, whole: Number, attended: Number
) -> Number:
    r"""FLOPs of a vision tower's blocks for one image of :math:`n` patches and width :math:`d`.

    Parameters
    ----------
    parameters : Of the matrices of all blocks, :math:`P`.
    whole : Layers in which a patch attends to all patches, :math:`L_f`.
    attended : Patches that it attends to in all other layers together, :math:`w`.

    Notes
    -----
    .. math:: F = 2\,P\,n + 4\,d\,n\,(L_f\,n + w)

    Leaves out norms, patch embedding and positions.

    References
    ----------
    .. [1] Bai et al., 2025, Qwen2.5-VL, arXiv:2502.13923, section 2.1.1 (windows).

    Examples
    --------
    >>> tower_flops(parameters=1e6, patches=10, hidden_size=8, whole=1, attended=4)
    20004480.0
    """
    return 2.0 * parameters * patches + 4.0 * hidden_size * patches * (whole * patches + attended)
