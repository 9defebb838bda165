"""Broken files and links: 1,300 inputs of all kinds are shared with ``test_cases``."""

import pytest

from tests.fuzz.harness import Kind
from tests.fuzz.kinds import KINDS
from tests.fuzz.slices import check, share_of, slices
from tests.fuzz.test_cases import NAMES

pytestmark = pytest.mark.slow
FILES = tuple(kind.name for kind in KINDS if kind.name not in NAMES)
CORRECTED = ("link", "cache", "feed", "table")
"""What is left out and told, the rest in use."""


@pytest.mark.parametrize(("kind", "first", "count"), list(slices(FILES)))
def test_every_input_is_answered_or_refused_in_a_sentence(
    kind: Kind, first: int, count: int
) -> None:
    found = check(kind, first, count)

    # Neither everything nor nothing passes: the changes hit what is read.
    assert kind.name in CORRECTED or 0 < found.refused < count


def test_the_slices_are_thirteen_hundred_inputs() -> None:
    assert sum(map(share_of, KINDS)) == 1337
