"""Launch configurations: what is written says the plan, in options that the programs document."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.errors import InputError
from tests.cases import pretrain, serve, tune
from tests.export.test_training_exports import agrees

DOCUMENTED = {
    program: set(item["options"])
    for program, item in yaml.safe_load(
        (Path(__file__).parent / "documented_options.yaml").read_text(encoding="utf-8")
    ).items()
}
LORA: dict[str, Any] = tune(
    "llama-3.1-8b",
    "h100-sxm",
    2,
    method="lora",
    tokens=40e6,
    lora_targets=["q"],
    layout={"micro_batch": 2, "recompute": "full", "sharding": "ddp"},
)
FULL: dict[str, Any] = tune(
    "llama-3.1-8b",
    "h100-sxm",
    16,
    method="full",
    tokens=40e6,
    layout={"sharding": "zero3", "recompute": "full", "micro_batch": 1},
)
PRETRAIN: dict[str, Any] = pretrain(
    "qwen3-30b-a3b",
    "h200-sxm",
    32,
    tokens=1e9,
    precision="bf16_mixed",
    layout={"tensor": 4, "pipeline": 2, "sharding": "zero1", "recompute": "full"},
)
SERVE: dict[str, Any] = serve(
    "llama-3.1-70b",
    "h100-sxm",
    8,
    input_tokens=3000,
    output_tokens=1000,
    concurrency=64,
    weight_format="fp8",
    kv_cache_format="fp8",
    layout={"tensor": 4},
)


def content(case: dict[str, Any], to: str, **further: Any) -> str:
    return advisor.export(case, to, **further).content


def options(text: str) -> list[str]:
    return re.findall(r"(?:^|\s)(--?[a-z][\w-]*)", text)


def command(text: str, start: str) -> str:
    """The command that starts with a word, comments and other lines left out."""
    lines = [line.removeprefix("#").strip() for line in text.splitlines()]
    first = next(i for i, line in enumerate(lines) if line.startswith(start))
    last = next(i for i in range(first, len(lines)) if not lines[i].endswith("\\"))
    return " ".join(line.removesuffix("\\") for line in lines[first : last + 1])


@pytest.mark.parametrize(
    ("case", "to", "start", "programs"),
    [(SERVE, "vllm", "vllm", ("vllm",)), (SERVE, "kubernetes", "vllm", ("vllm",))],
)
def test_every_option_is_documented(
    case: dict[str, Any], to: str, start: str, programs: tuple[str, ...]
) -> None:
    known = set().union(*(DOCUMENTED[program] for program in programs))
    found = options(command(content(case, to), start))
    assert found
    assert not set(found) - known


def test_vllm_serves_the_lengths_formats_and_copies_of_the_plan() -> None:
    text = command(content(SERVE, "vllm"), "vllm")
    for expected in (
        "vllm serve meta-llama/Meta-Llama-3.1-70B",
        "--tensor-parallel-size 4",
        "--data-parallel-size 2",
        "--max-model-len 4000",  # 3,000 + 1,000 tokens
        "--max-num-seqs 32",  # 64 requests over two copies
        "--gpu-memory-utilization 0.92",  # default of release 0.25
        "--quantization fp8",
        "--kv-cache-dtype fp8",
    ):
        assert expected in text


def test_trl_trains_as_many_steps_in_batches_of_the_plan() -> None:
    text = command(content(LORA, "torchrun"), "torchrun")
    for expected in (
        "--nproc-per-node 2",
        "-m trl.scripts.sft",
        "--per_device_train_batch_size 2",
        "--gradient_accumulation_steps 16",  # 64 sequences / (2 cards x 2)
        "--max_steps 153",  # 40e6 / (64 x 4,096) = 152.6
        "--lora_target_modules q_proj",
        "--gradient_checkpointing true",
    ):
        assert expected in text


def test_deepspeed_shares_out_what_the_plan_does() -> None:
    found = json.loads(content(FULL, "deepspeed"))
    assert found["zero_optimization"]["stage"] == 3
    assert found["gradient_accumulation_steps"] == 4  # 64 sequences over 16 cards
    assert found["bf16"] == {"enabled": True}


def test_accelerate_reads_one_process_for_each_card() -> None:
    found = yaml.safe_load(content(FULL, "accelerate"))
    assert (found["num_machines"], found["num_processes"]) == (2, 16)
    assert found["distributed_type"] == "FSDP"  # zero3 in fp32 weights
    assert found["fsdp_config"]["fsdp_reshard_after_forward"] is True


def test_megatron_has_the_published_shape_and_the_degrees_of_the_plan() -> None:
    text = command(content(PRETRAIN, "torchrun"), "torchrun")
    for expected in (  # config.json of Qwen/Qwen3-30B-A3B
        "--num-layers 48",
        "--hidden-size 2048",
        "--num-attention-heads 32",
        "--num-query-groups 4",
        "--kv-channels 128",
        "--num-experts 128",
        "--moe-router-topk 8",
        "--moe-ffn-hidden-size 768",
        "--vocab-size 151936",
        "--tensor-model-parallel-size 4",
        "--pipeline-model-parallel-size 2",
        "--nnodes 4",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("case", "to"), [(LORA, "torchrun"), (FULL, "slurm"), (PRETRAIN, "torchrun"), (SERVE, "vllm")]
)
def test_scripts_are_valid_shell(case: dict[str, Any], to: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text(content(case, to), encoding="utf-8")
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_kubernetes_gives_each_pod_its_cards_and_finds_the_first() -> None:
    claim, service, job = yaml.safe_load_all(content(FULL, "kubernetes"))
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]  # two machines share the checkpoints
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert job["spec"]["completions"] == 2
    name = job["metadata"]["name"]
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"] == name
    assert f"--master-addr {name}-0.{name}" in container["command"][2]


def test_skypilot_asks_for_the_machines_of_the_plan() -> None:
    found = yaml.safe_load(content(PRETRAIN, "skypilot"))
    assert found["num_nodes"] == 4
    assert found["resources"]["accelerators"] == "H200:8"


@pytest.mark.parametrize(
    ("change", "to", "words"),
    [
        ({"hardware": {"accelerator": "rtx-4090", "count": 1}, "layout": {}}, "vllm", "not fit"),
        ({}, "deepspeed", "does not launch serving"),
        ({}, "pdf", "unknown format"),
        ({"hardware": {"accelerator": "inferentia2", "count": 6}}, "sglang", "does not serve"),
        ({"model": {"parameters": 7e9}}, "vllm", "which weights"),
    ],
)
def test_what_would_not_start_is_refused(change: dict[str, Any], to: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        advisor.export({**SERVE, **change}, to)


def test_weights_in_a_format_that_no_engine_makes_need_a_checkpoint() -> None:
    case = {**SERVE, "workload": {**SERVE["workload"], "weight_format": "w4a16"}}
    with pytest.raises(InputError, match="--checkpoint"):
        advisor.export({**case, "model": {"preset": "yi-34b"}}, "vllm")
    assert "RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16" in content(case, "vllm")
    text = content(case, "vllm", checkpoint="org/awq")
    assert "vllm serve org/awq" in text
    assert "--quantization" not in text  # the checkpoint says it


def test_adapters_of_a_split_model_are_refused() -> None:
    case = {**LORA, "layout": {"tensor": 2}}
    with pytest.raises(InputError, match="adapters"):
        advisor.export(case, "torchrun")


def under_deepspeed(case: dict[str, Any], **layout: object) -> dict[str, Any]:
    workload = {**case["workload"], "software": "deepspeed"}
    return {**case, "workload": workload, "layout": {**case.get("layout", {}), **layout}}


def test_the_software_deepspeed_starts_with_a_configuration_of_its_own() -> None:
    assert "--deepspeed" not in content(LORA, "torchrun")
    assert "--deepspeed ds_config.json" in content(under_deepspeed(LORA), "torchrun")


def test_pretraining_under_deepspeed_has_the_stage_offload_and_batches_of_the_layout() -> None:
    case = under_deepspeed(
        pretrain(
            "llama-3.1-8b",
            "h100-sxm",
            8,
            tokens=1e9,
            sequence_length=4096,
            global_batch=256,
            precision="bf16_mixed",
        ),
        data=8,
        sharding="zero3",
        micro_batch=2,
        recompute="full",
        offload=["optimizer"],
    )
    found = json.loads(content(case, "deepspeed"))

    assert found["zero_optimization"]["stage"] == 3
    assert found["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert found["train_micro_batch_size_per_gpu"] == 2
    assert found["gradient_accumulation_steps"] == 16  # 256 sequences / (8 cards x 2)
    assert found["bf16"] == {"enabled": True}
    script = advisor.export(case, "torchrun").content  # Hugging Face's Trainer reads the same
    assert "SHARED = {'deepspeed': 'ds_config.json'}" in script
    assert '"stage": 3' in script
    assert "MICRO_BATCH = 2" in script
    assert "ACCUMULATION = 16" in script


def test_a_deepspeed_file_says_what_was_estimated() -> None:
    found = json.loads(content(under_deepspeed(LORA), "deepspeed"))["_comment"]
    assert any(line.startswith("Expect ") and "GiB" in line for line in found)
    assert any("DeepSpeed 0." in line for line in found)


def test_8b_trains_whole_on_24_gib_where_the_update_is_in_the_backward_pass() -> None:
    """torchtune publishes 18.9 GiB for Llama 3.1 8B (README.md, memory and training speed).

    Its recipe computes the loss in chunks; it then accumulates no gradients and clips none
    (full_finetune_single_device.py).
    """
    case = tune(
        "llama-3.1-8b",
        "rtx-4090",
        1,
        method="full",
        tokens=1e7,
        precision="bf16_pure",
        optimizer="paged_adamw_8bit",
        optimizer_in_backward=True,
        cross_entropy="chunked",
    )
    found = advisor.estimate(case)
    assert found.memory.total_bytes.low < 18.9 * 2**30 < found.memory.total_bytes.high
    text = content(case, "torchtune")
    start = next(i for i, line in enumerate(text.splitlines()) if not line.startswith("#"))
    settings = yaml.safe_load("\n".join(text.splitlines()[start:]))
    assert settings["optimizer_in_bwd"] is True
    assert settings["gradient_accumulation_steps"] == 1
    assert settings["clip_grad_norm"] is None
    # TRL has no such option.
    with pytest.raises(InputError, match="updates no weights in the backward"):
        advisor.estimate({**case, "workload": {**case["workload"], "software": "trl"}})


def test_lora_of_stable_diffusion_3_5_starts_its_own_script() -> None:
    """examples/dreambooth/README_sd3.md of diffusers 0.40.0; attention alone is adapted."""
    lora = {"method": "lora", "samples": 10_000, "software": "diffusers"}
    text = content(tune("sd-3.5-large", "l40s", 1, **lora), "torchrun")
    assert "diffusers/examples/dreambooth/train_dreambooth_lora_sd3.py" in text
    assert "--instance_prompt" in text
    assert "--lora_alpha" not in text
    # T5 XXL alone has 4.76 billion parameters, which the script keeps beside the network.
    with pytest.raises(InputError, match="for the rest of the pipeline"):
        content(tune("sd-3.5-large", "rtx-4090", 1, **lora), "torchrun")


@pytest.mark.parametrize(
    ("model", "method", "card"),
    [("flux.1-dev", "qlora", "rtx-5080"), ("sd-3.5-large", "lora", "rtx-4090")],
)
def test_adapters_of_large_diffusion_transformers_fit_on_small_cards(
    model: str, method: str, card: str
) -> None:
    """SimpleTuner v4.8.0, quickstart/FLUX.md: rank 16 takes a bit more than 9 GB with NF4.

    Its text encoders leave the card before training (README.md, advanced caching).
    """
    case = tune(model, card, 1, method=method, samples=10_000)
    text = content(case, "torchrun")
    assert "pip install 'simpletuner[cuda]==4.8.0'" in text
    agrees(text, "torchrun", case)
    if method == "qlora":
        one = {"global_batch": 1, "lora_targets": ["q", "k", "v", "o"]}
        found = advisor.estimate(tune(model, card, 1, method=method, samples=10_000, **one))
        assert found.memory.total_bytes.low < 9.5e9 < found.memory.total_bytes.high


def test_kimi_k2_in_4_bits_loads_what_is_published() -> None:
    """RedHatAI/Kimi-K2-Instruct-quantized.w4a16; K2 Thinking is published in int4 itself."""
    case = serve("kimi-k2", "h200-sxm", 8, weight_format="w4a16", concurrency=8)
    served = content(case, "vllm")
    assert "vllm serve RedHatAI/Kimi-K2-Instruct-quantized.w4a16" in served
    native = content(serve("kimi-k2-thinking", "h200-sxm", 8, concurrency=8), "vllm")
    assert "vllm serve moonshotai/Kimi-K2-Thinking" in native
