"""Broken cases and command lines: 1,300 inputs of all kinds are shared with ``test_files``."""

import pytest

from tests.fuzz.harness import Kind
from tests.fuzz.slices import check, slices

pytestmark = pytest.mark.slow
NAMES = ("case", "case-text", "question", "command", "amount")


@pytest.mark.parametrize(("kind", "first", "count"), list(slices(NAMES)))
def test_every_input_is_answered_or_refused_in_a_sentence(
    kind: Kind, first: int, count: int
) -> None:
    found = check(kind, first, count)

    # Neither everything nor nothing passes: the changes hit what is read.
    assert 0 < found.refused < count
