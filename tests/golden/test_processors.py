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
    """About 3 times, as published for a 24-core Xeon of that generation, without a format.

    That Xeon computes in fp32; the card did so too, or in fp16: the two bracket what was published.
    """
    workload = {"kind": "serving", "concurrency": 32}
    fp32 = {**workload, "weight_format": "fp32"}
    same = slower("efficientnet-b2", "t4", "xeon-8268", fp32).slower
    narrower = slower("efficientnet-b2", "t4", "xeon-8268", workload).slower
    assert same.low <= 3 <= same.high
    assert narrower.low <= 3 <= narrower.high
    assert same.expected < 3 < narrower.expected
    assert (same.expected * narrower.expected) ** 0.5 == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize("network", ["resnet-50", "vgg-16"])
def test_a_gtx_1650_trains_convolutions_as_much_faster_as_published(network: str) -> None:
    """Published: 4.9 to 8.8 times a Core i5 of the ninth generation on convolutional networks."""
    found = slower(network, "gtx-1650", "core-i5-9400", {"kind": "pretraining", "samples": 1e6})
    assert 4.9 <= found.slower.expected <= 8.8


def test_a_small_fully_connected_network_is_no_reason_to_buy_a_card() -> None:
    """Published: 1.2 times as fast on the processor as on a GTX 1650."""
    network = {
        "input": {"features": 784},
        "layers": [{"linear": 512}, "relu", {"linear": 10}],
    }
    found = advisor.own(
        {
            "model": {"stack": network},
            "workload": {"kind": "serving", "concurrency": 32},
            "hardware": {"accelerator": "gtx-1650", "count": 1},
            "owning": {"purchase_usd": 1000},
        }
    )
    ratio = next(item for item in found.processors if item.accelerator == "core-i5-9400").slower
    assert ratio.low <= 1 / 1.2 <= ratio.high
    assert ratio.expected < 1


def test_a_desktop_processor_decodes_at_the_speed_of_its_memory() -> None:
    """8 billion parameters in 4.9 GB over 41.6 GB/s: 8.5 tokens/s at most, 5 to 7 in practice."""
    found = advisor.estimate(
        {
            "model": {"preset": "llama-3.1-8b"},
            "workload": {
                "kind": "serving",
                "concurrency": 1,
                "input_tokens": 128,
                "output_tokens": 128,
                "weight_format": "q4_k_m",
            },
            "hardware": {"accelerator": "core-i5-9400", "count": 1},
        }
    )
    assert found.serving is not None
    assert 5 <= found.serving.output_tokens_per_s.expected <= 8.5
