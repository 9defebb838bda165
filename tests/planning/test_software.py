"""The search plans what the software runs on a card; a card without software is told why."""

from typing import Any

import pytest

import advisor
from advisor.planning.results import Recommendation, Rejection, RejectionCode

LORA = {"kind": "fine_tuning", "method": "lora", "tokens": 1e7}
SERVE = {"kind": "serving", "concurrency": 8}


def answer(workload: dict[str, Any], model: str = "llama-3.1-8b", **limits: Any) -> Recommendation:
    case = {"model": {"preset": model}, "workload": workload, "limits": limits}
    return advisor.recommend(case)


def rejection(found: Recommendation, card: str) -> Rejection:
    [item] = [item for item in found.rejections if item.accelerator == card]
    return item


def used(found: Recommendation) -> set[str]:
    plans = [plan for ranking in found.rankings for plan in ranking.plans]
    return {plan.estimate.software.name for plan in plans if plan.estimate.software}


@pytest.mark.parametrize("card", ["p100-pcie-16gb", "v100-sxm2-16gb"])
def test_cards_that_the_engine_refuses_are_rejected_with_one_that_serves(card: str) -> None:
    """docs.vllm.ai: compute capability 7.5 or higher."""
    item = rejection(answer(SERVE | {"engine": "vllm"}), card)
    assert item.code == "software"
    assert "vLLM" in item.message
    assert ("LMDeploy" if card.startswith("v100") else "llama.cpp") in item.remedy


def test_gaudi_trains_under_its_own_software_alone() -> None:
    """README of Optimum Habana; Megatron-Core's install guide names NVIDIA alone."""
    item = rejection(answer(LORA | {"software": "megatron"}), "gaudi2")
    assert item.code == "software"
    assert "Optimum Habana" in item.remedy
    assert used(answer(LORA, accelerators=["gaudi2"])) == {"optimum-habana"}


@pytest.mark.parametrize(
    ("vendor", "workload", "tools"),
    [
        ("Google", LORA, {"maxtext"}),
        ("AWS", LORA, {"optimum-neuron"}),
        ("AMD", LORA, {"trl"}),
        ("AMD", SERVE, {"vllm", "llama-cpp"}),  # the latter on its processors
        ("Google", SERVE, {"vllm"}),
    ],
)
def test_the_default_follows_card_and_task(
    vendor: str, workload: dict[str, Any], tools: set[str]
) -> None:
    found = answer(workload, vendors=[vendor])
    assert used(found) == tools
    item = rejection(found, "h100-sxm")
    assert item.code == "excluded"
    assert vendor in item.message


def test_whisper_runs_only_where_an_engine_serves_it() -> None:
    found = answer(SERVE, "whisper-large-v3")
    assert used(found) <= {"vllm", "faster-whisper", "whisper-cpp", "optimum-habana"}
    assert rejection(found, "tpu-v6e").code == "software"


@pytest.mark.parametrize(
    ("model", "card", "work", "tool"),
    [
        ("whisper-large-v3", "rtx-3060-12gb", {}, "faster-whisper"),
        ("whisper-large-v3", "rtx-3060-12gb", {"audio_hours": "20/day"}, "faster-whisper"),
        ("whisper-large-v3", "apple-m4", {"audio_hours": "20/day"}, "whisper-cpp"),
        ("whisper-large-v3", "h100-pcie", {"audio_hours": "20/day"}, "vllm"),
        # A board's own processor launches PyTorch's kernels too slowly: YOLOv8n takes 21.9 ms on an
        # Orin Nano, 7.3 in TensorRT (the0807/YOLOv8-ONNX-TensorRT).
        ("yolov8n", "jetson-orin-nano-super", {}, "tensorrt"),
    ],
)
def test_home_cards_and_boards_run_what_their_owners_run(
    model: str, card: str, work: dict[str, Any], tool: str
) -> None:
    owned = {"owned": [{"accelerator": card}]}
    found = advisor.recommend(
        {"model": {"preset": model}, "workload": {"kind": "serving", **work}, "limits": owned}
    )
    assert used(found) == {tool}


def test_selective_recomputation_needs_a_tool_that_offers_it() -> None:
    """Hugging Face's Trainer recomputes whole blocks, Megatron-Core single operations."""
    layout = {"recompute": "selective"}
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "layout": layout,
        "limits": {"vendors": ["NVIDIA"]},
    }
    tuned = advisor.recommend(case | {"workload": LORA | {"software": "huggingface"}})
    assert tuned.plans == ()
    assert rejection(tuned, "h100-sxm").message.endswith("offers no selective recomputation.")
    trained = advisor.recommend(case | {"workload": {"kind": "pretraining", "tokens": 1e10}})
    assert used(trained) == {"megatron-core"}


def test_4_bit_weights_are_sharded_by_fsdp_alone() -> None:
    """bitsandbytes, FSDP-QLoRA: 70B on two cards of 24 GB. ZeRO-3 loads all of it on each card."""
    work = LORA | {"method": "qlora"}
    owned = [{"accelerator": "rtx-4090", "count": 2}]
    found = answer(work, "llama-3.1-70b", owned=owned)
    assert found.plans[0].estimate.layout.sharding == "zero3"
    zero = answer(work | {"software": "deepspeed"}, "llama-3.1-70b", owned=owned)
    assert all(plan.estimate.layout.sharding != "zero3" for plan in zero.plans)


def test_a_plan_names_its_tool_and_release() -> None:
    plan = answer(LORA, accelerators=["h100-sxm"]).plans[0]
    tool = plan.estimate.software
    assert tool is not None
    assert tool.release
    assert f"Software: TRL {tool.release}." in plan.sentence
    assert any(
        line.startswith(f"TRL {tool.release}, estimated as") for line in plan.estimate.assumptions
    )


def test_a_card_without_published_runs_wins_by_its_high_end_alone() -> None:
    """Its month then counts as that of the machines which give the expected output at worst."""
    found = answer({"kind": "serving", "concurrency": 32}, "llama-3.1-70b")
    first, *others = found.plans
    assert first.estimate.cost.rent_usd is not None
    for plan in others:
        rent, serving = plan.estimate.cost.rent_usd, plan.estimate.serving
        assert rent is not None
        assert serving is not None
        if rent.expected < first.estimate.cost.rent_usd.expected:
            assert "No published run on this card" in plan.sentence
            slower = serving.tpot_ms.high / serving.tpot_ms.expected
            assert rent.high * slower >= first.estimate.cost.rent_usd.high


def test_limits_on_software_and_frameworks() -> None:
    assert used(answer(LORA, software=["unsloth"])) == {"unsloth"}
    assert used(answer(LORA, frameworks=["jax"])) == {"maxtext"}
    with pytest.raises(advisor.InputError, match="unknown"):
        answer(LORA, frameworks=["caffe"])
    with pytest.raises(advisor.InputError, match="was retired on 2025-07-15"):
        answer(LORA | {"software": "torchtune"})


def test_every_reason_has_words() -> None:
    labels = {code.label for code in RejectionCode}
    assert len(labels) == len(RejectionCode)
    assert not labels & {code.value for code in RejectionCode}


@pytest.mark.parametrize("model", ["bert-base", "bge-m3", "roberta-large"])
def test_an_encoder_is_not_fine_tuned_by_what_trains_models_that_write(model: str) -> None:
    """TRL's losses are those of the next token and of preferences (its trainer/sft_trainer.py);
    Hugging Face's own examples tune encoders with the Trainer."""
    work = {"kind": "fine_tuning", "method": "full", "tokens": 1e7, "sequence_length": 512}
    found = answer(work, model)
    assert used(found).isdisjoint({"trl", "liger", "llama-factory", "torchtune", "mlx-lm"})
    assert found.rankings[0].plans[0].estimate.software is not None
    assert found.rankings[0].plans[0].estimate.software.name == "accelerate"
    assert "trl" in used(answer(work))
