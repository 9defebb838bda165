"""Fine-tuning by Hugging Face TRL, with DeepSpeed if states are sharded."""

from __future__ import annotations

from math import ceil
from typing import Final

from advisor.export.formats import KINDS, Format, cannot
from advisor.export.quoting import json_text, yaml_text
from advisor.export.script import MASTER_PORT, Launch, Options, Variable
from advisor.export.setup import Setup
from advisor.export.versions import image_of, pip_install
from advisor.nouns.layout import Offload, Recompute, Sharding
from advisor.nouns.training_choices import (
    AttentionKernel,
    FineTuningMethod,
    GradientSync,
    Optimizer,
    Preference,
)

STAGES: Final = {Sharding.DDP: 0, Sharding.ZERO1: 1, Sharding.ZERO2: 2, Sharding.ZERO3: 3}
OPTIMIZERS: Final = {
    Optimizer.ADAMW: "adamw_torch_fused",
    Optimizer.ADAMW_8BIT: "adamw_bnb_8bit",
    Optimizer.PAGED_ADAMW_8BIT: "paged_adamw_8bit",
    Optimizer.SGD: "sgd",
    Optimizer.LION: "lion_32bit",
    Optimizer.ADAFACTOR: "adafactor",
}
"""Names of transformers' ``OptimizerNames``."""
DTYPES: Final = {
    "fp32": ("float32", "no"),
    "fp16_amp": ("float32", "fp16"),
    "bf16_amp": ("float32", "bf16"),
    "fp16_mixed": ("float16", "fp16"),
    "bf16_mixed": ("bfloat16", "bf16"),
    "bf16_pure": ("bfloat16", "bf16"),
}
"""Recipe -> format of the loaded weights, and format of autocast."""
TARGETS: Final = {
    "q": "q_proj",
    "k": "k_proj",
    "v": "v_proj",
    "o": "o_proj",
    "gate": "gate_proj",
    "up": "up_proj",
    "down": "down_proj",
}
"""Adapted projections by their names in transformers' decoders. ``all-linear`` means all."""
FULL_RATE: Final = "2e-5"
"""Llama 2 (arXiv:2307.09288, section 3.1), supervised fine-tuning."""
ADAPTER_RATE: Final = "2e-4"
"""QLoRA (Dettmers et al. 2023, arXiv:2305.14314, table 9), 7B and 13B."""
ALPHA_PER_RANK: Final = 2
"""As in TRL's defaults: ``lora_alpha`` 32 for ``lora_r`` 16."""
NEEDS: Final = (
    *("trl", "transformers", "accelerate", "peft", "bitsandbytes", "deepspeed", "liger-kernel"),
)
"""Packages for the training and for every option that a plan may set."""
DATASETS: Final = {
    None: ("sft", "trl-lib/tldr"),
    Preference.DPO: ("dpo", "trl-lib/tldr-preference"),
}
"""TRL's script, and a dataset from its documentation that needs no chat template."""


def accumulation(setup: Setup) -> int:
    """Return the micro-steps of one optimizer step, rounded up."""
    layout = setup.estimate.layout
    return ceil(setup.run.global_batch / (layout.data * layout.micro_batch))


def batch_notes(setup: Setup) -> tuple[str, ...]:
    """Return a note if the batch is rounded up to a multiple that the ranks can share."""
    layout, asked = setup.estimate.layout, setup.run.global_batch
    whole = accumulation(setup) * layout.data * layout.micro_batch
    return (
        (f"Uses batches of {whole}, because the ranks cannot share {asked} evenly.",)
        if whole != asked
        else ()
    )


def uses_deepspeed(setup: Setup) -> bool:
    """Whether the user chose it, states are sharded, or 16-bit weights have a master copy."""
    layout = setup.estimate.layout
    master = setup.run.recipe.master is not None and not setup.run.frozen
    asked = setup.run.stack.runs_deepspeed
    return asked or layout.sharding is not Sharding.DDP or bool(layout.offload) or master


def zero_stage(setup: Setup) -> int:
    """Return DeepSpeed's ZeRO stage; offload to the host's memory needs a higher one."""
    layout = setup.estimate.layout
    if Offload.PARAMETERS in layout.offload:
        return STAGES[Sharding.ZERO3]
    least = STAGES[Sharding.ZERO2] if Offload.OPTIMIZER in layout.offload else 0
    return max(STAGES[layout.sharding], least)


def trl_launch(setup: Setup, *, deepspeed: bool = True) -> Launch:
    """Return the training command of every rank.

    With ``deepspeed=False``, Accelerate holds DeepSpeed's configuration.

    Raises
    ------
    InputError
        If TRL does not support the training.
    """
    if setup.run.method is None:
        allowed = "torchrun with Megatron-class software, or deepspeed for your own script"
        raise cannot(
            "TRL fine-tunes but does not pretrain",
            value="pretraining",
            allowed=allowed,
            remedy="Choose --software megatron, or --to deepspeed.",
        )
    _check(setup)
    run, layout = setup.run, setup.estimate.layout
    script, dataset = DATASETS[run.preference]
    loaded, autocast = DTYPES[run.recipe.name]
    steps = ceil(run.tokens / run.tokens_per_step)
    options: Options = (
        ("--model_name_or_path", setup.weights),
        ("--dataset_name", Variable("DATASET")),
        ("--output_dir", Variable("OUTPUT")),
        ("--max_length", str(run.sequence_length)),
        ("--per_device_train_batch_size", str(layout.micro_batch)),
        ("--gradient_accumulation_steps", str(accumulation(setup))),
        ("--max_steps", str(steps)),
        ("--learning_rate", ADAPTER_RATE if run.frozen else FULL_RATE),
        ("--optim", OPTIMIZERS[run.optimizer]),
        ("--dtype", loaded),
        ("--bf16", _true(autocast == "bf16")),
        ("--fp16", _true(autocast == "fp16")),
        ("--gradient_checkpointing", _true(layout.recompute is not Recompute.NONE)),
        ("--attn_implementation", "eager" if run.attention is AttentionKernel.EAGER else "sdpa"),
    )
    if run.preference is None:
        options += (("--packing", "true"), ("--packing_strategy", "wrapped"))
    if run.frozen:
        options += _adapters(setup)
    options += tuple((f"--{name}", value) for name, value in run.stack.trainer_options.items())
    if Offload.ACTIVATIONS in layout.offload:
        options += (("--activation_offloading", "true"),)
    files = {}
    if deepspeed and uses_deepspeed(setup):
        name = KINDS[Format.DEEPSPEED].file_name
        options += (("--deepspeed", name),)
        files[name] = deepspeed_config(setup)
    return Launch(
        program=("-m", f"trl.scripts.{script}"),
        options=options,
        install=(pip_install(*NEEDS),),
        image=image_of("trl", setup.accelerator.vendor),
        variables={
            "DATASET": (dataset, "your data: a dataset of the hub, or a folder"),
            "OUTPUT": ("output", "folder for checkpoints"),
        },
        files=files,
        notes=batch_notes(setup) + _recompute_notes(layout.recompute) + _sync_notes(setup),
    )


def _true(value: bool) -> str:
    return "true" if value else "false"


def _recompute_notes(recompute: Recompute) -> tuple[str, ...]:
    if recompute is not Recompute.SELECTIVE:
        return ()
    return ("Recomputes whole blocks, because TRL has no selective mode: less memory, more time.",)


def _sync_notes(setup: Setup) -> tuple[str, ...]:
    waits = setup.run.switches.gradient_sync is GradientSync.LAST
    if not (waits and uses_deepspeed(setup)):
        return ()
    return ("Sums gradients after each micro-batch, as DeepSpeed does: less memory, more traffic.",)


def _adapters(setup: Setup) -> Options:
    run = setup.run
    whole = set(run.lora_targets) == set(TARGETS)
    targets = ("all-linear",) if whole else tuple(TARGETS[name] for name in run.lora_targets)
    options: Options = (
        ("--use_peft",),
        ("--lora_r", str(run.lora_rank)),
        ("--lora_alpha", str(ALPHA_PER_RANK * run.lora_rank)),
        ("--lora_target_modules", *targets),
    )
    if run.method is FineTuningMethod.QLORA:
        options += (("--load_in_4bit", "true"), ("--use_bnb_nested_quant", "true"))
        if setup.estimate.layout.sharding is Sharding.ZERO3:
            # Shards must be stored in the same format as the other parameters.
            options += (("--bnb_4bit_quant_storage", DTYPES[run.recipe.name][0]),)
    return options


def _check(setup: Setup) -> None:
    run, layout = setup.run, setup.estimate.layout
    split = layout.tensor * layout.pipeline * layout.context * layout.expert
    shared = f"--accelerator {setup.accelerator.key} --count {setup.estimate.count} "
    shared += "--sharding zero3 --recompute full"
    problems = (
        (split > 1, "TRL does not split a model over accelerators", split, shared),
        (run.recipe.name not in DTYPES, "TRL has no such recipe", run.recipe.name, "bf16_mixed"),
        (
            run.optimizer not in OPTIMIZERS,
            "TRL does not have this optimizer",
            run.optimizer,
            "adamw",
        ),
        (run.preference not in DATASETS, "TRL has no such script", run.preference, "dpo"),
    )
    for wrong, what, value, allowed in problems:
        if wrong:
            raise cannot(what, value=value, allowed=allowed, remedy=f"Choose {allowed}.")


def deepspeed_config(setup: Setup) -> str:
    """Return DeepSpeed's configuration as JSON.

    Raises
    ------
    InputError
        If the plan splits layers or matrices, which this configuration cannot express.
    """
    _check(setup)
    layout = setup.estimate.layout
    stage = zero_stage(setup)
    zero: dict[str, object] = {"stage": stage}
    if stage == STAGES[Sharding.ZERO3]:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    if Offload.OPTIMIZER in layout.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if Offload.PARAMETERS in layout.offload:
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    autocast = DTYPES[setup.run.recipe.name][1]
    content: dict[str, object] = {
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": accumulation(setup),
        "gradient_clipping": 1.0,
        "bf16": {"enabled": autocast == "bf16"},
        "fp16": {"enabled": autocast == "fp16"},
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
    }
    return json_text(content)


def accelerate_config(setup: Setup) -> str:
    """Return Accelerate's configuration as YAML."""
    layout = setup.estimate.layout
    content: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "mixed_precision": DTYPES[setup.run.recipe.name][1],
        "num_machines": setup.machines,
        "num_processes": setup.estimate.count,
        "machine_rank": 0,
        "main_training_function": "main",
        "use_cpu": False,
    }
    if setup.machines > 1:
        content |= {"main_process_ip": "127.0.0.1", "main_process_port": MASTER_PORT}
        content |= {"rdzv_backend": "static", "same_network": True}
    if not uses_deepspeed(setup):
        content["distributed_type"] = "MULTI_GPU" if setup.estimate.count > 1 else "NO"
        return yaml_text(content)
    stage = zero_stage(setup)
    content["distributed_type"] = "DEEPSPEED"
    content["deepspeed_config"] = {
        "zero_stage": stage,
        "gradient_accumulation_steps": accumulation(setup),
        "gradient_clipping": 1.0,
        "offload_optimizer_device": "cpu" if Offload.OPTIMIZER in layout.offload else "none",
        "offload_param_device": "cpu" if Offload.PARAMETERS in layout.offload else "none",
        "zero3_init_flag": stage == STAGES[Sharding.ZERO3],
        "zero3_save_16bit_model": stage == STAGES[Sharding.ZERO3],
        "deepspeed_multinode_launcher": "standard",
    }
    return yaml_text(content)
