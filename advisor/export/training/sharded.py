"""How Hugging Face's trainers share out states: DeepSpeed's ZeRO, or PyTorch's FSDP."""

from collections.abc import Mapping
from math import ceil
from typing import Final

from advisor.export.quoting import json_text, yaml_text
from advisor.export.script import MASTER_PORT
from advisor.export.setup import Setup
from advisor.nouns.layout import Offload, ParallelLayout, Sharding
from advisor.nouns.training_choices import FineTuningMethod

STAGES: Final = {Sharding.DDP: 0, Sharding.ZERO1: 1, Sharding.ZERO2: 2, Sharding.ZERO3: 3}
DTYPES: Final = {
    "fp32": ("float32", "no"),
    "fp16_amp": ("float32", "fp16"),
    "bf16_amp": ("float32", "bf16"),
    "fp16_mixed": ("float16", "fp16"),
    "bf16_mixed": ("bfloat16", "bf16"),
    "bf16_pure": ("bfloat16", "bf16"),
}
"""Recipe -> format of the loaded weights, and format of autocast."""

PURE: Final = ("bf16_master_weights_and_grads", "bf16_optimizer_states")
"""Options of DeepSpeed 0.19.8 without which its weights get an fp32 copy (precision_config.py)."""


def autocast(setup: Setup) -> str:
    """Return the format of autocast; ``no`` without it."""
    return DTYPES[setup.run.recipe.name][1]


def micro_steps(setup: Setup) -> int:
    """Return the micro-steps of one optimizer step, rounded up."""
    layout = setup.layout
    return ceil(setup.run.global_batch / (layout.data * layout.micro_batch))


def uses_deepspeed(setup: Setup) -> bool:
    """Whether the user chose it, it alone holds states so, or weights have a master copy.

    Accelerate's context parallelism needs FSDP.
    """
    layout, run = setup.layout, setup.run
    if run.stack.runs_deepspeed or layout.context > 1:
        return run.stack.runs_deepspeed
    if run.frozen:
        return Offload.PARAMETERS in layout.offload and layout.data == 1
    held = Offload.OPTIMIZER in layout.offload or Offload.PARAMETERS in layout.offload
    fully = layout.sharding is Sharding.ZERO3 and run.recipe.working == "fp32"
    plain = fully or layout.sharding is Sharding.DDP
    return not plain or held or run.recipe.master is not None


def uses_fsdp(setup: Setup) -> bool:
    """Whether PyTorch shares out weights over all cards, not DeepSpeed."""
    return setup.layout.sharding is Sharding.ZERO3 and not uses_deepspeed(setup)


def quantized(setup: Setup) -> bool:
    """Whether the base is in 4 bits."""
    return setup.run.method is FineTuningMethod.QLORA


def held_apart(setup: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout as ZeRO or FSDP arranges it.

    ZeRO needs stage 2 to keep optimizer states in the host's memory and stage 3 for parameters.
    FSDP takes the states there together with the parameters. Adapters alone are not shared out.
    """
    sharding, offload = layout.sharding, set(layout.offload)
    if not uses_deepspeed(setup):
        offload.discard(Offload.OPTIMIZER)
        if sharding is not Sharding.ZERO3:
            sharding = Sharding.DDP
        elif Offload.PARAMETERS in offload:
            offload.add(Offload.OPTIMIZER)
    elif Offload.PARAMETERS in offload:
        sharding = Sharding.ZERO3
    elif Offload.OPTIMIZER in offload and STAGES[sharding] < STAGES[Sharding.ZERO2]:
        sharding = Sharding.ZERO2
    ordered = tuple(item for item in Offload if item in offload)
    return layout.changed(sharding=sharding, offload=ordered)


def deepspeed_config(setup: Setup) -> str:
    """Return DeepSpeed's configuration as JSON."""
    return json_text(deepspeed_options(setup))


def deepspeed_options(setup: Setup) -> dict[str, object]:
    """Return DeepSpeed's configuration."""
    layout = setup.layout
    stage = STAGES[layout.sharding]
    zero: dict[str, object] = {"stage": stage}
    if stage == STAGES[Sharding.ZERO3]:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    if Offload.OPTIMIZER in layout.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if Offload.PARAMETERS in layout.offload:
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    narrow = autocast(setup)
    pure = dict.fromkeys(PURE, True) if setup.run.recipe.name == "bf16_pure" else {}
    return {
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": micro_steps(setup),
        "gradient_clipping": 1.0,
        "bf16": {"enabled": narrow == "bf16", **pure},
        "fp16": {"enabled": narrow == "fp16"},
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
    }


def keeps_master(setup: Setup) -> bool:
    """Whether fp32 weights join the plan: FSDP's, or DeepSpeed's at stage 0 or in the host.

    Accelerate 1.15.0 makes weights that FSDP trains fp32 (utils/fsdp_utils.py).
    """
    layout, recipe = setup.layout, setup.run.recipe
    if not uses_deepspeed(setup):
        return uses_fsdp(setup) and not setup.run.frozen and recipe.working != "fp32"
    able = layout.sharding is not Sharding.DDP and Offload.OPTIMIZER not in layout.offload
    return not able and recipe.name == "bf16_pure"


def fsdp_options(setup: Setup) -> Mapping[str, object]:
    """Return the tuning of FSDP, as transformers' ``fsdp_config`` names it.

    A base in 4 bits takes the first FSDP: it broadcasts from one rank, so no card ever holds the
    whole base (bitsandbytes' documentation, FSDP-QLoRA, read 2026-11-22).
    """
    if not quantized(setup):
        return {
            "version": 2,
            "reshard_after_forward": True,
            "cpu_offload": Offload.PARAMETERS in setup.layout.offload,
            "cpu_ram_efficient_loading": True,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "state_dict_type": "FULL_STATE_DICT",
        }
    return first_fsdp()


def first_fsdp() -> Mapping[str, object]:
    """Return the tuning of PyTorch's first FSDP."""
    return {
        "backward_prefetch": "backward_pre",
        "forward_prefetch": False,
        "use_orig_params": False,
        "sync_module_states": True,
        "cpu_ram_efficient_loading": True,
    }


def fsdp_words(setup: Setup) -> str:
    """Return the value of ``--fsdp`` for a release of transformers that reads words."""
    held = " offload" if Offload.PARAMETERS in setup.layout.offload else ""
    return f"full_shard auto_wrap{held}"


def accelerate_config(setup: Setup) -> str:
    """Return Accelerate's configuration as YAML."""
    content: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "mixed_precision": autocast(setup),
        "num_machines": setup.machines,
        "num_processes": setup.estimate.count,
        "machine_rank": 0,
        "main_training_function": "main",
        "use_cpu": False,
    }
    if setup.machines > 1:
        content |= {"main_process_ip": "127.0.0.1", "main_process_port": MASTER_PORT}
        content |= {"rdzv_backend": "static", "same_network": True}
    if uses_deepspeed(setup):
        content |= {"distributed_type": "DEEPSPEED", "deepspeed_config": _deepspeed_part(setup)}
    elif uses_fsdp(setup):
        content |= {"distributed_type": "FSDP", "fsdp_config": _fsdp_part(setup)}
        if setup.layout.context > 1:
            content["parallelism_config"] = {
                f"parallelism_config_{name}": value for name, value in split(setup).items()
            }
    else:
        content["distributed_type"] = "MULTI_GPU" if setup.estimate.count > 1 else "NO"
    return yaml_text(content)


def split(setup: Setup) -> Mapping[str, object]:
    """Return how FSDP's cards split sequences, as Accelerate names it.

    Keys and values go round (``alltoall``); by default each card gathers those of all.
    """
    layout = setup.layout
    return {
        "dp_shard_size": layout.data,
        "cp_size": layout.context,
        "cp_comm_strategy": "alltoall",
    }


def _deepspeed_part(setup: Setup) -> dict[str, object]:
    layout = setup.layout
    whole = layout.sharding is Sharding.ZERO3
    return {
        "zero_stage": STAGES[layout.sharding],
        "gradient_accumulation_steps": micro_steps(setup),
        "gradient_clipping": 1.0,
        "offload_optimizer_device": "cpu" if Offload.OPTIMIZER in layout.offload else "none",
        "offload_param_device": "cpu" if Offload.PARAMETERS in layout.offload else "none",
        "zero3_init_flag": whole,
        "zero3_save_16bit_model": whole,
        "deepspeed_multinode_launcher": "standard",
    }


def _fsdp_part(setup: Setup) -> dict[str, object]:
    options = dict(fsdp_options(setup))
    options["offload_params"] = Offload.PARAMETERS in setup.layout.offload
    options.pop("cpu_offload", None)
    if quantized(setup):
        options |= {
            "version": 1,
            "state_dict_type": "FULL_STATE_DICT",
            "sharding_strategy": "FULL_SHARD",
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "backward_prefetch": "BACKWARD_PRE",
        }
    return {f"fsdp_{name}": value for name, value in options.items()}
