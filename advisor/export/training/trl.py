"""Fine-tuning by Hugging Face TRL: with DeepSpeed for full training, with FSDP for adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from advisor.export.formats import KINDS, Format, cannot
from advisor.export.quoting import json_text
from advisor.export.script import Launch, Options, Variable
from advisor.export.setup import Setup
from advisor.export.training.sharded import (
    DTYPES,
    STAGES,
    deepspeed_config,
    fsdp_options,
    fsdp_words,
    held_apart,
    quantized,
    uses_deepspeed,
    uses_fsdp,
)
from advisor.export.training.tool import Method, Tool
from advisor.export.training.words import (
    ALPHA_PER_RANK,
    adapts_all,
    dataset,
    rate,
    steps,
    targets,
    template_note,
    true,
    warm_up,
)
from advisor.export.training.written import accumulation
from advisor.export.versions import image_of, pip_install
from advisor.nouns.layout import Offload, Recompute, Sharding
from advisor.nouns.training_choices import (
    AttentionKernel,
    CrossEntropy,
    FineTuningMethod,
    GradientSync,
    Optimizer,
    Preference,
)

OPTIMIZERS: Final = {
    Optimizer.ADAMW: "adamw_torch_fused",
    Optimizer.ADAMW_8BIT: "adamw_bnb_8bit",
    Optimizer.PAGED_ADAMW_8BIT: "paged_adamw_8bit",
    Optimizer.SGD: "sgd",
    Optimizer.LION: "lion_32bit",
    Optimizer.ADAFACTOR: "adafactor",
}
"""Names of transformers' ``OptimizerNames``."""
NEEDS: Final = ("trl", "transformers", "accelerate", "datasets")
"""Packages of every training."""
SCRIPTS: Final = {None: "sft", Preference.DPO: "dpo"}
FSDP_FILE: Final = "fsdp.json"
METHODS: Final[tuple[Method, ...]] = tuple(FineTuningMethod)


def _stack(setup: Setup) -> str:
    """Return the stack of the file; DeepSpeed where it holds the states of plain code."""
    name = setup.run.stack.name
    if not setup.run.stack.eager or setup.run.stack.trainer_options:
        return name
    return "deepspeed" if uses_deepspeed(setup) else "huggingface"


def _means(setup: Setup) -> Mapping[str, object]:
    """Return what TRL decides: neither trainer ever builds the whole logits."""
    waits = uses_fsdp(setup)
    own = bool(setup.run.stack.trainer_options)
    return {
        "attention": AttentionKernel.EAGER
        if setup.run.attention is AttentionKernel.EAGER
        else AttentionKernel.FLASH,
        "cross_entropy": None if own else CrossEntropy.LINEAR,
        "gradient_sync": GradientSync.LAST if waits else GradientSync.EACH,
    }


def _check(setup: Setup) -> None:
    if uses_deepspeed(setup):
        _check_deepspeed(setup)


def _check_deepspeed(setup: Setup) -> None:
    layout = setup.estimate.layout
    shared = layout.sharding is Sharding.ZERO3 or Offload.PARAMETERS in layout.offload
    if quantized(setup) and shared:
        raise cannot(
            "DeepSpeed cannot share out a base in 4 bits: every card would load all of it",
            value="zero3 with qlora",
            allowed="FSDP over two cards or more (--to torchrun, accelerate or axolotl), or qlora "
            "with sharding ddp",
            remedy="Leave --software deepspeed out, and choose --to torchrun with --count 2.",
        )


def trl_launch(setup: Setup, *, sharded: bool = True) -> Launch:
    """Return the training command of every rank.

    With ``sharded=False``, Accelerate's configuration says how states are shared out.
    """
    run, layout = setup.run, setup.estimate.layout
    loaded, autocast = DTYPES[run.recipe.name]
    options: Options = (
        ("--model_name_or_path", setup.weights),
        ("--dataset_name", Variable("DATASET")),
        ("--output_dir", Variable("OUTPUT")),
        ("--max_length", str(run.sequence_length)),
        ("--per_device_train_batch_size", str(layout.micro_batch)),
        ("--gradient_accumulation_steps", str(accumulation(run, layout))),
        ("--max_steps", str(steps(setup))),
        ("--learning_rate", rate(setup)),
        ("--lr_scheduler_type", "cosine"),
        ("--warmup_steps", str(warm_up(setup))),
        ("--optim", OPTIMIZERS[run.optimizer]),
        ("--dtype", loaded),
        ("--bf16", true(autocast == "bf16")),
        ("--fp16", true(autocast == "fp16")),
        ("--gradient_checkpointing", true(layout.recompute is not Recompute.NONE)),
        ("--attn_implementation", "eager" if run.attention is AttentionKernel.EAGER else "sdpa"),
        ("--report_to", setup.log_to or "none"),
    )
    if run.preference is None:
        options += (("--packing", "true"), ("--packing_strategy", "wrapped"))
    if run.frozen:
        options += _adapters(setup)
    options += tuple((f"--{name}", value) for name, value in run.stack.trainer_options.items())
    if Offload.ACTIVATIONS in layout.offload:
        options += (("--activation_offloading", "true"),)
    further, files = _sharing(setup) if sharded else ((), {})
    notes, needs = [template_note(setup)], [*NEEDS, *_further(setup)]
    if uses_fsdp(setup) and quantized(setup):
        needs[needs.index("transformers")] = "transformers-4"
        notes.append(
            "transformers 5 loads the whole 4-bit base on every card before FSDP shares it out; "
            "this release of transformers 4 does not."
        )
        options += (("--gradient_checkpointing_kwargs", '{"use_reentrant": true}'),)
    return Launch(
        program=("-m", f"trl.scripts.{SCRIPTS[run.preference]}"),
        options=options + further,
        install=(pip_install(*needs),),
        image=image_of("trl", setup.accelerator.vendor),
        variables={
            "DATASET": (dataset(setup), "your data: a dataset of the hub, or a folder"),
            "OUTPUT": ("output", "folder for checkpoints"),
            **setup.log_variables,
        },
        files=files,
        notes=tuple(notes),
    )


def _further(setup: Setup) -> tuple[str, ...]:
    """Return the packages for the options that the plan sets."""
    small = "8bit" in OPTIMIZERS[setup.run.optimizer] or "lion" in OPTIMIZERS[setup.run.optimizer]
    used = {
        "peft": setup.run.frozen,
        "bitsandbytes": quantized(setup) or small,
        "deepspeed": uses_deepspeed(setup),
        "liger-kernel": "use_liger_kernel" in setup.run.stack.trainer_options,
        setup.log_to or "": setup.log_to is not None,
    }
    return tuple(name for name, needed in used.items() if needed)


def _sharing(setup: Setup) -> tuple[Options, dict[str, str]]:
    """Return the options that share out states, and the files that they name."""
    if uses_deepspeed(setup):
        name = KINDS[Format.DEEPSPEED].file_name
        return (("--deepspeed", name),), {name: deepspeed_config(setup)}
    if uses_fsdp(setup):
        words = fsdp_words(setup) if quantized(setup) else "true"
        options: Options = (("--fsdp", words), ("--fsdp_config", FSDP_FILE))
        return options, {FSDP_FILE: json_text(fsdp_options(setup))}
    return (), {}


def _adapters(setup: Setup) -> Options:
    run = setup.run
    options: Options = (
        ("--use_peft",),
        ("--lora_r", str(run.lora_rank)),
        ("--lora_alpha", str(ALPHA_PER_RANK * run.lora_rank)),
        ("--lora_dropout", "0"),
        ("--lora_target_modules", *(("all-linear",) if adapts_all(setup) else targets(setup))),
    )
    if quantized(setup):
        options += (("--load_in_4bit", "true"), ("--use_bnb_nested_quant", "true"))
        if uses_fsdp(setup):
            # FSDP shares out only what is stored in the format of the other parameters.
            options += (("--bnb_4bit_quant_storage", DTYPES[run.recipe.name][0]),)
    return options


TRL: Final = Tool(
    title="TRL",
    package="trl",
    launch=trl_launch,
    methods=METHODS,
    recipes={name: name for name in ("bf16_mixed", *DTYPES)},
    optimizers=OPTIMIZERS,
    sharding={item: item for item in STAGES},
    stack=_stack,
    offload=tuple(Offload),
    preferences=SCRIPTS,
    loggers=("mlflow",),
    arranged=held_apart,
    means=_means,
    check=_check,
)
DEEPSPEED: Final = Tool(
    title="DeepSpeed",
    package="deepspeed",
    launch=trl_launch,
    methods=(None, *METHODS),
    recipes=TRL.recipes,
    optimizers=tuple(Optimizer),
    sharding=TRL.sharding,
    stack=lambda _: "deepspeed",
    offload=(Offload.OPTIMIZER, Offload.PARAMETERS),
    preferences=(None, *Preference),
    arranged=held_apart,
    means=lambda _: {"gradient_sync": GradientSync.EACH},
    check=_check_deepspeed,
)
"""Its configuration for a script of one's own."""
