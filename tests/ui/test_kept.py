"""Answers are kept within a bound in bytes, the newest of them, and once for a question."""

from advisor.foundation.shelf import BYTES_PER_PICKLED, Shelf
from advisor.ui.session.kept import kept


def test_the_longest_unused_answer_goes_first() -> None:
    answer = "x" * 1000  # a pickle of 1,015 bytes
    shelf = Shelf(3 * BYTES_PER_PICKLED * 1100)
    for question in (b"a", b"b", b"c"):
        shelf.keep(question, answer)
    assert shelf.find(b"a") == answer
    shelf.keep(b"d", answer)

    assert len(shelf) == 3
    assert shelf.find(b"b") is None
    assert shelf.find(b"a") == answer


def test_an_answer_that_exceeds_the_bound_is_not_kept() -> None:
    shelf = Shelf(1000)
    shelf.keep(b"a", "x" * 1000)

    assert len(shelf) == 0
    assert shelf.find(b"a") is None


def test_the_same_question_is_answered_once(fresh_caches: None) -> None:
    asked: list[int] = []

    def answer() -> list[int]:
        asked.append(1)
        return [len(asked)]

    first, again, other = (kept(answer, "kind", text) for text in ("a", "a", "b"))

    assert first is again
    assert first != other
    assert len(asked) == 2
