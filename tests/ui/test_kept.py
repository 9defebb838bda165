"""Answers are kept within a bound in bytes, the newest of them, and once for a question."""

import threading

import streamlit as st
from streamlit.testing.v1 import AppTest

from advisor.foundation.concurrency.sharing import BYTES_PER_WRITTEN, Shelf
from advisor.ui.session import kept as room
from advisor.ui.session.kept import kept


def test_the_longest_unused_answer_goes_first() -> None:
    answer = "x" * 1000  # 1,002 bytes as JSON
    shelf = Shelf(3 * BYTES_PER_WRITTEN * 1100)
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


def test_a_question_that_waits_says_so_until_it_has_its_answer(fresh_caches: None) -> None:
    def page() -> None:
        import streamlit as st

        from advisor.ui.session.kept import kept

        st.write(kept(lambda: "the answer", "a question that waits"))

    go, said, show = threading.Event(), [], st.delta_generator.DeltaGenerator.caption
    held = [threading.Event() for _ in range(room.AT_ONCE)]

    def hold(event: threading.Event) -> None:
        with room.turns().turn():
            event.set()
            assert go.wait(60)

    def told(self: st.delta_generator.DeltaGenerator, body: str) -> object:
        said.append(body)
        go.set()
        return show(self, body)

    holders = [threading.Thread(target=hold, args=(event,)) for event in held]
    for holder, event in zip(holders, held, strict=True):
        holder.start()
        assert event.wait(60)
    st.delta_generator.DeltaGenerator.caption = told  # type: ignore[method-assign, assignment]
    try:
        run = AppTest.from_function(page, default_timeout=60).run()
    finally:
        st.delta_generator.DeltaGenerator.caption = show  # type: ignore[method-assign]
        go.set()
    for holder in holders:
        holder.join(60)

    assert not run.exception
    assert said[0] == "Many people ask at once. Yours is next."
    assert [item.value for item in run.markdown] == ["the answer"]
    assert not run.caption
