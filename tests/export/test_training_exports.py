"""Training exports: the head of each file is the estimate of what the file says."""

import ast
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import advisor
from advisor.errors import InputError
from advisor.export.setup import Setup
from advisor.export.training.described import FACTS
from advisor.export.training.samples import DIFFUSERS, SIMPLETUNER, TIMM, WHISPER
from advisor.export.training.tool import Tool
from advisor.export.training.tools import NAMED, OWN
from advisor.foundation.formatting import duration, memory
from tests.cases import pretrain
from tests.export.reading import constants, meaning, one, read
from tests.export.stubs import Stubs

Case = dict[str, Any]
ONE_4090: Case = {
    "hardware": {"accelerator": "rtx-4090", "count": 1},
    "limits": {"owned": [{"accelerator": "rtx-4090", "count": 1}]},
}
KUBERNETES = "1.34"


def tuned(model: str, method: str, **fields: Any) -> Case:
    return {
        "model": {"preset": model},
        "workload": {"kind": "fine_tuning", "method": method, **fields},
    }


WORK: dict[str, Case] = {
    "LoRA 8B": tuned("llama-3.1-8b", "lora", tokens=20e6),
    "QLoRA 70B": tuned("llama-3.1-70b", "qlora", tokens=20e6),
    "full 8B": tuned("llama-3.1-8b", "full", tokens=40e6),
    "DPO 7B": tuned("mistral-7b-v0.3", "full", tokens=20e6, preference="dpo"),
    "pretrain 1B": {
        "model": {"preset": "llama-3.2-1b"},
        "workload": {"kind": "pretraining", "tokens": 20e9},
    },
    "pretrain 70B": {
        "model": {"preset": "llama-3.1-70b"},
        "workload": {"kind": "pretraining", "tokens": 1e12},
    },
    "ResNet-50": {"model": {"preset": "resnet-50"}, "workload": {"kind": "pretraining"}},
    "Whisper": tuned("whisper-large-v3", "full", samples=100_000),
    "SDXL LoRA": tuned("sdxl-unet", "lora", samples=50_000),
    "T5": tuned("t5-large", "full", samples=100_000),
}
COUNTS = {
    "LoRA 8B": 1,
    "QLoRA 70B": 2,
    "full 8B": 8,
    "DPO 7B": 8,
    "pretrain 1B": 8,
    "pretrain 70B": 512,
    "ResNet-50": 8,
    "Whisper": 1,
    "SDXL LoRA": 1,
    "T5": 1,
}
NVIDIA = {"LoRA 8B": "rtx-4090", "QLoRA 70B": "rtx-4090", "SDXL LoRA": "rtx-4090"}
CARDS = {
    "AMD": "mi300x",
    "Gaudi": "gaudi2",
    "TPU": "tpu-v5p",
    "Apple": "apple-m4-max",
    "AWS": "trainium1",
}
OTHERS = ("AMD", "Gaudi", "TPU", "AWS")
REFUSED = {
    ("torchrun", "Gaudi", "QLoRA 70B"): "Optimum Habana offers no qlora",
    ("torchrun", "Gaudi", "DPO 7B"): "NVIDIA or AMD",
    ("torchrun", "Gaudi", "pretrain 1B"): "NVIDIA or AMD",
    ("torchrun", "Gaudi", "pretrain 70B"): "NVIDIA or AMD",
    ("torchrun", "Gaudi", "SDXL LoRA"): "examples/stable-diffusion",
    ("torchrun", "Gaudi", "T5"): "examples/summarization",
    ("torchrun", "AWS", "QLoRA 70B"): "Optimum Neuron offers no qlora",
    ("torchrun", "AWS", "DPO 7B"): "Optimum Neuron",
    ("torchrun", "AWS", "pretrain 1B"): "NxD Training pretrains",
    ("torchrun", "AWS", "pretrain 70B"): "NxD Training pretrains",
    ("torchrun", "AWS", "ResNet-50"): "NeuronTrainer",
    ("torchrun", "AWS", "Whisper"): "NeuronTrainer",
    ("torchrun", "AWS", "SDXL LoRA"): "no known software does training of a diffusion",
    ("torchrun", "AWS", "T5"): "NeuronTrainer",
    ("torchrun", "TPU", "LoRA 8B"): "--checkpoint",
    ("torchrun", "TPU", "QLoRA 70B"): "MaxText offers no qlora",
    ("torchrun", "TPU", "DPO 7B"): "pretraining",
    ("torchrun", "TPU", "full 8B"): "--checkpoint",
    ("torchrun", "TPU", "pretrain 1B"): "llama3.1-8b",
    ("torchrun", "TPU", "ResNet-50"): "PyTorch/XLA",
    ("torchrun", "TPU", "Whisper"): "PyTorch/XLA",
    ("torchrun", "TPU", "SDXL LoRA"): "MaxDiffusion",
    ("torchrun", "TPU", "T5"): "PyTorch/XLA",
}
"""What a pair that no file starts names instead."""
TUNES = ("LoRA 8B", "QLoRA 70B", "full 8B", "DPO 7B")


def placed(work: str, vendor: str) -> Case:
    card = CARDS.get(vendor) or NVIDIA.get(work, "h100-sxm")
    return {**WORK[work], "hardware": {"accelerator": card, "count": COUNTS[work]}}


def pairs() -> Iterator[tuple[str, str, str]]:
    for work in WORK:
        for vendor in ("NVIDIA", *OTHERS):
            yield "torchrun", vendor, work
    for to in ("accelerate", "axolotl", "llama-factory"):
        for vendor in ("NVIDIA", "AMD"):
            yield from ((to, vendor, work) for work in TUNES)
    for work in ("QLoRA 70B", "full 8B"):
        yield "torchtune", "NVIDIA", work
    yield "unsloth", "NVIDIA", "LoRA 8B"
    yield "mlx-lm", "Apple", "LoRA 8B"
    yield "gaudi", "Gaudi", "full 8B"
    yield "maxtext", "TPU", "pretrain 70B"
    yield "torchtitan", "NVIDIA", "pretrain 70B"
    yield "torchtitan", "AMD", "pretrain 70B"


def said(text: str) -> str:
    [line] = [line for line in text.splitlines() if line.startswith("# Expect ")]
    return line


def agrees(text: str, to: str, case: Case) -> None:
    """The estimate of what the file says is what its head says."""
    hardware = case["hardware"]
    found = advisor.estimate(
        {"model": case["model"], "hardware": hardware, **meaning(text, to, hardware["count"])}
    )
    assert found.time is not None
    assert found.memory.fits
    assert found.workload in text.splitlines()[0 if text.startswith("# ") else 1]
    hours = found.time.run_hours.scaled(3600.0)
    assert memory(found.memory.total_bytes, with_range=True) in said(text)
    assert duration(hours, with_range=True) in said(text)


@pytest.mark.parametrize(("to", "vendor", "work"), list(pairs()))
def test_the_head_is_the_estimate_of_the_file(to: str, vendor: str, work: str) -> None:
    case = placed(work, vendor)
    if instead := REFUSED.get((to, vendor, work)):
        with pytest.raises(InputError, match=re.escape(instead)):
            advisor.export(case, to)
        return
    agrees(advisor.export(case, to).content, to, case)


LORA: Case = {**WORK["LoRA 8B"], "hardware": {"accelerator": "h100-sxm", "count": 2}}
EIGHT_BILLION: Case = {"model": {"preset": "llama-3.1-8b"}}
INSTRUCT = "meta-llama/Llama-3.1-8B-Instruct"


def under(software: str, case: Case) -> Case:
    return {**case, "workload": {**case["workload"], "software": software}}


@pytest.mark.parametrize(
    ("software", "words"),
    [("axolotl", "-m axolotl.cli.train axolotl.yaml"), ("trl", "-m trl.scripts.sft")],
)
def test_a_named_program_is_the_one_that_a_cluster_starts(software: str, words: str) -> None:
    for to in ("slurm", "kubernetes", "skypilot", "dstack", "compose"):
        assert words in advisor.export(under(software, LORA), to).content


def test_a_named_program_that_no_file_starts_is_not_replaced() -> None:
    case = {**WORK["pretrain 70B"], "hardware": {"accelerator": "mi300x", "count": 64}}
    with pytest.raises(InputError, match="no export starts Primus"):
        advisor.export(under("primus", case), "slurm")


def test_a_model_that_chats_gets_dialogues_and_its_template() -> None:
    base = advisor.export(LORA, "torchrun").content
    assert "trl-lib/tldr}" in base
    assert "no chat template" in base
    chat = advisor.export(LORA, "torchrun", checkpoint=INSTRUCT).content
    assert "trl-lib/Capybara}" in chat
    axolotl = yaml.safe_load(advisor.export(LORA, "axolotl", checkpoint=INSTRUCT).content)
    assert axolotl["chat_template"] == "tokenizer_default"
    assert "chat_template" not in yaml.safe_load(advisor.export(LORA, "axolotl").content)
    factory = yaml.safe_load(advisor.export(LORA, "llama-factory", checkpoint=INSTRUCT).content)
    assert factory["template"] == "llama3"
    assert yaml.safe_load(advisor.export(LORA, "llama-factory").content)["template"] == "empty"


@pytest.mark.parametrize(("to", "key"), [("axolotl", "use_mlflow"), ("llama-factory", "report_to")])
def test_training_reports_to_mlflow_where_asked(to: str, key: str) -> None:
    assert yaml.safe_load(advisor.export(LORA, to, log_to="mlflow").content)[key]
    assert yaml.safe_load(advisor.export(LORA, to).content).get(key) in (None, "none")
    script = advisor.export(LORA, "torchrun", log_to="mlflow").content
    assert "--report_to mlflow" in script
    assert "MLFLOW_TRACKING_URI" in script
    assert " mlflow==" in script


def test_a_program_that_does_not_log_there_says_so() -> None:
    case = placed("pretrain 1B", "NVIDIA")
    with pytest.raises(InputError, match="does not log there"):
        advisor.export(case, "torchrun", log_to="mlflow")


def test_a_fine_tuning_loads_weights_or_is_refused() -> None:
    """Never pretraining from random weights under the name of a fine-tuning."""
    case = under("megatron", placed("full 8B", "NVIDIA"))
    with pytest.raises(InputError, match="--checkpoint"):
        advisor.export(case, "torchrun")
    text = advisor.export(case, "torchrun", checkpoint="converted/llama").content
    assert "--load converted/llama" in text
    assert "--finetune" in text
    assert "--mock-data" not in text
    agrees(text, "torchrun", case)


def test_a_base_in_4_bits_is_never_shared_out_by_deepspeed() -> None:
    text = advisor.export(placed("QLoRA 70B", "NVIDIA"), "torchrun").content
    assert "--deepspeed" not in text
    assert "transformers==4." in text  # 5 loads the whole base on each card
    case = under("deepspeed", placed("QLoRA 70B", "NVIDIA"))
    with pytest.raises(InputError):
        advisor.export(case, "torchrun")


def test_slurm_limits_the_job_to_the_high_end_of_its_run() -> None:
    text = advisor.export(placed("full 8B", "NVIDIA"), "slurm").content
    high = re.search(r"; \d+ min \(\d+\D(\d+)\)", said(text))
    assert high
    limit = re.search(r"--time=(\d+)-(\d+):00:00", text)
    assert limit
    hours = 24 * int(limit[1]) + int(limit[2])
    assert hours - 1 < int(high[1]) / 60 <= hours


def test_a_run_of_days_is_a_chain_of_jobs_that_go_on_from_the_last_checkpoint() -> None:
    """slurm.schedmd.com/sbatch.html: --dependency=singleton, --requeue."""
    case = {**WORK["pretrain 70B"], "hardware": {"accelerator": "h100-sxm", "count": 512}}
    text = advisor.export(case, "slurm").content
    assert "#SBATCH --time=1-00:00:00\n" in text
    assert {"#SBATCH --requeue", "#SBATCH --dependency=singleton"} <= set(text.splitlines())
    assert "--load" in text
    parts = re.search(r"for part in \$\(seq (\d+)\)", text)
    assert parts
    time = advisor.estimate(case).time
    assert time is not None
    assert duration(time.run_hours.expected * 3600) in said(text)
    days = time.run_hours.high / 24  # a job lasts a day, and some of it is lost
    assert days <= int(parts[1]) <= 1.1 * days + 2


@pytest.mark.parametrize("to", ["torchrun", "slurm", "kubernetes"])
def test_trl_goes_on_from_the_last_whole_checkpoint(to: str, tmp_path: Path) -> None:
    """transformers 5.23.0, trainer.py, ``_save_checkpoint``: trainer_state.json comes last."""
    text = advisor.export({**WORK["LoRA 8B"], **ONE_4090}, to).content
    if to == "kubernetes":
        *_, job = yaml.safe_load_all(text)
        [container] = job["spec"]["template"]["spec"]["containers"]
        text = container["command"][2].replace("$$(", "$(").replace("cd /training", "")
    kept = 'export OUTPUT="$HOME/../kept"\n'
    saved = "".join(
        f'mkdir -p "$OUTPUT/checkpoint-{step}"\n{mark} "$OUTPUT/checkpoint-{step}/{name}"\n'
        for step, mark, name in (
            (900, "touch", "trainer_state.json"),
            (1000, "touch", "trainer_state.json"),
            (1100, "touch", "model.safetensors"),
        )
    )
    stubs = Stubs(tmp_path)
    [first] = [call for call in stubs.run(kept + text).calls if call[0] == "torchrun"]
    [again] = [call for call in stubs.run(kept + saved + text).calls if call[0] == "torchrun"]
    assert "--resume_from_checkpoint" not in first
    place = again.index("--resume_from_checkpoint")
    assert again[place + 1].endswith("/kept/checkpoint-1000")
    assert again[:place] + again[place + 2 :] == first
    assert int(first[first.index("--save_steps") + 1]) >= 1


def test_full_training_of_long_sequences_splits_them_and_pairs_are_not_split() -> None:
    """accelerate 1.15.0, parallelism_config.py: cp_size needs FSDP2; whole gradients do not wait.

    trl 1.16.0, dpo_trainer.py: completion_mask has no place among the buffers that
    transformers 5.23.0 splits (trainer.py, _prepare_context_parallel_inputs).
    """
    case = tuned("llama-3.1-8b", "full", tokens=50e6, sequence_length=131072)
    case["hardware"] = {"accelerator": "h100-sxm", "count": 8}
    text = advisor.export(case, "torchrun").content
    assert "trl.scripts.sft" in text
    assert "export PARALLELISM_CONFIG_CP_SIZE=" in text
    assert "sync_each_batch" in text
    agrees(text, "torchrun", case)
    pairs = tuned("llama-3.1-8b", "full", tokens=5e6, sequence_length=65536, preference="dpo")
    pairs |= {"hardware": case["hardware"], "layout": {"context": 8}}
    with pytest.raises(InputError, match="its trainer of pairs splits none"):
        advisor.export(pairs, "torchrun")


@pytest.mark.parametrize(
    ("model", "card", "count", "more", "by"),
    [
        ("llama-3.2-3b", "gh200-96gb", 1, {}, ""),
        ("llama-3.1-8b", "h100-sxm", 8, {}, "fsdp"),
        ("llama-3.1-8b", "h100-sxm", 8, {"preference": "dpo"}, "fsdp"),
        ("llama-3.1-8b", "h100-sxm", 8, {"precision": "bf16_mixed"}, "deepspeed"),
        ("qwen3-8b", "a100-sxm-80gb", 1, {}, "deepspeed"),  # with states in the host's memory
        ("llama-3.1-8b", "gaudi2", 8, {}, "deepspeed"),
    ],
)
def test_full_training_is_planned_as_its_file_runs_it(
    model: str, card: str, count: int, more: dict[str, str], by: str
) -> None:
    """transformers keeps fp32 weights under autocast (its guide to GPU memory); FSDP shares out
    fp32 weights (accelerate 1.15.0, utils/fsdp_utils.py), DeepSpeed narrow ones with a copy.

    trl 1.16.0, dpo_trainer.py: pairs do not build the whole logits either.
    optimum-habana 1.20.0, run_clm.py: bf16 weights.
    """
    case = tuned(model, "full", tokens=50e6, **more)
    case |= {"hardware": {"accelerator": card, "count": count}}
    plan, text = advisor.estimate(case), advisor.export(case, "torchrun").content
    assert plan.time is not None
    assert duration(plan.time.run_hours.expected * 3600) in said(text)
    assert memory(plan.memory.total_bytes, with_range=True) in said(text)
    assert [name for name in ("fsdp", "deepspeed") if f"--{name} " in text] == [by][: bool(by)]
    assert ("--dtype float32" in text) == (by != "deepspeed")


def test_pure_bf16_gets_no_fp32_copy() -> None:
    """deepspeed 0.19.8, precision_config.py; accelerate 1.15.0, fsdp_utils.py (fp32 weights)."""
    case = tuned("llama-3.1-8b", "full", tokens=20e6, precision="bf16_pure")
    case |= {"hardware": {"accelerator": "h100-sxm", "count": 8}, "layout": {"sharding": "zero3"}}
    text = advisor.export(case, "torchrun").content
    assert '"bf16_master_weights_and_grads": true' in text
    agrees(text, "torchrun", case)
    for layout in ({"context": 8, "sharding": "zero3"}, {"offload": ["optimizer"]}):
        with pytest.raises(InputError, match="trains fp32 weights"):
            advisor.export({**case, "layout": layout}, "torchrun")


@pytest.mark.parametrize("to", ["torchrun", "axolotl", "llama-factory"])
def test_a_checkpoint_in_fp8_is_tuned_from_a_copy(to: str) -> None:
    """With 4 bits asked, transformers 5.23.0 keeps the fp8 of the checkpoint (quantizers/auto.py);
    its trainer tunes no such weights (trainer_utils.py, validate_quantization_for_training).
    """
    case = tuned("deepseek-v3", "qlora", tokens=1e6)
    with pytest.raises(InputError, match="fp8") as refused:
        advisor.export(case, to)
    assert "--checkpoint" in refused.value.remedy
    assert "/models/v3-bf16" in advisor.export(case, to, checkpoint="/models/v3-bf16").content
    assert any("copy in bf16" in text for text in advisor.recommend(case).assumptions)


def test_adapters_are_on_matrices_that_the_model_has() -> None:
    """transformers 5.23.0: modeling_deepseek_v3.py, modeling_deepseek_v2.py, modeling_phi3.py."""

    def adapted(model: str, *names: str) -> list[str]:
        case = tuned(model, "lora", tokens=1e6, lora_targets=names)
        case["hardware"] = {"accelerator": "b200-sxm", "count": 16 if "v3" in model else 1}
        whole = dict.fromkeys(("tensor", "pipeline", "context", "expert"), 1)
        case["layout"] = {**whole, "sharding": "zero3"} if "v3" in model else None
        text = advisor.export(case, "axolotl", checkpoint="/models/copy").content
        found: list[str] = yaml.safe_load(text)["lora_target_modules"]
        return found

    latent = ["kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
    assert adapted("deepseek-v3", *"qkvo") == ["q_a_proj", "q_b_proj", *latent]
    assert adapted("deepseek-v2-lite", *"qkvo") == ["q_proj", *latent]
    assert adapted("phi-3-mini", *"qkvo") == ["qkv_proj", "o_proj"]
    assert adapted("llama-3.1-8b", "q", "v") == ["q_proj", "v_proj"]
    with pytest.raises(InputError, match="in one matrix"):
        adapted("phi-3-mini", "q", "v")


def test_a_pod_that_is_taken_away_starts_again_where_its_run_goes_on() -> None:
    """kubernetes.io, Jobs: a pod failure policy may ignore DisruptionTarget."""
    *_, job = yaml.safe_load_all(
        advisor.export({**WORK["LoRA 8B"], **ONE_4090}, "kubernetes").content
    )
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    taken = {"type": "DisruptionTarget", "status": "True"}
    assert rule == {"action": "Ignore", "onPodConditions": [taken]}
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_a_training_pod_requests_processors_and_memory() -> None:
    case = {**WORK["LoRA 8B"], **ONE_4090}
    *_, job = yaml.safe_load_all(advisor.export(case, "kubernetes").content)
    [container] = job["spec"]["template"]["spec"]["containers"]
    requests = container["resources"]["requests"]
    assert int(requests["cpu"]) >= 1
    assert int(requests["memory"].removesuffix("Gi")) >= 30  # 16 GiB beside 8.03e9 x 2 bytes


def test_a_spot_task_starts_again_with_a_python_that_its_software_runs() -> None:
    """trl 1.16.0 asks for Python 3.11; skypilot 0.14.1 takes the machine's (skylet/constants.py:
    SKY_USER_ENV_CREATION_COMMANDS), 3.10 on Ubuntu 22.04, or the image's. dstack 0.22.5 retries
    only what ``retry`` names (core/models/profiles.py).
    """
    case = {**LORA, "limits": {"price_kind": "spot", "providers": ["AWS", "GCP", "Lambda"]}}
    task = yaml.safe_load(advisor.export(case, "skypilot").content)
    assert task["resources"]["image_id"] == "docker:huggingface/trl:1.16.0"
    text = advisor.export(case, "dstack").content
    assert "interruption" in yaml.safe_load(text)["retry"]["on_events"]
    assert "set OUTPUT" in text


def test_skypilot_rents_where_the_plan_is_priced_with_room_for_the_weights() -> None:
    case = {**LORA, "limits": {"providers": ["AWS", "GCP", "Lambda"]}}
    text = advisor.export(case, "skypilot").content
    resources = yaml.safe_load(text)["resources"]
    provider = re.search(r"Planned at (\w+)", text)
    assert provider
    assert resources["infra"] == provider[1].lower()
    assert resources["disk_size"] >= 100 + 16  # 8 billion weights in 16 bits


def test_gpt2_is_written_with_its_positions_and_biases() -> None:
    case = pretrain("gpt2", "h100-sxm", 8, tokens=1e9, software="megatron-core")
    text = advisor.export(case, "torchrun").content
    assert "--position-embedding-type learned_absolute" in text
    assert "--normalization LayerNorm" in text
    assert "--swiglu" not in text
    assert "--disable-bias-linear" not in text
    agrees(text, "torchrun", case)


@pytest.mark.parametrize(
    ("preset", "base", "factor"),
    [
        ("llama-3.1-8b", "500000", "8"),
        ("llama-3.2-1b", "500000", "32"),
        ("qwen3-8b", "1000000", ""),
    ],
)
def test_rotary_positions_are_the_published_ones(preset: str, base: str, factor: str) -> None:
    """config.json of each model: rope_theta and rope_scaling."""
    case = pretrain(preset, "h100-sxm", 8, tokens=1e9)
    text = advisor.export(case, "torchrun").content
    assert f"--rotary-base {base}" in text
    assert (f"--rope-scaling-factor {factor}" in text) is bool(factor)


@pytest.mark.parametrize(
    ("to", "card", "software"),
    [
        ("gaudi", "Gaudi", "optimum-habana"),
        ("maxtext", "TPU", "maxtext"),
        ("axolotl", "", "axolotl"),
    ],
)
def test_without_a_card_the_plan_is_of_the_software_that_the_format_starts(
    to: str, card: str, software: str
) -> None:
    work = {**WORK["pretrain 70B"], **EIGHT_BILLION} if to == "maxtext" else WORK["LoRA 8B"]
    text = advisor.export(work, to).content
    asked = {**work, "workload": {**work["workload"], "software": software}}
    vendors = {"gaudi": ["Intel"], "maxtext": ["Google"], "axolotl": ["NVIDIA", "AMD"]}[to]
    best = advisor.recommend({**asked, "limits": {"vendors": vendors}}).plans[0].estimate
    assert best.accelerator_name in text
    assert card in best.accelerator_name
    assert "Estimated as" not in text  # nothing is estimated again
    assert "The best plan of all is not written" not in text


def test_a_model_of_a_parameter_count_pretrains_without_a_tokenizer() -> None:
    """Megatron-LM builds any plain decoder, on mock data; the others read a published model."""
    case = {**placed("pretrain 1B", "NVIDIA"), "model": {"parameters": 1e9}}
    text = advisor.export(case, "torchrun").content
    assert "Megatron-LM/pretrain_gpt.py" in text
    assert "--tokenizer-type NullTokenizer" in text


@pytest.mark.parametrize("to", ["axolotl", "llama-factory", "unsloth"])
def test_trainers_keep_two_checkpoints(to: str) -> None:
    text = advisor.export(placed("LoRA 8B", "NVIDIA"), to).content
    assert re.search(r"save_total_limit[:=] ?2", text)
    assert re.search(r"save_steps[:=]|SAVE = ", text)


def test_a_script_that_shares_nothing_out_asks_for_memory_not_for_more_cards() -> None:
    """run_speech_recognition_seq2seq.py holds whole states of 1.5 billion weights on each card."""
    case = placed("Whisper", "NVIDIA")
    with pytest.raises(InputError, match="cards with more memory"):
        advisor.export({**case, "hardware": {"accelerator": "rtx-4080", "count": 1}}, "torchrun")


def test_an_answer_of_other_software_is_not_written() -> None:
    """A page hands over the plan that it shows, of the default software."""
    case = placed("LoRA 8B", "NVIDIA")
    plan = advisor.estimate(case)
    assert plan.software is not None
    assert plan.software.name == "trl"
    text = advisor.export(case, "axolotl", answer=plan).content
    assert text == advisor.export(case, "axolotl").content
    assert "Estimated as" not in text


def test_an_encoder_is_not_trained_as_a_decoder() -> None:
    """run_mlm.py trains what predicts masked tokens."""
    place = {"hardware": {"accelerator": "l4", "count": 1}}
    case = {**tuned("bert-base", "full", tokens=10e6), **place}
    with pytest.raises(InputError, match="text-classification"):
        advisor.export(case, "axolotl")
    file = read(advisor.export(case, "torchrun").content)
    assert file.program[-1].endswith("run_mlm.py")
    micro, steps = (
        int(one(file.options, name)) for name in ("per_device_train_batch_size", "max_steps")
    )
    each = micro * int(one(file.options, "gradient_accumulation_steps")) * 512
    assert 10e6 <= steps * each < 10e6 + each


def test_an_old_card_gets_the_note_on_its_last_releases() -> None:
    case = {**WORK["full 8B"], "hardware": {"accelerator": "v100-sxm2-32gb", "count": 8}}
    text = advisor.export(case, "torchrun").content
    assert "PyTorch 2.14 for CUDA 12.6" in text  # later builds need capability 7.5
    pod = advisor.export(case, "kubernetes").content
    first = (
        "pip install torch==2.14.0+cu126 torchvision --index-url https://download.pytorch.org/whl"
    )
    assert pod.index(first) < pod.index("pip install trl")
    assert "PyTorch 2.14" not in advisor.export(LORA, "torchrun").content
    agrees(text, "torchrun", case)


@pytest.mark.parametrize(
    ("to", "switch"), [("torchrun", "save-interval"), ("torchtitan", "checkpoint.interval")]
)
def test_a_long_run_saves_at_youngs_interval_and_goes_on_from_there(to: str, switch: str) -> None:
    """512 cards fail every 99 h (arXiv:2407.21783, table 5), and 10 s stop each save: 44 min."""
    case = placed("pretrain 70B", "NVIDIA")
    text = advisor.export(case, to).content
    options = read(text).options
    time = advisor.estimate({**case, **meaning(text, to, 512)}).time
    assert time is not None
    every_s = int(options[switch][0]) * time.step_s.expected
    assert 2670 - time.step_s.expected <= every_s <= 2670
    if to == "torchrun":
        assert options["load"] == options["save"]
    else:
        assert "checkpoint.enable" in options


def test_the_head_of_pairs_names_the_template_that_the_file_gives_a_base_model() -> None:
    text = advisor.export(placed("DPO 7B", "NVIDIA"), "axolotl").content
    assert yaml.safe_load(text)["chat_template"] == "chatml"
    assert "the file gives it ChatML" in text
    assert "its data are plain texts" not in text


def test_a_small_model_is_pretrained_by_compiled_pytorch_on_a_card_of_ones_own() -> None:
    """torchtitan 0.3.0 has no configuration of GPT-2; Megatron-class software is for many cards."""
    case = pretrain("gpt2", "rtx-4090", 1, tokens=2.5e9)
    text = advisor.export(case, "torchrun").content
    assert "pretrain.py" in read(text).program[-1]
    assert "COMPILE = True" in text
    agrees(text, "torchrun", case)


def test_a_stated_liger_is_switched_on_where_the_trainer_pretrains() -> None:
    """transformers 5.23.0, TrainingArguments.use_liger_kernel; gpt-oss: Liger's README."""
    case = {
        "model": {"preset": "gpt-oss-20b"},
        "workload": {"kind": "pretraining", "tokens": 2e7, "software": "liger"},
        "hardware": {"accelerator": "a100-sxm-80gb", "count": 8},
    }
    text = advisor.export(case, "torchrun").content
    plain = case | {"workload": {"kind": "pretraining", "tokens": 2e7, "software": "huggingface"}}

    assert "liger-kernel==" in text
    assert "LIGER = True" in text
    assert "use_liger_kernel=LIGER" in text
    assert "LIGER = False" in advisor.export(plain, "torchrun").content


def test_cards_that_triton_does_not_take_pretrain_without_torch_compile() -> None:
    """Triton needs compute capability 7.0, bf16 8.0, and Transformer Engine 8.0 (their READMEs)."""
    pascal = advisor.export(pretrain("gpt2", "p100-pcie-16gb", 1, tokens=1e9), "torchrun").content
    assert "COMPILE = False" in pascal
    assert "AUTOCAST = 'fp16'" in pascal
    turing = pretrain("smollm2-135m", "rtx-2080-ti", 1, tokens=1e9)
    text = advisor.export(turing, "torchrun").content
    assert "COMPILE = True" in text
    assert "AUTOCAST = 'fp16'" in text
    agrees(text, "torchrun", turing)
    volta = pretrain("llama-3.2-3b", "v100-sxm2-32gb", 8, tokens=1e9)
    shared = advisor.export(volta, "torchrun").content
    assert "SHARED = {'fsdp': True, 'fsdp_config': 'fsdp.json'}" in shared
    agrees(shared, "torchrun", volta)


def qlora(accelerator: str, number: int = 1, **workload: Any) -> dict[str, Any]:
    tuned = {"kind": "fine_tuning", "method": "qlora", "tokens": 30e6, **workload}
    placed_on = {"accelerator": accelerator, "count": number}
    return {"model": {"preset": "qwen2.5-7b"}, "workload": tuned, "hardware": placed_on}


@pytest.mark.parametrize("pairs", [{}, {"preference": "dpo"}])
def test_trl_tunes_no_4_bit_base_where_the_gradients_are_scaled(pairs: dict[str, Any]) -> None:
    """trl 1.16.0 makes the adapters bf16, which fp16's scaler refuses (pytorch issue 127176).

    Unsloth 2026.10.9 (models/rl.py) takes that cast out: it "breaks GradScaler with fp16=True".
    LLaMA-Factory 0.9.5 makes them fp32 (model/adapter.py, "Upcasting trainable params").
    """
    case = qlora("t4", **pairs)
    text = advisor.export(case, "torchrun").content
    assert "BF16 = False" in text
    assert "fp16=not BF16" in text
    agrees(advisor.export(case, "unsloth").content, "unsloth", case)
    with pytest.raises(InputError, match="TRL offers no qlora there"):
        advisor.export(qlora("t4", software="trl", **pairs), "torchrun")
    with pytest.raises(InputError, match="fp16's scaler refuses"):
        advisor.export(qlora("t4", software="accelerate"), "torchrun")
    several = qlora("v100-sxm2-32gb", 4, **pairs)
    config = yaml.safe_load(advisor.export(several, "llama-factory").content)
    assert config["fp16"] is True
    assert "bf16" not in config
    assert "llama_factory.yaml" in advisor.export(several, "torchrun").content


def one_card(preset: str, method: str) -> dict[str, Any]:
    return {
        "model": {"preset": preset},
        "workload": {"kind": "fine_tuning", "method": method, "tokens": 20e6},
        "hardware": {"accelerator": "h100-sxm", "count": 1},
    }


@pytest.mark.parametrize(
    ("preset", "method"),
    [("bloom-7b1", "lora"), ("mpt-7b", "lora"), ("gpt-j-6b", "lora"), ("mamba-2.8b", "full")],
)
def test_families_without_sdpa_are_not_asked_for_it(preset: str, method: str) -> None:
    """transformers 5.23.0: these classes state no _supports_sdpa, and then asking for it raises."""
    case = one_card(preset, method)
    assert "--attn_implementation eager" in advisor.export(case, "torchrun").content


@pytest.mark.parametrize(
    ("preset", "method", "package"),
    [("mamba-2.8b", "full", "mamba-ssm"), ("qwen3.5-9b", "lora", "flash-linear-attention")],
)
def test_kernels_of_state_space_layers_are_installed(
    preset: str, method: str, package: str
) -> None:
    """transformers 5.23.0 falls back to PyTorch without them: "correct but much slower"."""
    text = advisor.export(one_card(preset, method), "torchrun").content
    assert re.search(rf"pip install {package}==\S+ causal-conv1d==\S+ --no-build-isolation", text)


def images(preset: str, accelerator: str, **workload: Any) -> dict[str, Any]:
    tuned = {"kind": "fine_tuning", "method": "full", "samples": 200e3, "epochs": 10, **workload}
    placed_on = {"accelerator": accelerator, "count": 1}
    return {"model": {"preset": preset}, "workload": tuned, "hardware": placed_on}


@pytest.mark.parametrize(("count", "method"), [(1, "full"), (4, None)])
def test_yolo_trains_under_ultralytics(count: int, method: str | None) -> None:
    """Settings of docs.ultralytics.com/usage/cfg; batch counts the images of all cards."""
    kind = {"kind": "fine_tuning", "method": method} if method else {"kind": "pretraining"}
    case = {
        "model": {"preset": "yolov8m"},
        "workload": kind | {"samples": 5000, "epochs": 100},
        "hardware": {"accelerator": "rtx-4090", "count": count},
    }
    text = advisor.export(case, "torchrun").content
    agrees(text, "torchrun", case)
    assert f"model=yolov8m.{'pt' if method else 'yaml'} " in text
    assert "epochs=100 " in text
    stated = "model data epochs batch nbs imgsz optimizer amp workers device project"
    assert re.findall(r"^  (\w+)=", text, re.MULTILINE) == stated.split()


def test_timm_switches_tf32_on_by_itself() -> None:
    """timm 1.0.28, train.py: allow_tf32 is set; V100 and AMD's cards have none that it switches."""
    text = advisor.export(images("resnet-50", "a100-sxm-80gb", precision="fp32"), "torchrun")
    assert "Uses precision tf32 instead of fp32." in text.content
    for card in ("v100-sxm2-32gb", "mi300x"):
        whole = advisor.export(images("resnet-50", card, precision="fp32"), "torchrun").content
        assert "Uses precision" not in whole


def test_trained_image_networks_are_tuned_gently() -> None:
    """ConvNeXt's TRAINING.md (5e-5 at 512 images, decay 1e-8) and BiT's train.py (SGD, 0.003)."""
    options = read(advisor.export(images("convnext-base", "l4"), "torchrun").content).options
    asked = [one(options, name) for name in ("opt", "lr-base", "lr-base-size", "weight-decay")]
    assert asked == ["adamw", "5e-5", "512", "1e-8"]
    resnet = read(advisor.export(images("resnet-50", "l4"), "torchrun").content).options
    assert [one(resnet, name) for name in ("opt", "lr-base")] == ["momentum", "0.003"]


def test_a_file_takes_smaller_micro_batches_where_its_program_needs_more_memory() -> None:
    """DeepSpeed holds fp32 gradients and keeps the logits that Megatron's loss does not."""
    case = placed("pretrain 1B", "NVIDIA")
    case = {**case, "workload": {**case["workload"], "software": "megatron"}}
    plan = advisor.estimate(case).layout
    content = json.loads(advisor.export(case, "deepspeed").content)
    assert content["train_micro_batch_size_per_gpu"] < plan.micro_batch
    stated = {**case, "layout": {"micro_batch": plan.micro_batch, "recompute": "none"}}
    with pytest.raises(InputError, match="does not fit as DeepSpeed runs it"):
        advisor.export(stated, "deepspeed")


def test_a_format_of_one_tool_outranks_another_tool_that_is_stated() -> None:
    case = one_card("llama-3.1-8b", "lora")
    stated = {**case, "workload": {**case["workload"], "software": "trl"}}
    assert advisor.export(stated, "axolotl") == advisor.export(case, "axolotl")


@pytest.mark.parametrize("vendor", ["NVIDIA", "AMD"])
def test_axolotl_starts_in_an_image_whose_pytorch_it_takes(vendor: str) -> None:
    """Its wheel 0.19.0 asks for torch>=2.11.0,<=2.13.0, and its README installs no flash-attn."""
    case = placed("LoRA 8B", vendor)
    run = {**case, "workload": {**case["workload"], "software": "axolotl"}}
    [image] = set(re.findall(r"image: (\S+)", advisor.export(run, "kubernetes").content))
    minor = int(re.findall(r"2\.(\d+)\.\d+$", image)[0])
    assert 11 <= minor <= 13
    text = advisor.export(case, "axolotl").content
    assert "flash" not in text
    assert yaml.safe_load(text)["attn_implementation"] == "sdpa"


@pytest.mark.parametrize("work", ["LoRA 8B", "full 8B", "pretrain 70B", "ResNet-50"])
def test_kubernetes_takes_the_manifests(work: str) -> None:
    for manifest in yaml.safe_load_all(
        advisor.export(placed(work, "NVIDIA"), "kubernetes").content
    ):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_cluster_starts_what_the_script_starts() -> None:
    """The same program with the same options, apart from the machine's rank and the first host."""
    case = placed("pretrain 70B", "NVIDIA")
    own = {"node-rank", "master-addr"}
    script = read(advisor.export(case, "torchrun").content).options
    run = yaml.safe_load(advisor.export(case, "skypilot").content)["run"]
    task = yaml.safe_load(advisor.export(case, "dstack").content)["commands"][0]
    for text in (run, task):
        found = read(text).options
        assert {name: found[name] for name in found if name not in own} == {
            name: script[name] for name in script if name not in own
        }


def test_an_epoch_of_a_folder_is_its_images() -> None:
    """timm counts a folder's images itself: --train-num-samples changes only other data sets."""
    case = placed("ResNet-50", "NVIDIA")
    stated = {**case, "workload": {"kind": "pretraining", "samples": 1.28e6, "epochs": 30}}
    options = read(advisor.export(stated, "torchrun").content).options
    assert (options["epochs"], options["train-num-samples"]) == (["30"], ["1280000"])
    options = read(advisor.export(case, "torchrun").content).options
    assert options["epochs"] == ["90"]


def test_maxtext_tunes_on_dialogues_and_pretrains_on_a_folder_of_c4() -> None:
    """install_maxtext.md, tutorials/pretraining.md and post_train/sft.yml of v0.2.4."""
    tuned_text = advisor.export(placed("full 8B", "TPU"), "torchrun", checkpoint="/w").content
    assert "maxtext[tpu-post-train]'; install_tpu_post_train_extra_deps" in tuned_text
    assert "train_split=train_sft" in tuned_text
    assert "HuggingFaceH4/ultrachat_200k" in tuned_text
    assert "allenai/c4" not in tuned_text
    assert "has no chat template: name" in tuned_text
    case = placed("LoRA 8B", "TPU")
    text = advisor.export(case, "maxtext", checkpoint="gs://b/w/0/items").content
    assert "lora.enable_lora=True" in text
    agrees(text, "maxtext", case)
    case["workload"] = {**case["workload"], "lora_targets": ["q", "v"]}
    text = advisor.export(case, "maxtext", checkpoint="/w").content
    assert "'lora.lora_module_path=decoder/.*/(query|value)'" in text
    text = advisor.export(placed("pretrain 70B", "TPU"), "torchrun").content
    assert 'hf_data_dir="$FOLDER"' in text
    assert "install_tpu_pre_train_extra_deps" in text


def test_gaudi_shares_states_with_its_own_deepspeed() -> None:
    """optimum-habana v1.20.0, README.md: DeepSpeed is HabanaAI's at the tag of the stack."""
    own = "git+https://github.com/HabanaAI/DeepSpeed.git@1.23.0"
    assert own in advisor.export(placed("full 8B", "Gaudi"), "gaudi").content
    assert own not in advisor.export(placed("LoRA 8B", "Gaudi"), "gaudi").content


def test_no_file_lets_pip_replace_the_pytorch_of_an_amd_card() -> None:
    text = advisor.export(placed("SDXL LoRA", "AMD"), "torchrun").content
    assert "torchvision==" not in text
    assert "built for this card, as in the image rocm/pytorch:" in text
    assert "torchvision==" in advisor.export(placed("SDXL LoRA", "NVIDIA"), "torchrun").content


def test_a_program_without_offload_is_not_told_to_offload() -> None:
    case = {**WORK["Whisper"], "hardware": {"accelerator": "rtx-4090", "count": 1}}
    with pytest.raises(InputError) as refused:
        advisor.export(case, "torchrun")
    assert "host" not in str(refused.value)


def test_deepspeed_configures_training_on_pairs_with_orpo() -> None:
    case = tuned("qwen3-8b", "lora", preference="orpo", tokens=5e7)
    content = advisor.export(case, "deepspeed").content

    assert json.loads(content)["zero_optimization"]["stage"] in range(4)


@pytest.mark.parametrize(
    ("preference", "reader"),
    [("dpo", "chat_template.argilla_chat"), ("orpo", "chat_template.argilla")],
)
def test_axolotl_splits_pairs_into_a_prompt_and_two_answers(preference: str, reader: str) -> None:
    """Axolotl 0.19.0, prompt_strategies: dpo/chat_template.py and orpo/chat_template.py.

    The data has whole conversations, and no column of prompts: of DPO's readers only this one
    leaves the answer out of the prompt, and ORPO has no other.
    """
    case = tuned("llama-3.1-8b", "lora", tokens=20e6, preference=preference)
    (data,) = yaml.safe_load(advisor.export(case, "axolotl").content)["datasets"]
    assert data["type"] == reader


TOOLS = (*OWN.values(), *NAMED.values(), TIMM, WHISPER, DIFFUSERS, SIMPLETUNER)


@pytest.mark.parametrize("tool", {tool.key: tool for tool in TOOLS}.values(), ids=lambda it: it.key)
def test_a_description_names_only_known_values(tool: Tool) -> None:
    """A name is one of the tool's facts, of those of all tools, or a field of the plan."""
    says = tool.says
    conditions = [
        *(item.when for item in says.refusals),
        *(str(part["when"]) for part in says.content if "when" in part),
        *(when for when, _ in says.files.values() if when),
        *(given[2] for given in says.variables.values() if len(given) > 2),
        *(given[1] for given in says.environment.values() if len(given) > 1),
        *(when for values in says.choices.values() for when in values if when),
    ]
    for lines in (says.pip, says.then, says.notes, says.options, says.body):
        conditions += [when for line in lines if isinstance(line, dict) for when in line]
    named = set(re.findall(r"(?<!\$)\{([a-z]\w*)[\w.]*\}", repr(says)))
    each = [one for when in conditions for one in when.split(" and ")]
    named |= {re.split(r"\W", one.removeprefix("not "))[0] for one in each}

    of_the_plan = {*dir(Setup), *Setup.__dataclass_fields__}
    assert named - {*tool.facts, *says.choices, *FACTS, *of_the_plan} <= {"optimizer"}
    assert {*tool.facts, *says.choices} <= named


OSS: Case = {**tuned("gpt-oss-20b", "lora", tokens=1e6, lora_rank=8)}


def test_apple_chips_start_mlx() -> None:
    case = placed("LoRA 8B", "Apple")
    assert advisor.export(case, "torchrun").content.endswith("mlx_lm.lora --config mlx_lora.yaml\n")
    assert "mlx_lm.lora --config" in advisor.export(case, "checklist").content


def test_adapters_of_gpt_oss_are_on_its_attention() -> None:
    """PEFT trains 3,981,312 parameters at rank 8 (github unslothai/unsloth, pull 6936)."""
    case = {**OSS, "hardware": {"accelerator": "h100-sxm", "count": 1}}
    assert advisor.estimate(case).parameters.trainable == 3_981_312
    text = advisor.export(case, "torchrun").content
    assert "not on the routed experts of gpt-oss" in text
    # transformers 5.23.0, GptOssPreTrainedModel: _supports_sdpa is False.
    assert "--attn_implementation flex_attention" in text


def test_experts_in_4_bits_take_the_release_that_packs_them() -> None:
    case = {
        **tuned("qwen3-30b-a3b", "qlora", tokens=1e6),
        "hardware": {"accelerator": "a100-sxm-80gb", "count": 1},
    }
    assert "transformers==4.57.6" in advisor.export(case, "torchrun").content
    text = advisor.export(case, "axolotl").content
    said = yaml.safe_load(text)
    assert said["quantize_moe_experts"] is True
    assert "lora_target_linear" not in said  # axolotl 0.19.0, check_quantize_moe_experts
    assert "mlp.experts.down_proj" in said["lora_target_parameters"]
    agrees(text, "axolotl", case)


def test_gpt_oss_in_4_bits_is_trained_by_unsloth() -> None:
    case = {
        **tuned("gpt-oss-20b", "qlora", tokens=1e6),
        "hardware": {"accelerator": "rtx-4090", "count": 1},
    }
    found = advisor.estimate(case)
    assert found.software is not None
    assert found.software.name == "unsloth"
    text = advisor.export(case, "torchrun").content
    assert "train_unsloth.py" in text
    # Unsloth 2026.10.9, trainer.py: PADDING_FREE_BLOCKLIST, whose models packing=True leaves short.
    assert "pack_dataset(data, SEQUENCE" in text
    with pytest.raises(InputError, match=r"keeps the experts of gpt-oss in 16 bits.*--to unsloth"):
        advisor.export(case, "accelerate")


def test_adapters_on_a_divided_model_name_the_recipe_of_megatron_bridge() -> None:
    """Its v0.6.0: scripts/training/run_recipe.py, and llama31_70b_peft_config."""
    case = {
        **tuned("llama-3.1-70b", "lora", tokens=1e6, software="megatron"),
        "hardware": {"accelerator": "h100-sxm", "count": 8},
        "layout": {"tensor": 8},
    }
    with pytest.raises(InputError, match=r"run_recipe\.py --model llama31_70b --mode lora -tp 8"):
        advisor.export(case, "torchrun")


def test_adapters_on_attention_alone_let_a_mixture_fit() -> None:
    case = {
        **tuned("qwen3-30b-a3b", "qlora", tokens=1e6),
        "hardware": {"accelerator": "rtx-5090", "count": 1},
    }
    found = advisor.estimate(case)
    assert not found.memory.fits
    assert any("--lora-targets q,k,v,o" in way.change for way in found.ways_out)
    case["workload"]["lora_targets"] = ["q,k,v,o"]  # as people type it
    assert advisor.estimate(case).memory.fits
    text = advisor.export(case, "torchrun").content
    assert "--lora_target_modules q_proj k_proj v_proj o_proj" in text


def test_stated_software_that_does_not_fit_names_the_way_without_it() -> None:
    """Plain code holds the whole logits; TRL computes the loss in chunks."""
    case = {
        **tuned("llama-3.1-8b", "lora", tokens=1e6, software="huggingface"),
        "hardware": {"accelerator": "rtx-4090", "count": 1},
        "host": {"memory_bytes": 8e9},  # too little for the activations
    }
    found = advisor.estimate(case)
    assert not found.memory.fits
    assert any("no --software" in way.change for way in found.ways_out)


def test_blocks_are_recomputed_where_peft_adds_adapters_to_all_experts() -> None:
    """peft 0.21.2, tuners/lora/layer.py: a parameter gets the sum with its adapters."""
    case = {
        **tuned("mixtral-8x7b", "lora", tokens=1e6),
        "hardware": {"accelerator": "h100-sxm", "count": 8},
    }
    text = advisor.export(case, "torchrun").content
    assert "--gradient_checkpointing true" in text
    agrees(text, "torchrun", case)


def test_spot_machines_keep_checkpoints_in_a_bucket_and_save_often() -> None:
    """docs.skypilot.co, Managed Jobs: a mounted bucket keeps checkpoints of interrupted jobs."""
    case = tuned("llama-3.1-8b", "full", tokens=200e6)
    case["limits"] = {"price_kind": "spot"}
    task = yaml.safe_load(advisor.export(case, "skypilot").content)
    assert task["resources"]["use_spot"] is True
    [(folder, bucket)] = task["file_mounts"].items()
    assert task["envs"]["OUTPUT"] == folder
    assert bucket["mode"] == "MOUNT"
    found = re.search(r"--save_steps (\d+)", task["run"])
    steps = re.search(r"--max_steps (\d+)", task["run"])
    assert found
    assert steps
    assert int(found[1]) < int(steps[1])
    steady = yaml.safe_load(
        advisor.export(tuned("llama-3.1-8b", "full", tokens=200e6), "skypilot").content
    )
    assert "file_mounts" not in steady


def test_chips_beyond_a_slice_meet_over_the_network() -> None:
    """docs.cloud.google.com/tpu/docs/v6e: a pod of Trillium has 256 chips. MaxText's base.yml:
    the product of the dcn axes is the number of slices, that of the ici axes the chips of one."""
    case = pretrain("llama-3.1-70b", "tpu-v6e", 512, tokens=1e12)
    text = advisor.export(case, "maxtext").content
    axes = {name: int(value) for name, value in re.findall(r"(\w+)_parallelism=(\d+)", text)}
    assert math.prod(size for name, size in axes.items() if name.startswith("ici_")) == 256
    assert math.prod(size for name, size in axes.items() if name.startswith("dcn_")) == 2
    assert "Runs on 2 slices of 256 chips" in text
    one = advisor.export(pretrain("llama-3.1-8b", "tpu-v6e", 64, tokens=1e9), "maxtext").content
    assert "dcn_" not in one


def test_one_pass_over_images_is_not_all_warm_up() -> None:
    """timm's learning rate rises for --warmup-epochs and falls in the rest."""
    case = pretrain("resnet-50", "h100-sxm", 8, samples=1e6)
    once = advisor.export(case, "torchrun").content
    assert "--epochs 1 " in once
    assert "--warmup-epochs 0 " in once
    case["workload"] = {**case["workload"], "samples": 1_281_167, "epochs": 90}
    assert "--warmup-epochs 5 " in advisor.export(case, "torchrun").content


@pytest.mark.parametrize(("card", "to", "instead"), [("tpu-v6e", "maxtext", "PyTorch/XLA")])
def test_images_on_cards_of_other_makers_are_sent_to_what_trains_them(
    card: str, to: str, instead: str
) -> None:
    """--to torchrun writes for NVIDIA and AMD only."""
    with pytest.raises(InputError, match=instead):
        advisor.export(pretrain("resnet-50", card, 8, samples=1e6), to)


def test_gaudi_trains_images_and_sound_with_scripts_of_optimum_habana() -> None:
    """optimum-habana v1.20.0: examples/pytorch-image-models and speech-recognition, README.md."""
    images = advisor.export(pretrain("resnet-50", "gaudi2", 8, samples=1e6), "gaudi").content
    assert "examples/pytorch-image-models/train_hpu_lazy.py" in images
    assert "--device hpu" in images
    assert "export PT_HPU_LAZY_MODE=1" in images
    sound = advisor.export(placed("Whisper", "Gaudi"), "gaudi").content
    assert "examples/speech-recognition/run_speech_recognition_seq2seq.py" in sound
    assert "--gaudi_config_name Habana/whisper" in sound


def test_a_repository_that_is_there_is_not_cloned_again() -> None:
    """git-clone(1): a destination that exists must be empty; pods of a volume share it."""
    case = {**WORK["pretrain 1B"], "hardware": {"accelerator": "h100-sxm", "count": 16}}
    several = advisor.export(case, "kubernetes").content
    assert "flock install.lock -c '[ -d Megatron-LM ] || git clone" in several
    assert "add its RDMA resource" in several
    one = advisor.export(placed("pretrain 1B", "NVIDIA"), "compose").content
    assert "      [ -d Megatron-LM ] || git clone" in one


def test_a_volume_holds_the_images_that_are_read() -> None:
    """ILSVRC2012_img_train.tar has 147,897,477,120 bytes."""
    volume, *_, job = yaml.safe_load_all(
        advisor.export(placed("ResNet-50", "NVIDIA"), "kubernetes").content
    )
    size = volume["spec"]["resources"]["requests"]["storage"]
    assert int(size.removesuffix("Gi")) > 147_897_477_120 / 2**30
    [toleration] = job["spec"]["template"]["spec"]["tolerations"]
    assert toleration == {"key": "nvidia.com/gpu", "operator": "Exists"}


def test_gated_weights_say_what_to_accept() -> None:
    """huggingface.co: Meta's models ask for consent, Qwen's do not; mock data need no weights."""
    words = "accept Meta's licence at huggingface.co/meta-llama/"
    assert words in advisor.export(LORA, "torchrun").content
    assert words not in advisor.export(placed("pretrain 1B", "NVIDIA"), "kubernetes").content
    own = advisor.export(LORA, "kubernetes", checkpoint="org/own").content
    assert "Gated" not in own
    assert "create secret generic hf" in own


def test_unsloth_recomputes_as_the_head_says() -> None:
    """trl 1.16.0, trainer/base_config.py: gradient_checkpointing is True unless told."""
    one = {**WORK["LoRA 8B"], "hardware": {"accelerator": "h100-sxm", "count": 1}}
    text = advisor.export({**one, "layout": {"recompute": "none"}}, "unsloth").content
    assert "\nRECOMPUTE = False\n" in text
    assert "    gradient_checkpointing=bool(RECOMPUTE)," in text


@pytest.mark.parametrize("to", ["axolotl", "llama-factory"])
def test_pairs_build_the_whole_logits_in_spite_of_liger(to: str) -> None:
    """llamafactory 0.9.5, liger_kernel.py: no fused loss beyond pt and sft; trl 1.9.0 (Axolotl
    0.19.0) fuses DPO's loss with use_liger_kernel alone.
    """
    case = {**placed("DPO 7B", "NVIDIA"), **EIGHT_BILLION}
    text = advisor.export(case, to).content
    read_again = meaning(text, to, 8)
    assert read_again["workload"]["cross_entropy"] == "plain"
    agrees(text, to, case)


def test_a_recipe_that_the_card_lacks_is_no_remedy() -> None:
    """Turing has no bf16, and Axolotl's file trains in nothing else."""
    case = tuned("llama-3.2-3b", "lora", tokens=10e6)
    with pytest.raises(InputError, match="Choose --to torchrun or llama-factory"):
        advisor.export({**case, "hardware": {"accelerator": "t4", "count": 1}}, "axolotl")


def test_an_arc_card_gets_pytorch_of_its_own() -> None:
    """docs.pytorch.org, Getting Started on Intel GPU: wheels of an index of their own."""
    case = tuned("qwen2.5-7b", "qlora", tokens=5e6)
    case["hardware"] = {"accelerator": "arc-b580", "count": 1}
    text = advisor.export(case, "torchrun").content
    assert "pip install torch==2.15.0 --index-url https://download.pytorch.org/whl/xpu; " in text
    assert "trl.scripts.sft" in text
    assert "ZE_FLAT_DEVICE_HIERARCHY" not in text
    halves = {**tuned("llama-3.1-8b", "lora", tokens=5e6)}
    halves["hardware"] = {"accelerator": "max-1550", "count": 4}
    made = advisor.export(halves, "torchrun").content
    assert "export ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE" in made
    with pytest.raises(InputError, match="images for training"):
        advisor.export(case, "compose")


@pytest.mark.parametrize(("card", "instead"), [("ascend-910b", "torch-npu")])
def test_cards_without_files_are_told_what_trains_there(card: str, instead: str) -> None:
    case = tuned("llama-3.1-8b", "lora", tokens=5e6)
    case["hardware"] = {"accelerator": card, "count": 8}
    with pytest.raises(InputError, match=instead) as refused:
        advisor.export(case, "torchrun")
    assert "does not run" not in str(refused.value)


def test_a_processor_fine_tunes_with_trl_and_a_job_asks_for_no_card() -> None:
    """transformers 5.23.0, training_args.py: use_cpu; wheels without CUDA have their own index."""
    case = tuned("qwen2.5-0.5b", "full", tokens=2e6)
    case |= {"hardware": {"accelerator": "xeon-8480plus", "count": 1}}
    text = advisor.export(case, "torchrun").content
    assert "--use_cpu true" in text
    assert "whl/cpu" in text
    assert "--gpus-per-node" not in advisor.export(case, "slurm").content


def test_orpo_is_planned_under_what_starts_it() -> None:
    """TRL's trainer of ORPO has no script, and DeepSpeed's files start TRL's trainers."""
    case = tuned("llama-3.1-8b", "lora", samples=20_000, preference="orpo", sequence_length=2048)
    case |= {"hardware": {"accelerator": "l40s", "count": 1}}
    found = advisor.estimate(case)
    assert found.software is not None
    assert found.software.name in ("axolotl", "llama-factory")
    assert "rl: orpo" in advisor.export(case, "axolotl").content


@pytest.mark.parametrize(
    ("model", "each", "kind"), [("bge-m3", 2, False), ("bge-reranker-v2-m3", 1, True)]
)
def test_embeddings_and_rerankers_train_with_sentence_transformers(
    model: str, each: int, kind: bool
) -> None:
    """A pair is two sequences of an encoder, and one of a cross encoder, which joins its texts."""
    place = {"hardware": {"accelerator": "l4", "count": 1}}
    case = {**tuned(model, "full", tokens=10e6, sequence_length=512), **place}
    file = read(advisor.export(case, "torchrun").content)
    values = constants(file.files["train_embeddings.py"])
    ast.parse(file.files["train_embeddings.py"])
    step = values["BATCH"] * each * values["ACCUMULATION"] * values["SEQUENCE"]
    assert 10e6 <= values["STEPS"] * step < 10e6 + step
    assert values["SCORES"] is kind
    odd = {**case, "layout": {"micro_batch": 1}}
    if kind:
        advisor.export(odd, "torchrun")
    else:
        with pytest.raises(InputError, match="even number"):
            advisor.export(odd, "torchrun")


@pytest.mark.parametrize(("model", "gates"), [("lstm-4x1024", 4), ("gru-4x1024", 3)])
def test_recurrent_networks_train_in_plain_pytorch(model: str, gates: int) -> None:
    """Autocast runs cuDNN's recurrences in fp16 (ATen/cudnn/AutocastRNN.cpp), as estimated."""
    case = pretrain(model, tokens=50e6, hardware={"accelerator": "rtx-4090", "count": 2})
    text = advisor.export(case, "torchrun").content
    values = constants(read(text).files["train_recurrent.py"])
    assert "fp16_amp instead of bf16_mixed" in text
    assert values["MIXED"] is True
    step = 2 * values["BATCH"] * values["ACCUMULATION"] * values["SEQUENCE"]
    assert 50e6 <= values["STEPS"] * step < 50e6 + step
    width, words = values["WIDTH"], values["VOCABULARY"]
    layers = values["LAYERS"] * gates * (2 * width**2 + 2 * width)
    found = advisor.estimate(case).parameters.total
    assert layers + words * (2 * width + 1) == found  # of torch.nn.LSTM and torch.nn.GRU
    old = {**case, "hardware": {"accelerator": "v100-sxm2-32gb", "count": 1}}
    assert "torch==2.15" not in advisor.export(old, "torchrun").content
    with pytest.raises(InputError, match="recurrent networks"):
        advisor.export(case, "axolotl")


def test_trainium_starts_a_process_on_each_core() -> None:
    """Its finetune_llama.sh starts 32 processes on a trn1.32xlarge, 64 on a trn2.48xlarge."""
    for card, processes in (("trainium1", 32), ("trainium2", 64)):
        case = {**WORK["full 8B"], "hardware": {"accelerator": card, "count": 16}}
        text = advisor.export(case, "torchrun").content
        assert f"--nproc-per-node {processes} " in text
        assert "--extra-index-url https://pip.repos.neuron.amazonaws.com" in text
    head = advisor.export(case, "slurm").content
    assert "--gpus-per-node" not in head  # such a machine is a node without generic resources
    odd = {**WORK["LoRA 8B"], "hardware": {"accelerator": "trainium1", "count": 1}}
    odd["workload"] = {**odd["workload"], "sequence_length": 1500}
    assert (
        "ATTENTION = 'eager'" in advisor.export(odd, "torchrun").content
    )  # NKI: tiles of 2,048 keys
