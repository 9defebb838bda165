"""Published ratios of the same network on a GPU and on a processor, from one engine."""

from __future__ import annotations

import pytest

import advisor
from advisor.owning.results import ProcessorOption


def slower(network: str, card: str, processor: str, workload: dict[str, object]) -> ProcessorOption:
    """Return a processor compared with a card."""
    found = advisor.own(
        {
            "model": {"preset": network},
            "workload": workload,
            "hardware": {"accelerator": card, "count": 1},
            "owning": {"purchase_usd": 1000},
        }
    )
    return next(item for item in found.processors if item.accelerator == processor)


def test_a_t4_serves_efficientnet_b2_three_times_as_fast_as_a_cascade_lake_xeon() -> None:
    """About 3 times, as published for a 24-core Xeon of that generation."""
    found = slower("efficientnet-b2", "t4", "xeon-8268", {"kind": "serving", "concurrency": 32})
    assert found.slower.low <= 3 <= found.slower.high
    assert found.slower.expected == pytest.approx(3, rel=0.3)
    assert found.count == 3


@pytest.mark.parametrize("network", ["resnet-50", "vgg-16"])
def test_a_gtx_1650_trains_convolutions_as_much_faster_as_published(network: str) -> None:
    """Published: 4.9 to 8.8 times a Core i5 of the ninth generation on convolutional networks."""
    found = slower(network, "gtx-1650", "core-i5-9400", {"kind": "pretraining", "samples": 1e6})
    assert 4.9 <= found.slower.expected <= 8.8
