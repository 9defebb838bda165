"""Reads a written training file back into the case that it means, by what each program documents.

Nothing here comes from the code that writes the files.
"""

import ast
import json
import math
import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

OPTIMIZERS = {
    "adamw_torch_fused": "adamw",
    "adamw_bnb_8bit": "adamw_8bit",
    "paged_adamw_8bit": "paged_adamw_8bit",
    "sgd": "sgd",
    "lion_32bit": "lion",
    "adafactor": "adafactor",
    "adamw": "adamw",
    "momentum": "sgd_momentum",
}
TARGETS = {
    "q_proj": "q",
    "k_proj": "k",
    "v_proj": "v",
    "o_proj": "o",
    "output_proj": "o",
    "gate_proj": "gate",
    "up_proj": "up",
    "down_proj": "down",
}
ALL = ["q", "k", "v", "o", "gate", "up", "down"]
STAGES = {0: "ddp", 1: "zero1", 2: "zero2", 3: "zero3"}
STARTERS = ("torchrun", "accelerate", "python", "python3", "tune", "simpletuner", "yolo ")


class Started(NamedTuple):
    """A command: its words in front of the options, the options, and the files before it."""

    program: list[str]
    options: dict[str, list[str]]
    files: dict[str, str]
    processes: int
    machines: int


def read(text: str) -> Started:
    """Return the command that a shell script ends with, variables unexpanded."""
    files = dict(re.findall(r"^cat > (\S+) <<'END'\n(.*?)^END$", text, re.MULTILINE | re.DOTALL))
    lines = [line.lstrip("# ").rstrip() for line in text.splitlines()]
    first = max(i for i, line in enumerate(lines) if line.startswith(STARTERS))
    last = next(i for i in range(first, len(lines)) if not lines[i].endswith("\\"))
    command = " ".join(line.removesuffix("\\") for line in lines[first : last + 1])
    words = shlex.split(re.sub(r"\$\{\w+:\+[^}]*\}", "", command))  # holds nothing while unset
    program: list[str] = []
    options: dict[str, list[str]] = {}
    for word in words:
        name = word.startswith("--")
        if name:
            options[word[2:]] = []
        elif (
            not options
            or (word.endswith(".py") or word == "-m" or "=" in word)
            or (program and program[-1] == "-m")
        ):
            program.append(word)
        else:
            options[next(reversed(options))].append(word)
    machines = int(options.get("nnodes", ["1"])[0])
    processes = machines * int(options.get("nproc-per-node", ["1"])[0])
    return Started(program, options, files, processes, machines)


def one(options: Mapping[str, list[str]], name: str, default: str = "") -> str:
    found = options.get(name, [default])
    return found[0] if found else "true"


def on(options: Mapping[str, list[str]], name: str) -> bool:
    return one(options, name, "false") == "true"


def precision(loaded: str, autocast: str, *, master: bool, tf32: bool = False) -> str:
    """Weights as loaded, autocast, and whether an engine keeps an fp32 copy."""
    if loaded == "float32":
        return f"{autocast}_amp" if autocast else "tf32" if tf32 else "fp32"
    return f"{autocast}_mixed" if master else f"{autocast}_pure"


def held(zero: Mapping[str, Any]) -> list[str]:
    names = {"offload_optimizer": "optimizer", "offload_param": "parameters"}
    return [name for key, name in names.items() if zero.get(key, {}).get("device") == "cpu"]


def _shared_by_trl(
    text: str, found: Started, count: int, layout: dict[str, Any]
) -> tuple[str, bool, bool]:
    """Put sharding and offload into a layout; return software, master copy and FSDP."""
    options, files = found.options, found.files
    if "deepspeed" in options:
        config = json.loads(files[one(options, "deepspeed")])
        assert config["train_micro_batch_size_per_gpu"] == layout["micro_batch"]
        accumulation = config["gradient_accumulation_steps"]
        assert str(accumulation) == one(options, "gradient_accumulation_steps")
        layout["sharding"] = STAGES[config["zero_optimization"]["stage"]]
        layout["offload"] = held(config["zero_optimization"])
        # deepspeed 0.19.8, precision_config.py: without these the weights get an fp32 copy.
        pure = config["bf16"].get("bf16_master_weights_and_grads", False)
        assert config["bf16"].get("bf16_optimizer_states", False) is pure
        return "deepspeed", not pure, False
    if "fsdp" in options:
        config = json.loads(files[one(options, "fsdp_config")])
        assert config["cpu_ram_efficient_loading"] is True
        layout["sharding"] = "zero3"
        if "offload" in one(options, "fsdp").split() or config.get("cpu_offload"):
            layout["offload"] = ["optimizer", "parameters"]
        _split(dict(re.findall(r"export PARALLELISM_CONFIG_(\w+)=(\w+)", text)), options, layout)
        return "huggingface", False, True
    if "config_file" in options:
        return _shared_by_accelerate(yaml.safe_load(text), options, count, layout)
    return "huggingface", False, False


def _split(
    sizes: Mapping[str, str], options: Mapping[str, list[str]], layout: dict[str, Any]
) -> None:
    """Put context parallelism into a layout (accelerate 1.15.0, parallelism_config.py)."""
    if not sizes:
        return
    data, context = int(sizes["DP_SHARD_SIZE"]), int(sizes["CP_SIZE"])
    assert data * context == layout["data"], "its total size is the number of processes"
    assert sizes["CP_COMM_STRATEGY"] in ("allgather", "alltoall")
    layout |= {"data": data, "context": context}
    # trl 1.16.0, sft_trainer.py; transformers 5.23.0, trainer.py; PyTorch's context_parallel.
    assert "packing" not in options
    assert one(options, "attn_implementation") == "sdpa"
    assert int(one(options, "pad_to_multiple_of")) % (2 * context) == 0


def _shared_by_accelerate(
    config: Mapping[str, Any], options: Mapping[str, list[str]], count: int, layout: dict[str, Any]
) -> tuple[str, bool, bool]:
    assert config["num_processes"] == count
    kind = config["distributed_type"]
    if kind == "DEEPSPEED":
        zero = config["deepspeed_config"]
        accumulation = str(zero["gradient_accumulation_steps"])
        assert accumulation == one(options, "gradient_accumulation_steps")
        layout["sharding"] = STAGES[zero["zero_stage"]]
        places = {"optimizer": "optimizer", "param": "parameters"}
        layout["offload"] = [
            name for key, name in places.items() if zero[f"offload_{key}_device"] == "cpu"
        ]
    elif kind == "FSDP":
        layout["sharding"] = "zero3"
        if config["fsdp_config"]["fsdp_offload_params"]:
            layout["offload"] = ["optimizer", "parameters"]
        sizes = config.get("parallelism_config", {})
        prefix = "parallelism_config_"
        found = {key.removeprefix(prefix).upper(): str(value) for key, value in sizes.items()}
        _split(found, options, layout)
    return (
        "deepspeed" if kind == "DEEPSPEED" else "huggingface",
        kind == "DEEPSPEED",
        kind == "FSDP",
    )


def trl(text: str, count: int) -> dict[str, Any]:
    found = read(text)
    options = found.options
    layout: dict[str, Any] = {
        "data": count,
        "micro_batch": int(one(options, "per_device_train_batch_size")),
        "recompute": "full" if on(options, "gradient_checkpointing") else "none",
        "offload": [],
    }
    adapters = "use_peft" in options
    software, master, fully = _shared_by_trl(text, found, count, layout)
    master = master or adapters or fully  # accelerate 1.15.0, fsdp_utils.py: what trains is fp32
    summed = (
        json.loads(one(options, "accelerator_config")) if "accelerator_config" in options else {}
    )
    each_batch = summed.get("gradient_accumulation_kwargs", {}).get("sync_each_batch", False)
    if on(options, "use_liger_kernel"):
        software = "liger"
    if on(options, "torch_compile"):
        software = "compiled"
    if on(options, "activation_offloading"):
        layout["offload"] = [*layout["offload"], "activations"]
    autocast = next((name for name in ("bf16", "fp16") if on(options, name)), "")
    preference = {"preference": "dpo"} if "trl.scripts.dpo" in found.program else {}
    each = layout["micro_batch"] * int(one(options, "gradient_accumulation_steps"))
    batch = layout["data"] * each
    length = int(one(options, "max_length"))
    four = on(options, "load_in_4bit")
    if four and fully:
        # Only weights stored like the others can be shared out.
        assert one(options, "bnb_4bit_quant_storage") == one(options, "dtype")
    method = "qlora" if four else "lora" if adapters else "full"
    lora = {}
    if adapters:
        modules = options["lora_target_modules"]
        chosen = ALL if modules == ["all-linear"] else [TARGETS[name] for name in modules]
        lora = {"lora_rank": int(one(options, "lora_r")), "lora_targets": chosen}
        assert one(options, "lora_dropout") == "0"
    pair = 2 if preference else 1
    workload = {
        "kind": "fine_tuning",
        "method": method,
        "tokens": int(one(options, "max_steps")) * batch * length * pair,
        "sequence_length": length,
        "global_batch": batch,
        "precision": precision(
            one(options, "dtype"), autocast, master=master, tf32=on(options, "tf32")
        ),
        "optimizer": OPTIMIZERS[one(options, "optim")],
        "attention": "eager" if one(options, "attn_implementation") == "eager" else "flash",
        "software": software,
        **({} if software == "liger" else {"cross_entropy": "linear"}),
        **({"gradient_sync": "last"} if fully and not each_batch else {}),
        **preference,
        **lora,
    }
    return {"workload": workload, "layout": layout}


def megatron(text: str, count: int) -> dict[str, Any]:
    options = read(text).options
    degrees = {
        name: int(one(options, f"{option}-size", "1"))
        for name, option in {
            "tensor": "tensor-model-parallel",
            "pipeline": "pipeline-model-parallel",
            "context": "context-parallel",
            "expert": "expert-model-parallel",
        }.items()
    }
    data = count // (degrees["tensor"] * degrees["pipeline"] * degrees["context"])
    layers = int(one(options, "num-layers"))
    layers += 2 * ("account-for-embedding-in-pipeline-split" in options)
    virtual = 1
    if "num-layers-per-virtual-pipeline-stage" in options:
        each = int(one(options, "num-layers-per-virtual-pipeline-stage"))
        virtual = layers // (degrees["pipeline"] * each)
    sharding = "zero1" if "use-distributed-optimizer" in options else "ddp"
    strategies = {"optim_grads": "zero2", "optim_grads_params": "zero3"}
    sharding = strategies.get(one(options, "data-parallel-sharding-strategy"), sharding)
    recompute = "selective" if "recompute-activations" in options else "none"
    if one(options, "recompute-granularity") == "full":
        recompute = "full"
    recipe = "bf16_mixed" if "bf16" in options else "fp16_mixed" if "fp16" in options else "fp32"
    if "fp8-format" in options:
        recipe = "mxfp8" if one(options, "fp8-recipe") == "mxfp8" else "fp8"
    batch, length = int(one(options, "global-batch-size")), int(one(options, "seq-length"))
    if data * degrees["context"] > 1:
        assert "overlap-grad-reduce" in options  # as the estimate of the traffic assumes
        assert ("overlap-param-gather" in options) is (sharding != "ddp")
    if options.get("load", options["save"]) != options["save"]:
        assert "finetune" in options
        kind = {"kind": "fine_tuning", "method": "full"}
    else:
        kind = {"kind": "pretraining"}
    return {
        "workload": {
            **kind,
            "tokens": int(one(options, "train-iters")) * batch * length,
            "sequence_length": length,
            "global_batch": batch,
            "precision": recipe,
            "software": "megatron",
        },
        "layout": {
            **degrees,
            "data": data,
            "virtual_stages": virtual,
            "sharding": sharding,
            "recompute": recompute,
            "micro_batch": int(one(options, "micro-batch-size")),
            "sequence_parallel": "sequence-parallel" in options or degrees["tensor"] == 1,
            "schedule": "1f1b_overlapped"
            if "overlap-moe-expert-parallel-comm" in options
            else "1f1b",
        },
    }


def _hugging_face(
    config: Mapping[str, Any], count: int, micro: int, *, liger: bool, adapters: bool
) -> tuple[dict[str, Any], str, bool]:
    """Return the layout, the software and whether DeepSpeed keeps a master copy."""
    layout: dict[str, Any] = {"data": count, "micro_batch": micro, "offload": []}
    software = "liger" if liger else "huggingface"
    master = adapters
    if "deepspeed" in config:
        zero = config["deepspeed"]["zero_optimization"]
        assert config["deepspeed"]["train_micro_batch_size_per_gpu"] == micro
        layout["sharding"], layout["offload"] = STAGES[zero["stage"]], held(zero)
        software, master = software if liger else "deepspeed", True
    elif "fsdp_config" in config:
        layout["sharding"] = "zero3"
        words = str(config.get("fsdp", "")).split()
        if config["fsdp_config"].get("offload_params") or "offload" in words:
            layout["offload"] = ["optimizer", "parameters"]
    return layout, software, master


def axolotl(text: str, count: int) -> dict[str, Any]:
    config = yaml.safe_load(text)
    adapters = "adapter" in config
    liger = config.get("liger_fused_linear_cross_entropy", False)
    micro, length = config["micro_batch_size"], config["sequence_len"]
    layout, software, master = _hugging_face(config, count, micro, liger=liger, adapters=adapters)
    layout["recompute"] = "full" if config["gradient_checkpointing"] else "none"
    if config.get("activation_offloading"):
        layout["offload"] = [*layout["offload"], "activations"]
    batch = count * micro * config["gradient_accumulation_steps"]
    pair = 2 if "rl" in config else 1
    workload = {
        "kind": "fine_tuning",
        "method": config.get("adapter", "full"),
        "tokens": config["max_steps"] * batch * length * pair,
        "sequence_length": length,
        "global_batch": batch,
        "precision": precision("bfloat16", "bf16", master=master),
        "optimizer": OPTIMIZERS[config["optimizer"]],
        "software": software,
        **({} if liger and "rl" not in config else {"cross_entropy": "plain"}),
        **({"gradient_sync": "last"} if "fsdp_config" in config else {}),
        **({"preference": config["rl"]} if "rl" in config else {}),
    }
    if adapters:
        assert config["load_in_4bit"] is (config["adapter"] == "qlora")
        assert config["lora_dropout"] == 0
        modules = config.get("lora_target_modules", list(TARGETS)[:4])
        whole = config.get("lora_target_linear")
        workload["lora_targets"] = ALL if whole else [TARGETS[name] for name in modules]
        workload["lora_rank"] = config["lora_r"]
    return {"workload": workload, "layout": layout}


def llama_factory(text: str, count: int) -> dict[str, Any]:
    config = yaml.safe_load(text)
    adapters = config["finetuning_type"] == "lora"
    liger = config["enable_liger_kernel"]
    micro, length = config["per_device_train_batch_size"], config["cutoff_len"]
    layout, software, master = _hugging_face(config, count, micro, liger=liger, adapters=adapters)
    layout["recompute"] = "none" if config["disable_gradient_checkpointing"] else "full"
    if config.get("use_unsloth_gc"):
        layout["offload"] = [*layout["offload"], "activations"]
    batch = count * micro * config["gradient_accumulation_steps"]
    pairs = config["stage"] == "dpo"
    recipe = "bf16_pure" if config.get("pure_bf16") else "bf16_mixed" if master else "bf16_amp"
    assert config.get("fp16", False) is not (config.get("bf16") or config.get("pure_bf16", False))
    recipe = "fp16_mixed" if config.get("fp16") else recipe
    loss = {"sigmoid": "dpo", "orpo": "orpo"}.get(config.get("pref_loss", ""))
    workload = {
        "kind": "fine_tuning",
        "method": "qlora" if config.get("quantization_bit") == 4 else config["finetuning_type"],
        "tokens": config["max_steps"] * batch * length * (2 if pairs else 1),
        "sequence_length": length,
        "global_batch": batch,
        "precision": recipe,
        "optimizer": OPTIMIZERS[config["optim"]],
        "software": software,
        **({} if liger and not pairs else {"cross_entropy": "plain"}),
        **({"gradient_sync": "last"} if "fsdp_config" in config else {}),
        **({"preference": loss} if pairs else {}),
    }
    if adapters:
        chosen = config["lora_target"].split(",")
        workload["lora_targets"] = ALL if chosen == ["all"] else [TARGETS[name] for name in chosen]
        workload["lora_rank"] = config["lora_rank"]
    return {"workload": workload, "layout": layout}


def torchtune(text: str, count: int) -> dict[str, Any]:
    config = yaml.safe_load(text)
    builder = config["model"]["_component_"].rpartition(".")[2]
    method = builder.partition("_")[0]
    method = method if method in ("lora", "qlora") else "full"
    offload = ["optimizer", "parameters"] if config.get("fsdp_cpu_offload") else []
    if config["enable_activation_offloading"]:
        offload.append("activations")
    length = config["tokenizer"]["max_seq_len"]
    batch = count * config["batch_size"] * config["gradient_accumulation_steps"]
    optimizer = config["optimizer"]["_component_"].rpartition(".")[2]
    names = {
        "AdamW": "adamw",
        "AdamW8bit": "adamw_8bit",
        "PagedAdamW8bit": "paged_adamw_8bit",
        "SGD": "sgd",
    }
    workload = {
        "kind": "fine_tuning",
        "method": method,
        "tokens": config["epochs"] * config["max_steps_per_epoch"] * batch * length,
        "sequence_length": length,
        "global_batch": batch,
        "precision": {"bf16": "bf16_pure", "fp32": "fp32"}[config["dtype"]],
        "optimizer": names[optimizer],
        "cross_entropy": "chunked",
        "software": "compiled" if config["compile"] else "plain",
    }
    if method != "full":
        model = config["model"]
        inner = ["gate", "up", "down"] if model["apply_lora_to_mlp"] else []
        workload["lora_targets"] = [TARGETS[name] for name in model["lora_attn_modules"]] + inner
        workload["lora_rank"] = model["lora_rank"]
    layout = {
        "data": count,
        "sharding": "zero3" if count > 1 else "ddp",
        "micro_batch": config["batch_size"],
        "recompute": "full" if config["enable_activation_checkpointing"] else "none",
        "offload": offload,
    }
    return {"workload": workload, "layout": layout}


def constants(script: str) -> dict[str, Any]:
    """Return the constants of a Python script."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(script).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
    }


def transformers(text: str, count: int) -> dict[str, Any]:
    script = read(text).files["pretrain.py"]
    values = constants(script)
    assert "torch_compile=COMPILE" in script
    assert "dtype=torch.float32" in script
    assert not values["COMPILE"] or not values["SHARED"]
    batch = count * values["MICRO_BATCH"] * values["ACCUMULATION"]
    autocast = {"bf16": "bf16_amp", "fp16": "fp16_amp"}.get(values["AUTOCAST"])
    return {
        "workload": {
            "kind": "pretraining",
            "tokens": values["STEPS"] * batch * values["SEQUENCE"],
            "sequence_length": values["SEQUENCE"],
            "global_batch": batch,
            "precision": autocast or ("tf32" if values["TF32"] else "fp32"),
            "optimizer": OPTIMIZERS[values["OPTIMIZER"]],
            "software": "compiled" if values["COMPILE"] else "huggingface",
            **({"attention": "eager"} if values["ATTENTION"] == "eager" else {}),
            "cross_entropy": "plain",
        },
        "layout": {
            "data": count,
            "micro_batch": values["MICRO_BATCH"],
            "recompute": "full" if values["RECOMPUTE"] else "none",
            "sharding": "zero3" if values["SHARED"].get("fsdp") else "ddp",
        },
    }


def unsloth(text: str, count: int) -> dict[str, Any]:
    values = constants(text)
    pairs = "DPOTrainer" in text
    method = "qlora" if values["FOUR_BITS"] else "full" if values["FULL"] else "lora"
    batch = count * values["MICRO_BATCH"] * values["ACCUMULATION"]
    workload = {
        "kind": "fine_tuning",
        "method": method,
        "tokens": values["STEPS"] * batch * values["SEQUENCE"] * (2 if pairs else 1),
        "sequence_length": values["SEQUENCE"],
        "global_batch": batch,
        # Adapters are fp32 whatever the base (unsloth-zoo, prepare_model_for_training).
        "precision": "fp16_mixed"
        if not values["BF16"]
        else "bf16_pure"
        if values["FULL"]
        else "bf16_mixed",
        "optimizer": OPTIMIZERS[values["OPTIMIZER"]],
        "software": "liger",
        **({"preference": "dpo"} if pairs else {}),
    }
    if method != "full":
        workload["lora_rank"] = values["RANK"]
        workload["lora_targets"] = [TARGETS[name] for name in values["TARGETS"]]
    layout = {
        "data": count,
        "micro_batch": values["MICRO_BATCH"],
        "recompute": "full" if values["RECOMPUTE"] else "none",
        "offload": ["activations"] if values["RECOMPUTE"] == "unsloth" else [],
    }
    return {"workload": workload, "layout": layout}


def timm(text: str, count: int) -> dict[str, Any]:
    options = read(text).options
    micro, accumulation = int(one(options, "batch-size")), int(one(options, "grad-accum-steps"))
    autocast = {"bfloat16": "bf16_amp", "float16": "fp16_amp"}
    method = {"kind": "fine_tuning", "method": "full"} if "pretrained" in options else {}
    return {
        "workload": {
            **(method or {"kind": "pretraining"}),
            "samples": int(one(options, "epochs")) * int(one(options, "train-num-samples")),
            "global_batch": count * micro * accumulation,
            "precision": autocast.get(one(options, "amp-dtype"), "fp32"),
            "optimizer": OPTIMIZERS[one(options, "opt")],
            "data_loading": "jpeg",
            "loader_workers": int(one(options, "workers")),
            "software": "plain",
        },
        "layout": {
            "data": count,
            "micro_batch": micro,
            "recompute": "full" if "grad-checkpointing" in options else "none",
        },
    }


def ultralytics(text: str, count: int) -> dict[str, Any]:
    settings = dict(word.split("=", 1) for word in read(text).program if "=" in word)
    images = int(text.partition("the figures hold for ")[2].partition(" images")[0])
    tuned = {"kind": "fine_tuning", "method": "full"}
    assert settings["device"].count(",") == count - 1
    return {
        "workload": {
            **(tuned if settings["model"].endswith(".pt") else {"kind": "pretraining"}),
            "samples": int(settings["epochs"]) * images,
            "global_batch": int(settings["nbs"]),
            "precision": "fp16_amp" if settings["amp"] == "true" else "fp32",
            "optimizer": {"SGD": "sgd_momentum", "AdamW": "adamw"}[settings["optimizer"]],
            "data_loading": "jpeg",
            "loader_workers": int(settings["workers"]),
            "software": "plain",
        },
        "layout": {"data": count, "micro_batch": int(settings["batch"]) // count},
    }


def whisper(text: str, count: int) -> dict[str, Any]:
    options = read(text).options
    micro = int(one(options, "per_device_train_batch_size"))
    batch = count * micro * int(one(options, "gradient_accumulation_steps"))
    autocast = next((name for name in ("bf16", "fp16") if on(options, name)), "")
    return {
        "workload": {
            "kind": "fine_tuning",
            "method": "full",
            "samples": int(one(options, "max_steps")) * batch,
            "global_batch": batch,
            "precision": precision("float32", autocast, master=False, tf32=on(options, "tf32")),
            "optimizer": OPTIMIZERS[one(options, "optim") if "optim" in options else "adamw"],
            "software": "plain",
        },
        "layout": {
            "data": count,
            "micro_batch": micro,
            "recompute": "full" if on(options, "gradient_checkpointing") else "none",
        },
    }


def summaries(text: str, count: int) -> dict[str, Any]:
    """run_summarization.py pads to the stated lengths with --pad_to_max_length."""
    found, options = whisper(text, count), read(text).options
    assert on(options, "pad_to_max_length")
    found["workload"]["sequence_length"] = int(one(options, "max_source_length"))
    found["workload"]["decoder_sequence_length"] = int(one(options, "max_target_length"))
    return found


def sdxl(text: str, count: int) -> dict[str, Any]:
    options = read(text).options
    micro = int(one(options, "train_batch_size"))
    batch = count * micro * int(one(options, "gradient_accumulation_steps"))
    alone = "tf32" if "allow_tf32" in options else "fp32"
    recipes = {"bf16": "bf16_mixed", "fp16": "fp16_mixed", "no": alone}
    return {
        "workload": {
            "kind": "fine_tuning",
            "method": "lora",
            "samples": int(one(options, "max_train_steps")) * batch,
            "global_batch": batch,
            "image_size": int(one(options, "resolution")),
            "precision": recipes[one(options, "mixed_precision")],
            "optimizer": "adamw_8bit" if "use_8bit_adam" in options else "adamw",
            "lora_rank": int(one(options, "rank")),
            "lora_targets": ["q", "k", "v", "o"],
            "software": "plain",
        },
        "layout": {
            "data": count,
            "micro_batch": micro,
            "recompute": "full" if "gradient_checkpointing" in options else "none",
        },
    }


def simpletuner(text: str, count: int) -> dict[str, Any]:
    """``resolution`` of a square crop is the length of a side (DATALOADER.md, resolution_type)."""
    found = read(text)
    config, [pictures, texts] = (
        json.loads(found.files[n]) for n in ("config.json", "dataset.json")
    )
    assert config["data_backend_config"] == "dataset.json"
    assert texts["dataset_type"] == "text_embeds"
    assert found.options["num_processes"] == [str(count)]
    micro = config["train_batch_size"]
    batch = count * micro * config["gradient_accumulation_steps"]
    methods = {"no_change": "lora", "nf4-bnb": "qlora"}
    return {
        "workload": {
            "kind": "fine_tuning",
            "method": methods[config["base_model_precision"]],
            "samples": config["max_train_steps"] * batch,
            "global_batch": batch,
            "image_size": pictures["resolution"],
            "precision": precision("bf16", config["mixed_precision"], master=False),
            "optimizer": {"adamw_bf16": "adamw"}[config["optimizer"]],
            "lora_rank": config["lora_rank"],
            "lora_targets": ["q", "k", "v", "o"],
            "software": "simpletuner",
        },
        "layout": {
            "data": count,
            "micro_batch": micro,
            "recompute": "full" if config["gradient_checkpointing"] else "none",
        },
    }


def gaudi(text: str, count: int) -> dict[str, Any]:
    found = read(text)
    options = found.options
    adapters = found.program[-1].endswith("run_lora_clm.py")
    micro = int(one(options, "per_device_train_batch_size"))
    batch = count * micro * int(one(options, "gradient_accumulation_steps"))
    length = int(one(options, "max_seq_length" if adapters else "block_size"))
    layout: dict[str, Any] = {
        "data": count,
        "micro_batch": micro,
        "recompute": "full" if on(options, "gradient_checkpointing") else "none",
    }
    software = "huggingface"
    if "deepspeed" in options:
        zero = json.loads(found.files[one(options, "deepspeed")])["zero_optimization"]
        layout["sharding"] = STAGES[zero["stage"]]
        software = "huggingface" if adapters else "deepspeed"
    workload: dict[str, Any] = {
        "kind": "fine_tuning",
        "method": "lora" if adapters else "full",
        "tokens": int(one(options, "max_steps")) * batch * length,
        "sequence_length": length,
        "global_batch": batch,
        "precision": "bf16_mixed",
        "cross_entropy": "plain",
        "software": software,
    }
    if adapters:
        workload["lora_rank"] = int(one(options, "lora_rank"))
        workload["lora_targets"] = [TARGETS[name] for name in options["lora_target_modules"]]
    return {"workload": workload, "layout": layout}


def neuron(text: str, count: int) -> dict[str, Any]:
    """``torchrun`` starts a process on each core; those of a chip share its tensors."""
    found = read(text)
    values = constants(found.files["train_neuron.py"])
    cores = int(one(found.options, "nproc-per-node")) * int(one(found.options, "nnodes")) // count
    tensor = values["CORES"] // cores
    ranks = count // (tensor * values["STAGES"])
    batch = ranks * values["MICRO_BATCH"] * values["ACCUMULATION"]
    workload = {
        "kind": "fine_tuning",
        "method": "lora" if "RANK" in values else "full",
        "tokens": values["STEPS"] * batch * values["SEQUENCE"],
        "sequence_length": values["SEQUENCE"],
        "global_batch": batch,
        "precision": "bf16_mixed",  # ZeRO-1 keeps fp32 master weights (training_args.py)
        "optimizer": {"adamw_torch": "adamw", "sgd": "sgd"}[values["OPTIMIZER"]],
        "attention": {"flash_attention_2": "flash", "eager": "eager"}[values["ATTENTION"]],
        "cross_entropy": "plain",
        "software": "compiled",
    }
    if "RANK" in values:
        workload["lora_rank"] = values["RANK"]
        workload["lora_targets"] = [TARGETS[name] for name in values["TARGETS"]]
    layout = {
        "data": ranks,
        "tensor": tensor,
        "pipeline": values["STAGES"],
        "micro_batch": values["MICRO_BATCH"],
        "sharding": "zero1" if ranks > 1 else "ddp",
        "recompute": "full" if values["RECOMPUTE"] else "none",
    }
    return {"workload": workload, "layout": layout}


def maxtext(text: str, count: int) -> dict[str, Any]:
    words = [word for word in read(text).program if "=" in word]
    settings = dict(word.split("=", 1) for word in words)
    fully, data = (
        int(settings[f"ici_{name}_parallelism"]) * int(settings.get(f"dcn_{name}_parallelism", 1))
        for name in ("fsdp", "data")
    )
    tensor, context, expert = (
        int(settings[f"ici_{n}_parallelism"]) for n in ("tensor", "context", "expert")
    )
    ranks = fully * data * expert
    micro = round(float(settings["per_device_batch_size"]) * count / ranks)
    batch = ranks * micro * int(settings["gradient_accumulation_steps"])
    length = int(settings["max_target_length"])
    adapters = settings.get("lora.enable_lora") == "True"
    weights = "bfloat16" if adapters else "float32"
    assert (settings["dtype"], settings["weight_dtype"]) == ("bfloat16", weights)
    sharding = "zero3" if ranks > data else "ddp"
    if settings["shard_optimizer_over_data"] == "true":
        sharding = "zero1"
    if adapters:
        work: dict[str, Any] = {"kind": "fine_tuning", "method": "lora"}
        work["lora_rank"] = int(settings["lora.lora_rank"])
        work["lora_targets"] = ALL  # lora_module_path.yml of the release
        assert "lora.lora_module_path" not in settings
    else:
        work = {"kind": "pretraining"}
    return {
        "workload": {
            **work,
            "tokens": int(settings["steps"]) * batch * length,
            "sequence_length": length,
            "global_batch": batch,
            "precision": "bf16_mixed",
            "software": "compiled",
        },
        "layout": {
            "data": ranks,
            "tensor": tensor,
            "context": context,
            "expert": expert,
            "micro_batch": micro,
            "sharding": sharding,
            "recompute": "full" if settings["remat_policy"] == "full" else "selective",
        },
    }


def torchtitan(text: str, count: int) -> dict[str, Any]:
    options = read(text).options
    degree: dict[str, Any] = {
        name: int(one(options, f"parallelism.{name}_parallel_degree"))
        for name in ("tensor", "pipeline", "context", "expert")
    }
    replicated, shared = (
        int(one(options, f"parallelism.data_parallel_{name}_degree"))
        for name in ("replicate", "shard")
    )
    assert count == replicated * shared * math.prod(list(degree.values())[:3])
    checkpointing = options["compile.enable"][0].partition(":")[2]
    batch = int(one(options, "training.global_batch_size"))
    length = int(one(options, "training.seq_len"))
    micro = int(one(options, "training.local_batch_size"))
    if degree["pipeline"] > 1:
        micro = int(one(options, "parallelism.pipeline_parallel_microbatch_size"))
    return {
        "workload": {
            "kind": "pretraining",
            "tokens": int(one(options, "training.steps")) * batch * length,
            "sequence_length": length,
            "global_batch": batch,
            "precision": "bf16_mixed",
            "cross_entropy": "linear",
            "software": "compiled",
        },
        "layout": {
            **degree,
            "data": replicated * shared,
            "sharding": "zero3" if shared > 1 else "ddp",
            "micro_batch": micro,
            "recompute": checkpointing,
        },
    }


def mlx(text: str, count: int) -> dict[str, Any]:
    """Read the file of ``mlx_lm.lora``, whose iterations are micro-batches (tuner/trainer.py)."""
    config = yaml.safe_load(text)
    assert config["num_layers"] == -1
    batch = config["batch_size"] * config["grad_accumulation_steps"]
    length = config["max_seq_length"]
    method = "qlora" if "--q-bits 4" in text else "lora"
    keys = config["lora_parameters"].get("keys")
    return {
        "workload": {
            "kind": "fine_tuning",
            "method": method,
            "tokens": config["iters"] * config["batch_size"] * length,
            "sequence_length": length,
            "global_batch": batch,
            "precision": "bf16_mixed",
            "optimizer": config["optimizer"],
            "software": "plain",
            "cross_entropy": "plain",
            "lora_rank": config["lora_parameters"]["rank"],
            "lora_targets": [TARGETS[key.partition(".")[2]] for key in keys] if keys else ALL,
        },
        "layout": {
            "data": 1,
            "micro_batch": config["batch_size"],
            "recompute": "full" if config["grad_checkpoint"] else "none",
        },
    }


READERS = {
    "mlx-lm": mlx,
    "accelerate": trl,
    "axolotl": axolotl,
    "llama-factory": llama_factory,
    "torchtune": torchtune,
    "unsloth": unsloth,
    "gaudi": gaudi,
    "maxtext": maxtext,
    "torchtitan": torchtitan,
}
PROGRAMS = {
    "train_neuron.py": neuron,
    "trl.scripts": trl,
    "pretrain_gpt.py": megatron,
    "torchtitan.train": torchtitan,
    "pytorch-image-models": timm,
    "yolo": ultralytics,
    "speech_recognition": whisper,
    "run_summarization": summaries,
    "lora_sdxl": sdxl,
    "optimum-habana": gaudi,
    "maxtext.trainers": maxtext,
    "pretrain.py": transformers,
    "simpletuner": simpletuner,
}


PLAIN: dict[str, Any] = {
    "tensor": 1,
    "pipeline": 1,
    "context": 1,
    "expert": 1,
    "sharding": "ddp",
    "virtual_stages": 1,
    "schedule": "1f1b",
    "sequence_parallel": True,
    "offload": [],
}
"""What a program does that is not told otherwise; fields that a case leaves out are searched."""


def meaning(text: str, to: str, count: int) -> dict[str, Any]:
    """Return workload and layout of a file."""
    reader = READERS.get(to)
    if reader is None:
        words = " ".join(read(text).program)
        reader = next(found for part, found in PROGRAMS.items() if part in words)
    found = reader(text, count)
    return {**found, "layout": PLAIN | found["layout"]}
