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


@pytest.mark.parametrize(
    "network", ["resnet-50", "vgg-16", "mobilenet-v3-large", "efficientnet-b0", "densenet-121"]
)
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


def trained(card: str, network: str, **work: object) -> float:
    """Return sequences or images a second of one card or socket."""
    batch = 128
    case = {
        "model": {"preset": network},
        "workload": {"global_batch": batch, **work},
        "hardware": {"accelerator": card, "count": 1},
    }
    found = advisor.estimate(case).time
    assert found is not None
    return batch / found.step_s.expected


def test_a_socket_of_sapphire_rapids_trains_as_fast_as_its_maker_published() -> None:
    """Intel's MLPerf records (mlcommons/training_results_v2.1, Intel/results), in bf16.

    ResNet-50: 8,570 images a second on 32 sockets. BERT-large: 2,850,816 sequences in 5,234 s on
    16, unpadded: about half of 512 tokens each. Both with fused kernels.
    """
    images = trained(
        "xeon-8480plus",
        "resnet-50",
        kind="pretraining",
        samples=1e7,
        software="liger",
        data_loading="cached",
    )
    sequences = trained(
        "xeon-8480plus",
        "bert-large-uncased",
        kind="pretraining",
        tokens=1e9,
        sequence_length=256,
        software="liger",
    )
    assert images == pytest.approx(8570 / 32, rel=0.15)
    assert sequences == pytest.approx(2_850_816 / 5234 / 16, rel=0.15)


def test_large_models_train_ten_to_a_hundred_times_as_fast_on_a_card() -> None:
    """Published for large models: 10 to 100 times."""
    work = {"kind": "fine_tuning", "method": "lora", "tokens": 1e7, "sequence_length": 1024}
    card, socket = (trained(key, "llama-3.1-8b", **work) for key in ("h100-sxm", "xeon-8480plus"))

    assert 10 <= card / socket <= 100


def test_no_socket_trains_adapters_as_fast_as_a_large_desktop_card() -> None:
    work = {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7, "sequence_length": 1024}
    card = trained("rtx-4090", "llama-3.1-8b", **work)

    assert card > 2 * trained("xeon-6980p", "llama-3.1-8b", **work)
    assert card > 3 * trained("epyc-9755", "llama-3.1-8b", **work)
