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


@pytest.mark.parametrize("model", ["deepseek-v3.2", "deepseek-v4-flash", "glm-5-fp8"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_attention_to_picked_keys_needs_hopper(model: str, engine: str) -> None:
    """vllm-project/vllm issues 38006, 40851; sgl-project/sglang issue 35420: no Ampere, no Ada."""
    found = answer(SERVE | {"engine": engine}, model)
    for card in ("a100-sxm-80gb", "l40s"):
        item = rejection(found, card)
        assert item.code == "software"
        assert "there" in item.message
    assert used(found) == {engine}


def test_workstation_blackwell_has_no_kernel_for_picked_keys_but_deepseek_v4s() -> None:
    """vllm-project/vllm pull 54929 (V3.2 and GLM-5 stand still on 12.x) and pull 41834 (V4)."""
    card = "rtx-pro-6000-blackwell-server"
    for model, runs in (
        ("deepseek-v3.2", False),
        ("glm-5-fp8", False),
        ("deepseek-v4-flash", True),
    ):
        found = answer(SERVE | {"engine": "vllm"}, model, accelerators=[card])
        assert bool(found.plans) is runs, model
        assert runs or rejection(found, card).code == "software"


def test_unsloth_learns_from_pairs_with_adapters_alone() -> None:
    """Its file refuses DPO of all weights, so no plan may name it."""
    work = {"kind": "fine_tuning", "tokens": 2e7, "preference": "dpo"}
    assert "unsloth" not in used(answer(work | {"method": "full"}))
    assert used(answer(work | {"method": "lora", "software": "unsloth"})) == {"unsloth"}


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


def test_a_card_that_a_release_left_out_gets_the_last_that_it_runs() -> None:
    """dev-discuss.pytorch.org, 2026-09-04: wheels for Volta end with PyTorch 2.14 (CUDA 12.6)."""
    work = {"kind": "pretraining", "samples": 1_281_167}
    for card, release in (("v100-pcie-16gb", "2.14.0"), ("t4", "2.15.0")):
        plan = answer(work, "resnet-50", owned=[{"accelerator": card}]).plans[0]
        assert f"Software: PyTorch {release}." in plan.sentence


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


@pytest.mark.parametrize(
    ("model", "tokens", "gigabytes"),
    [
        ("llama-3.1-8b", 2_972, 8),
        ("llama-3.1-8b", 21_848, 12),
        ("llama-3.1-8b", 40_724, 16),
        ("llama-3.1-8b", 78_475, 24),
        ("llama-3.1-8b", 153_977, 40),
        ("llama-3.1-8b", 191_728, 48),
        ("llama-3.1-8b", 342_733, 80),
        ("llama-3.3-70b", 12_106, 48),
        ("llama-3.3-70b", 89_389, 80),
    ],
)
def test_unsloth_holds_the_contexts_that_it_publishes(
    model: str, tokens: int, gigabytes: float
) -> None:
    """docs.unsloth.ai, Unsloth Benchmarks: the longest sequence of QLoRA with rank 32 on all
    layers, one at a time, on a card of so many GB. The input table was still on the card then:
    1.05 GB of 8B (128,256 x 4,096 in 16 bits), 2.1 GB of 70B. With the inputs of blocks on the card
    too, 78,475 tokens took 41 GiB."""
    work = {"kind": "fine_tuning", "method": "qlora", "lora_rank": 32, "software": "unsloth"}
    work |= {"sequence_length": tokens, "global_batch": 1, "optimizer": "adamw_8bit"}
    held = {"micro_batch": 1, "recompute": "full", "offload": ["activations"]}
    case = {"model": {"preset": model}, "workload": work, "layout": held}
    found = advisor.estimate({**case, "hardware": {"accelerator": "h100-pcie", "count": 1}})
    table = 2 * 128_256 * (8192 if "70b" in model else 4096)
    assert found.memory.total_bytes.expected + table == pytest.approx(gigabytes * 1e9, rel=0.08)
    assert not [text for text in found.assumptions if "offers no" in text]


def test_a_search_keeps_block_inputs_on_the_host_under_unsloth() -> None:
    work = {"kind": "fine_tuning", "method": "qlora", "software": "unsloth", "tokens": 1e7}
    work |= {"sequence_length": 40_000, "global_batch": 1}
    found = answer(work, owned=[{"accelerator": "rtx-4090"}])
    layout = found.plans[0].estimate.layout
    assert [item.value for item in layout.offload] == ["activations"]


def test_a_board_computes_in_fp32_what_is_published_in_16_bits() -> None:
    """ONNX Runtime has no fp16 on processors; Ultralytics runs YOLO11n in fp32 on a Raspberry Pi 5
    (docs.ultralytics.com, Raspberry Pi)."""
    found = answer({"kind": "serving"}, "yolo11n", owned=[{"accelerator": "raspberry-pi-5"}])
    assert found.plans[0].estimate.precision == "fp32"


@pytest.mark.parametrize("card", ["rtx-4070", "rx-7900-xt", "arc-b580"])
def test_a_large_diffusion_network_is_packed_where_16_bits_do_not_fit(card: str) -> None:
    """huggingface.co/HighCWu/FLUX.1-dev-4bit: 8.5 GB with its parts in turn, the encoder of text in
    4 bits too."""
    one = SERVE | {"concurrency": 1}
    plan = answer(one, "flux.1-dev", owned=[{"accelerator": card}]).plans[0].estimate
    assert plan.precision == "nf4"
    assert 6e9 < plan.memory.total_bytes.expected < 8.5e9
    whole = answer(one, "flux.1-dev", owned=[{"accelerator": "rtx-4090"}])
    assert whole.plans[0].estimate.precision == "bf16"


def test_an_encoder_is_not_offered_tools_for_models_that_write() -> None:
    """Liger Kernel's table of models and torchtune's folder of models name no BERT."""
    work = {"kind": "fine_tuning", "method": "full", "samples": 100_000}
    card = {"accelerator": "rtx-4090", "count": 1}
    found = advisor.estimate({"model": {"preset": "bert-base"}, "workload": work, "hardware": card})
    told = " ".join((*found.improvements, *found.assumptions))
    assert not [name for name in ("Liger", "torchtune", "TRL") if name in told]


@pytest.mark.parametrize(
    ("model", "card"), [("bert-base", "a100-sxm-80gb"), ("vit-base-patch16-224", "gaudi3")]
)
def test_small_networks_train_whole_on_each_card(model: str, card: str) -> None:
    """PyTorch Distributed Overview: DDP for a model that fits a single GPU. ZeRO-3 was planned."""
    work = {"kind": "fine_tuning", "method": "full", "samples": 1_000_000}
    found = answer(work, model, owned=[{"accelerator": card, "count": 8}])
    assert found.plans[0].estimate.layout.sharding == "ddp"
    assert found.plans[0].estimate.layout.tensor == 1


def test_the_next_usual_tool_is_planned_where_the_first_needs_too_much() -> None:
    """Unsloth publishes 2,972 tokens of QLoRA for Llama 3.1 8B on 8 GB, where Hugging Face runs out
    of memory (docs.unsloth.ai, Unsloth Benchmarks)."""
    work = {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7, "sequence_length": 2048}
    found = answer(work, owned=[{"accelerator": "rtx-3070"}])
    assert used(found) == {"unsloth"}
    assert "under TRL this needs too much memory on the card" in found.plans[0].sentence
    assert used(answer(work, owned=[{"accelerator": "rtx-3090"}])) == {"trl"}


def test_a_stated_tool_is_kept() -> None:
    """Where Unsloth is the usual one, TRL keeps activations on the host, or plans nothing."""
    work = {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7, "software": "trl"}
    card = [{"accelerator": "rtx-3070"}]
    hosted = answer(work | {"sequence_length": 2048}, owned=card)
    assert used(hosted) == {"trl"}
    assert hosted.plans[0].estimate.layout.offload
    assert not answer(work | {"sequence_length": 16_384}, owned=card).plans


@pytest.mark.parametrize(("card", "tool"), [("h100-sxm", "accelerate"), ("mi300x", "accelerate")])
def test_megatron_trains_no_layers_of_the_first_mamba(card: str, tool: str) -> None:
    """github NVIDIA/Megatron-LM, megatron/core/ssm/mamba_mixer.py: heads and groups of Mamba-2."""
    work = {"kind": "pretraining", "tokens": 1e10}
    assert used(answer(work, "mamba-2.8b", accelerators=[card])) == {tool}


def test_no_fused_kernels_are_named_where_triton_has_none() -> None:
    """Triton needs compute capability 7.0, a P100 has 6.0; LLaMA-Factory builds whole logits."""
    work = {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7, "sequence_length": 4096}
    case = {"model": {"preset": "qwen3-8b"}, "workload": work}
    found = advisor.estimate(case | {"hardware": {"accelerator": "p100-pcie-16gb", "count": 1}})
    told = " ".join((*found.improvements, *(way.change for way in found.ways_out)))
    assert told
    assert "Liger" not in told
    assert "loss in chunks" not in told


def exported(to: str, work: dict[str, Any], model: str, card: str, count: int = 1) -> str:
    case = {
        "model": {"preset": model},
        "workload": work,
        "hardware": {"accelerator": card, "count": count},
    }
    return advisor.export(case, to).content


def test_a_base_in_the_hosts_memory_is_planned_as_its_file_starts_it() -> None:
    """ZeRO-3 of DeepSpeed moves a base of one card; FSDP needs ranks to share with."""
    found = answer(LORA, "gemma-4-12b", owned=[{"accelerator": "rtx-4090"}])
    plan = found.plans[0].estimate
    assert plan.software is not None
    assert plan.software.name == "deepspeed"
    text = advisor.export(found.case, "torchrun", answer=found).content
    assert "--deepspeed ds_config.json" in text
    assert "Estimated as" not in text


def test_full_tuning_under_unsloth_has_no_master_copy() -> None:
    """Unsloth: "bfloat16 full finetuning which cuts memory usage by 50%" (models/vision.py)."""
    work = {"kind": "fine_tuning", "method": "full", "tokens": 1e7, "software": "unsloth"}
    found = answer(work, "llama-3.2-1b", owned=[{"accelerator": "rtx-4090"}])
    assert found.plans[0].estimate.precision == "bf16_pure"
    text = advisor.export(found.case, "unsloth", answer=found).content
    assert "FULL = True" in text
    assert "instead of" not in text


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-4b"])
def test_two_t4_train_together(model: str) -> None:
    """Kaggle lends two T4. Unsloth's files train on one card; LLaMA-Factory's adapters are fp32
    under fp16 (llamafactory 0.9.5, model/adapter.py), and DDP runs on both."""
    work = LORA | {"method": "qlora", "tokens": 2e6}
    found = answer(work, model, owned=[{"accelerator": "t4", "count": 2}])
    plan = found.plans[0].estimate
    assert (plan.count, plan.layout.sharding, plan.precision) == (2, "ddp", "fp16_mixed")
    assert "Unsloth trains on one card" in found.plans[0].sentence


def test_optimizers_of_bitsandbytes_train_under_deepspeed_instead_of_fsdp2() -> None:
    """bitsandbytes-foundation/bitsandbytes issue 1633: illegal memory access with FSDP2."""
    work = {"kind": "fine_tuning", "method": "full", "tokens": 1e8, "optimizer": "adamw_8bit"}
    text = exported("torchrun", work, "phi-4", "a100-sxm-80gb", 8)
    assert "--deepspeed ds_config.json" in text
    assert "--optim adamw_bnb_8bit" in text
    adapters = LORA | {"optimizer": "adamw_8bit"}
    found = answer(adapters, "llama-3.1-70b", accelerators=["h100-sxm"])
    plan = found.plans[0].estimate
    assert (plan.software and plan.software.name, plan.layout.sharding) == ("deepspeed", "zero3")
    assert "--deepspeed" in advisor.export(found.case, "torchrun", answer=found).content
    with pytest.raises(advisor.InputError, match="choose --to torchrun with DeepSpeed"):
        exported("axolotl", adapters, "llama-3.1-70b", "h100-sxm", 8)


def test_a_stated_place_of_the_states_is_searched_for_networks_of_samples_too() -> None:
    case = {
        "model": {"preset": "whisper-large-v3"},
        "workload": {"kind": "fine_tuning", "method": "full", "samples": 5e4},
        "layout": {"offload": ["optimizer"]},
        "limits": {"owned": [{"accelerator": "rtx-4090"}]},
    }
    found = advisor.recommend(advisor.load_case(case))
    assert found.plans[0].estimate.layout.offload == ("optimizer",)


def test_pictures_are_made_one_at_a_time_unless_told_otherwise() -> None:
    """One person waits for one picture, the default of diffusers' num_images_per_prompt."""
    found = answer({"kind": "serving"}, "sdxl-unet", owned=[{"accelerator": "rtx-4090"}])
    assert "1 image at a time" in found.plans[0].estimate.workload
    told = answer({"kind": "serving", "concurrency": 4}, "sdxl-unet", accelerators=["rtx-4090"])
    assert "batches of 4" in told.plans[0].estimate.workload


def test_images_with_vulkans_kernels_get_vulkans_variable() -> None:
    """ggml's Vulkan backend reads GGML_VK_VISIBLE_DEVICES, not HIP_VISIBLE_DEVICES."""
    text = exported("llama-cpp", {"kind": "serving"}, "qwen3-8b", "rx-7900-xtx")
    assert "export GGML_VK_VISIBLE_DEVICES=0" in text
    assert "HIP_VISIBLE_DEVICES" not in text


@pytest.mark.parametrize(("model", "runs"), [("qwen3-32b", True), ("qwen3.5-27b", False)])
def test_tensorrt_llm_serves_the_families_of_the_release_that_files_install(
    model: str, *, runs: bool
) -> None:
    """Wheel of tensorrt-llm 1.2.1, _torch/models: Qwen 3, not yet Qwen 3.5."""
    found = answer(SERVE | {"engine": "tensorrt-llm"}, model, accelerators=["h100-sxm"])
    assert bool(found.plans) is runs
