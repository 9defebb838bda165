"""Traffic of attention that writes its score matrix."""

FUSED_PASSES = (5.0, 10.0)
"""Forward: product, scale with mask and softmax in and out, product. Backward twice as many."""


def score_passes(
    *, fused: bool, dropped: bool, widened: bool, mask_share: float
) -> tuple[float, float]:
    """How often unfused attention reads or writes its score matrix, forward and backward. [scores]

    ``fused``: one kernel scales, masks and normalises. ``dropped``: probabilities drop out.
    ``widened``: softmax and dropout of 16-bit scores run in fp32. ``mask_share``: bytes of the
    dropout's mask over those of a score.

    Notes
    -----
    Kernels of the modules, forward: product (1), scale (2), mask (2), softmax (2), dropout (2 and
    its mask), product (1). Backward: gradient of the probabilities (1), of the values (1), dropout
    (2 and its mask), softmax (3), scale (2), queries and keys (2). In fp32, softmax and dropout
    move twice as much, and two changes of format add 3 each in either direction.

    References
    ----------
    .. [1] NVIDIA/DeepLearningExamples@729963dd, PyTorch/LanguageModeling/BERT/modeling.py
    .. [2] karpathy/nanoGPT@5a725d90, model.py (its mask takes two more)
    .. [3] PyTorch, Automatic Mixed Precision, operations that autocast to fp32

    Examples
    --------
    >>> score_passes(fused=False, dropped=True, widened=True, mask_share=0.5)
    (20.5, 22.5)
    >>> score_passes(fused=False, dropped=True, widened=False, mask_share=0.5)
    (10.5, 11.5)
    """
    if fused:
        return FUSED_PASSES
    width, casts = (2.0, 6.0) if widened else (1.0, 0.0)
    dropout = dropped * (2.0 * width + mask_share)
    forward = 2.0 + 4.0 + 2.0 * width + dropout + casts
    return forward, 4.0 + 2.0 + 3.0 * width + dropout + casts
