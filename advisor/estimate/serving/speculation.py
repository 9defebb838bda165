"""What speculative decoding does to a step, and how far stated techniques widen a time's range."""

from advisor.equations.serving.speculation import acceptance, step_tokens
from advisor.errors import refusal
from advisor.foundation.noun import Noun
from advisor.nouns.techniques import Speculation, Techniques, drafted, technique_facts


def widening(stated: Techniques, *, later: bool) -> tuple[float, float]:
    """Return the factors by which stated techniques widen the range of a time.

    ``later``: of the tokens after the first, which drafts concern too.
    """
    low, high = 1.0, 1.0
    if stated.adapters:
        slowdown = technique_facts().adapters.slowdown
        low, high = slowdown.low / slowdown.expected, slowdown.high / slowdown.expected
    if later and stated.speculation:
        drafts = speculated(stated)
        low, high = low / drafts.high, high / drafts.low
    return low, high


class Speculated(Noun):
    """Speculative decoding as a case states it."""

    verified: float = 1.0
    """Tokens of a sequence in one step."""
    accepted: float = 1.0
    """Tokens that one step yields."""
    overhead: float = 0.0
    """Time to draft them, over that of a step without drafts."""
    low: float = 1.0
    high: float = 1.0
    """Bounds of the gain over the expected one."""


def speculated(stated: Techniques) -> Speculated:
    """Return what speculative decoding does to a step.

    Raises InputError if drafts are described and no way to make them.
    """
    if stated.speculation is None:
        given = {"draft_tokens": stated.draft_tokens, "acceptance": stated.acceptance}
        for field, value in given.items():
            if value is not None:
                raise refusal("no_drafts", value=str(value), allowed=[*Speculation], field=field)
        return Speculated()
    facts = technique_facts().speculation[stated.speculation]
    gain = facts.gain.expected * (facts.tasks.get(stated.text_kind, 1) if stated.text_kind else 1)
    count = drafted(stated)
    times = count / facts.draft_tokens
    accepted = 1 + count * (stated.acceptance or 0.0)
    if stated.acceptance is None:
        chance = acceptance(tokens=facts.accepted, drafts=facts.draft_tokens)
        accepted = step_tokens(chance=chance, drafts=count)
    return Speculated(
        verified=1 + (facts.verified - 1) * times,
        accepted=accepted,
        overhead=max(facts.accepted / gain - 1, 0.0) * times,
        low=facts.gain.low / facts.gain.expected,
        high=facts.gain.high / facts.gain.expected,
    )
