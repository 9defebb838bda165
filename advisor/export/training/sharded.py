"""How Hugging Face's trainers share out states: DeepSpeed's ZeRO, or PyTorch's FSDP."""

from math import ceil
from typing import Final

from advisor.export.setup import Setup
from advisor.nouns.layout import Offload, ParallelLayout, Sharding
from advisor.nouns.training_choices import FineTuningMethod

STAGES: Final = {Sharding.DDP: 0, Sharding.ZERO1: 1, Sharding.ZERO2: 2, Sharding.ZERO3: 3}
DTYPES: Final = {
    "fp32": ("float32", "no"),
    "tf32": ("float32", "no"),
    "fp16_amp": ("float32", "fp16"),
    "bf16_amp": ("float32", "bf16"),
    "fp16_mixed": ("float16", "fp16"),
    "bf16_mixed": ("bfloat16", "bf16"),
    "bf16_pure": ("bfloat16", "bf16"),
}
"""Recipe -> format of the loaded weights, and format of autocast."""


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


def device(setup: Setup, what: Offload) -> str:
    """Return where a part of the states is, as Accelerate names it."""
    return "cpu" if what in setup.layout.offload else "none"


def quantized(setup: Setup) -> bool:
    """Whether the base is in 4 bits."""
    return setup.run.method is FineTuningMethod.QLORA


def shares_4_bits(setup: Setup) -> bool:
    """Whether a base in 4 bits would be shared out, or kept in the host's memory."""
    layout = setup.layout
    shared = layout.sharding is Sharding.ZERO3 or Offload.PARAMETERS in layout.offload
    return quantized(setup) and shared


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


def keeps_master(setup: Setup) -> bool:
    """Whether fp32 weights join the plan: FSDP's, or DeepSpeed's at stage 0 or in the host.

    Accelerate 1.15.0 makes weights that FSDP trains fp32 (utils/fsdp_utils.py).
    """
    layout, recipe = setup.layout, setup.run.recipe
    if not uses_deepspeed(setup):
        return uses_fsdp(setup) and not setup.run.frozen and recipe.working != "fp32"
    able = layout.sharding is not Sharding.DDP and Offload.OPTIMIZER not in layout.offload
    return not able and recipe.name == "bf16_pure"


def fsdp_words(setup: Setup) -> str:
    """Return the value of ``--fsdp`` for a release of transformers that reads words."""
    held = " offload" if Offload.PARAMETERS in setup.layout.offload else ""
    return f"full_shard auto_wrap{held}"


def distributed(setup: Setup) -> str:
    """Return what Accelerate starts."""
    if uses_deepspeed(setup):
        return "DEEPSPEED"
    if uses_fsdp(setup):
        return "FSDP"
    return "MULTI_GPU" if setup.estimate.count > 1 else "NO"
