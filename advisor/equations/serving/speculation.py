r"""Speculative decoding: what drafts that are each as likely to be accepted yield in a step.

References
----------
.. [1] Leviathan et al., Fast Inference from Transformers via Speculative Decoding, 2023,
   arXiv:2211.17192, equation 1.
"""

from functools import cache
from typing import Final

HALVINGS: Final = 40


def step_tokens(*, chance: float, drafts: int) -> float:
    r"""Tokens of a step: the accepted drafts, and the model's own after them.

    Parameters
    ----------
    chance : Chance :math:`p` that a draft is accepted if those before it are.
    drafts : Drafts of a step, :math:`k`.

    Notes
    -----
    .. math:: a = \sum_{i=0}^{k} p^i

    Examples
    --------
    >>> step_tokens(chance=0.5, drafts=2)
    1.75
    """
    return sum(chance**place for place in range(drafts + 1))


@cache
def acceptance(*, tokens: float, drafts: int) -> float:
    """Chance with which a step yields so many tokens, by halving; 1 if they are more than it can.

    Parameters
    ----------
    tokens : Tokens of a step, from 1.
    drafts : Drafts of a step.

    Examples
    --------
    >>> round(acceptance(tokens=1.75, drafts=2), 6)
    0.5
    """
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        short = step_tokens(chance=middle, drafts=drafts) < tokens
        low, high = (middle, high) if short else (low, middle)
    return low
