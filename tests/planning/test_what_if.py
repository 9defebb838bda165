"""What better hardware would buy, against what physics allows."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.frames.turning import what_if_sentence, what_if_table
from tests.cases import serve, tune

TRAINED: dict[str, Any] = tune("llama-3.1-8b", "rtx-4090", 1, method="lora", tokens=10e6)
SERVED: dict[str, Any] = serve("llama-3.1-8b", "h100-sxm", 1, concurrency=1, weight_format="bf16")


def test_a_run_as_it_is_equals_its_estimate_and_half_the_price_halves_the_bill() -> None:
    found = {item.change: item for item in advisor.what_if(TRAINED)}
    time = advisor.estimate(TRAINED).time
    assert time is not None
    assert found[""].hours == time.run_hours
    now, half = found[""].usd, found["half the price"].usd
    assert now is not None
    assert half is not None
    assert half.expected == pytest.approx(now.expected / 2)
    for change in ("twice the arithmetic", "twice the memory bandwidth", "twice the memory"):
        hours = found[change].hours
        assert hours is not None
        # Nothing that is twice as good makes a run more than twice as fast, or slower.
        assert 0.5 <= hours.expected / time.run_hours.expected <= 1.001


def test_one_stream_of_decoding_gains_from_bandwidth_and_little_from_arithmetic() -> None:
    # Each token reads all 16 GB of weights, and computes one product of a vector with them.
    found = {item.change: item.tpot_ms for item in advisor.what_if(SERVED)}
    now, wide, fast = (
        found[change] for change in ("", "twice the memory bandwidth", "twice the arithmetic")
    )
    assert now is not None
    assert wide is not None
    assert fast is not None
    assert 0.5 <= wide.expected / now.expected < 0.7
    assert fast.expected / now.expected > 0.95


def test_twice_the_memory_holds_what_did_not_fit() -> None:
    # 70.6 billion parameters of 2 bytes are 131 GiB: more than 80 GB, less than 160 GB.
    asked = SERVED | {"model": {"preset": "llama-3.1-70b"}}
    found = {item.change: item.fits for item in advisor.what_if(asked)}
    assert not found[""]
    assert found["twice the memory"]
    assert not found["twice the memory bandwidth"]


def test_table_and_sentence_say_what_saves_most() -> None:
    found = advisor.what_if(TRAINED)
    table = what_if_table(found)
    assert table["What if"].tolist()[0] == "As it is"
    saved = dict(zip(table["What if"], table["Time saved"], strict=True))
    assert saved["As it is"] == ""
    assert saved["Half the price"] == "none"
    assert "Most time is saved by twice the cards" in what_if_sentence(found)
