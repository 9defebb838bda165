"""A queue: few at once, in order, and whoever leaves it holds nobody up."""

import threading
import time

import pytest

from advisor.foundation.concurrency.sharing import Turns


def start(
    turns: Turns, held: threading.Event, holder: threading.Thread, *others: threading.Thread
) -> None:
    """Start them in this order: the first has its turn, each other waits before the next comes."""
    holder.start()
    assert held.wait(30)
    for number, other in enumerate(others, 1):
        other.start()
        end = time.monotonic() + 30
        while turns.waiting < number:
            assert time.monotonic() < end
            time.sleep(0.002)


def test_threads_work_in_the_order_in_which_they_came() -> None:
    turns, done, held, go = Turns(1), [], threading.Event(), threading.Event()

    def first() -> None:
        with turns.turn():
            held.set()
            assert go.wait(30)

    def other(number: int) -> None:
        with turns.turn():
            done.append(number)

    holder = threading.Thread(target=first)
    others = [threading.Thread(target=other, args=(number,)) for number in range(5)]
    start(turns, held, holder, *others)
    assert turns.waiting == 5
    go.set()
    for thread in (holder, *others):
        thread.join(30)

    assert done == [0, 1, 2, 3, 4]
    assert turns.waiting == 0


def test_no_more_than_allowed_work_at_once() -> None:
    turns, working, most, lock = Turns(3), 0, 0, threading.Lock()

    def work() -> None:
        nonlocal working, most
        with turns.turn():
            with lock:
                working += 1
                most = max(most, working)
            time.sleep(0.02)
            with lock:
                working -= 1

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert most == 3


def test_who_waits_hears_how_many_are_before_and_may_leave() -> None:
    turns, held, go, heard = Turns(1), threading.Event(), threading.Event(), []

    class NextInput(BaseException):
        """As Streamlit ends a run whose inputs changed."""

    def holder() -> None:
        with turns.turn():
            held.set()
            assert go.wait(30)

    def leave(ahead: int) -> None:
        heard.append(ahead)
        if len(heard) == 2:
            raise NextInput

    first = threading.Thread(target=holder)
    second = threading.Thread(target=holder)
    start(turns, held, first, second)
    with pytest.raises(NextInput), turns.turn(leave):
        raise AssertionError("it had no turn")
    assert heard == [1, 1]
    assert turns.waiting == 1
    go.set()
    first.join(30)
    second.join(30)
    with turns.turn():  # nobody is held up
        pass


def test_work_inside_work_takes_no_second_turn() -> None:
    turns = Turns(1)
    with turns.turn(), turns.turn():
        assert turns.waiting == 0
    with turns.turn():
        pass
