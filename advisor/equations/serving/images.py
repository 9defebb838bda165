"""Images in prompts: the arithmetic of the vision tower."""

from advisor.equations import Number


def tower_flops(
    *, parameters: Number, patches: Number, hidden_size: Number, whole: Number, attended: Number
) -> Number:
    r"""FLOPs of a vision tower's blocks for one image of :math:`n` patches and width :math:`d`.

    Parameters
    ----------
    parameters : float
        Of the matrices of all blocks, :math:`P`.
    whole : float
        Layers in which a patch attends to all patches, :math:`L_f`.
    attended : float
        Patches that it attends to in all other layers together, :math:`w`.

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
