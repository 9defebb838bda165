"""The collector of garbage rests during an answer, and only then."""

import gc

import pytest

from advisor.foundation.garbage import collection_paused


@pytest.fixture(autouse=True)
def _on():
    gc.enable()
    yield
    gc.enable()


@collection_paused()
def failing() -> None:
    """Fail where the collector rests."""
    raise ValueError(f"collector on: {gc.isenabled()}")


def test_the_collector_rests_and_comes_back_even_after_an_error() -> None:
    with pytest.raises(ValueError, match="collector on: False"):
        failing()

    assert gc.isenabled()


def test_who_turned_it_off_keeps_it_off() -> None:
    gc.disable()

    with collection_paused():
        assert not gc.isenabled()

    assert not gc.isenabled()
