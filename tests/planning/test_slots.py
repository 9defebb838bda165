"""Slots with fewer lanes than a card has."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from tests.cases import serve


def prompt_s(lanes: int | None) -> float:
    """Time to the first token of a long prompt, whose experts come over the slot. [s]"""
    host: dict[str, Any] = {} if lanes is None else {"pcie_lanes": lanes}
    case = serve("gpt-oss-120b", "rtx-4090", concurrency=1, input_tokens=8192, host=host)
    serving = advisor.estimate(case).serving
    assert serving is not None
    return serving.ttft_ms.expected / 1e3


def test_half_of_the_lanes_take_twice_as_long_to_bring_the_experts() -> None:
    # PCI-SIG: 16 lanes of generation 4 carry 31.5 GB/s, 8 lanes half of it.
    whole, half, quarter = prompt_s(None), prompt_s(8), prompt_s(4)
    assert prompt_s(16) == whole
    assert quarter - half == pytest.approx(2 * (half - whole), rel=0.01)


def test_a_slot_has_16_lanes_at_most() -> None:
    with pytest.raises(advisor.InputError, match="pcie_lanes"):
        prompt_s(32)
