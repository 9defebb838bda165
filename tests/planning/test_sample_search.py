"""Whole answers for networks that take images or samples: what is searched, and in what words."""

from __future__ import annotations

import pytest

from advisor import api
from advisor.errors import InputError
from advisor.planning.results import Recommendation
from tests.cases import pretrain, serve

RESNET = {"preset": "resnet-50"}


def recommended(model: str, **workload: object) -> Recommendation:
    return api.recommend({"model": {"preset": model}, "workload": workload})


@pytest.mark.parametrize(
    ("model", "unit"),
    [
        ("resnet-50", "image"),
        ("vit-base-patch16-224", "image"),
        ("sd-1.5-unet", "image"),
        ("whisper-large-v3", "sample"),
        ("bert-large", "token"),
        ("lstm-4x1024", "token"),
    ],
)
def test_every_kind_of_network_is_trained(model: str, unit: str) -> None:
    found = recommended(model, kind="pretraining")

    estimate = found.plans[0].estimate
    assert estimate.time is not None
    assert estimate.time.unit == unit
    assert (estimate.time.images_per_s is None) == (unit != "image")
    if unit != "token":
        # Only data parallelism divides what takes whole samples.
        for ranking in found.rankings:
            for plan in ranking.plans:
                layout = plan.estimate.layout
                assert (layout.tensor, layout.pipeline, layout.context) == (1, 1, 1)


def test_a_batch_of_images_is_served_within_a_latency() -> None:
    case = serve(RESNET, concurrency=64, limits={"max_ttft_ms": 20})
    found = api.recommend(case)

    assert found.batches
    assert "for a batch" in found.answer
    assert "images/s" in found.answer
    for ranking in found.rankings:
        for plan in ranking.plans:
            serving = plan.estimate.serving
            assert serving is not None
            assert serving.ttft_ms.expected <= 20
            assert serving.images_per_s is not None
            # 64 images in one batch: rate and latency are one another's inverse.
            assert serving.images_per_s.expected * serving.ttft_ms.expected == pytest.approx(64e3)


def test_larger_images_take_longer_in_proportion() -> None:
    def seconds(size: int) -> float:
        found = api.estimate(serve(RESNET, "h100-sxm", concurrency=256, image_size=size))
        assert found.serving is not None
        return found.serving.ttft_ms.expected

    # Four times the pixels; fixed costs of kernels weigh little at a batch of 256.
    assert seconds(448) == pytest.approx(4 * seconds(224), rel=0.05)


def test_adapters_sit_on_the_attention_of_a_diffusion_network() -> None:
    found = recommended(
        "sd-1.5-unet",
        kind="fine_tuning",
        method="lora",
        lora_rank=4,
        lora_targets=["q", "k", "v", "o"],
    )

    # diffusers' LoRA of rank 4 on q, k, v and o of Stable Diffusion 1.5: 797,184 parameters.
    assert found.parameters.trainable == 797_184


@pytest.mark.parametrize(
    ("model", "workload", "said"),
    [
        ("resnet-50", {"kind": "pretraining", "tokens": 1e9}, "takes images, not tokens"),
        ("resnet-50", {"kind": "fine_tuning", "method": "lora"}, "none of the matrices"),
        ("llama-3.1-8b", {"kind": "pretraining", "image_size": 224}, "image_size does not apply"),
    ],
)
def test_what_does_not_apply_is_refused(model: str, workload: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        recommended(model, **workload)


def test_pairs_answer_token_after_token() -> None:
    """Each of 8 requests caches 100 tokens, and keys and values of 1,500 positions, in 16 bits."""
    plan = recommended("whisper-large-v3", kind="serving").plans[0].estimate
    cached = 8 * 32 * 2 * 1280 * 2 * (1500 + 100)
    each = cached / plan.layout.accelerators
    assert plan.memory.kv_cache_bytes.expected == pytest.approx(each, rel=0.01)
    assert "encoder reads 1,500 positions" in " ".join(plan.assumptions)


def test_layouts_of_like_blocks_are_refused_for_images() -> None:
    case = pretrain(RESNET, "h100-sxm", 2)
    for layout in ({"tensor": 2}, {"data": 2, "recompute": "selective"}):
        with pytest.raises(InputError, match="does not suit resnet-50"):
            api.estimate({**case, "layout": layout})
