"""Cards with training software of their own: Gaudi with Optimum Habana, TPUs with MaxText."""

from __future__ import annotations

from typing import Final

from advisor.export.formats import KINDS, Format, cannot
from advisor.export.script import Launch, Options, Variable
from advisor.export.setup import Setup
from advisor.export.training.model_names import launch_models
from advisor.export.training.sharded import STAGES, deepspeed_config, held_apart, uses_deepspeed
from advisor.export.training.tool import SAME, Tool, fused
from advisor.export.training.words import ALPHA_PER_RANK, rate, steps, targets, true, warm_up
from advisor.export.training.written import accumulation
from advisor.export.versions import git_clone, image_of, pip_install
from advisor.nouns.layout import Recompute, Sharding
from advisor.nouns.training_choices import CrossEntropy, FineTuningMethod, Optimizer

HABANA: Final = "https://github.com/huggingface/optimum-habana"
EXAMPLES: Final = "optimum-habana/examples"


def _gaudi_check(setup: Setup) -> None:
    if not setup.accelerator.key.startswith("gaudi"):
        raise cannot(
            "Optimum Habana runs on Gaudi",
            value=setup.accelerator.name,
            allowed="gaudi2, gaudi3, gaudi3-pcie",
            remedy="Choose --to torchrun for NVIDIA and AMD cards.",
        )
    if setup.machines > 1:
        raise cannot(
            "the file for Gaudi starts one machine",
            value=setup.machines,
            allowed="1",
            remedy="Choose a count of one machine, or follow optimum-habana's "
            "examples/multi-node-training.",
        )


def _gaudi_launch(setup: Setup) -> Launch:
    run, layout = setup.run, setup.estimate.layout
    sharded = uses_deepspeed(setup) or layout.sharding is not Sharding.DDP
    spawn: tuple[str, ...] = ()
    if setup.estimate.count > 1:
        how = "--use_deepspeed" if sharded else "--use_mpi"
        spawn = (f"{EXAMPLES}/gaudi_spawn.py", "--world_size", str(setup.estimate.count), how)
    script = "run_lora_clm.py" if run.frozen else "run_clm.py"
    options: Options = (
        ("--model_name_or_path", setup.weights),
        ("--dataset_name", Variable("DATASET")),
        ("--output_dir", Variable("OUTPUT")),
        ("--do_train",),
        ("--use_habana",),
        ("--use_lazy_mode",),
        ("--gaudi_config_name", "Habana/llama"),
        ("--bf16", "true"),
        ("--per_device_train_batch_size", str(layout.micro_batch)),
        ("--gradient_accumulation_steps", str(accumulation(run, layout))),
        ("--max_steps", str(steps(setup))),
        ("--learning_rate", rate(setup)),
        ("--lr_scheduler_type", "cosine"),
        ("--warmup_steps", str(warm_up(setup))),
        ("--max_grad_norm", "1.0"),
        ("--gradient_checkpointing", true(layout.recompute is not Recompute.NONE)),
        ("--attn_implementation", "gaudi_fused_sdpa"),
        ("--throughput_warmup_steps", "3"),
        ("--report_to", setup.log_to or "none"),
    )
    if run.frozen:
        options += (
            ("--dataset_concatenation",),
            ("--max_seq_length", str(run.sequence_length)),
            ("--lora_rank", str(run.lora_rank)),
            ("--lora_alpha", str(ALPHA_PER_RANK * run.lora_rank)),
            ("--lora_dropout", "0"),
            ("--lora_target_modules", *targets(setup)),
        )
    else:
        options += (
            ("--dataset_config_name", Variable("CONFIG")),
            ("--torch_dtype", "bfloat16"),
            ("--block_size", str(run.sequence_length)),
        )
    files = {}
    if sharded:
        name = KINDS[Format.DEEPSPEED].file_name
        files[name] = deepspeed_config(setup)
        options += (("--deepspeed", name),)
    return Launch(
        program=("python3", *spawn, f"{EXAMPLES}/language-modeling/{script}"),
        options=options,
        install=(
            git_clone(HABANA, "optimum-habana"),
            pip_install("optimum-habana", *((setup.log_to,) if setup.log_to else ())),
            ("pip", "install", "-r", f"{EXAMPLES}/language-modeling/requirements.txt"),
        ),
        image=image_of("gaudi", "Intel"),
        variables={
            **_gaudi_data(setup),
            "OUTPUT": ("output", "folder for checkpoints"),
            **setup.log_variables,
        },
        environment={"PT_HPU_LAZY_MODE": "1"},
        files=files,
        starter=(),
    )


def _gaudi_data(setup: Setup) -> dict[str, tuple[str, str]]:
    meaning = "your data: a dataset of the hub"
    if setup.run.frozen:
        return {"DATASET": ("tatsu-lab/alpaca", meaning)}
    return {
        "DATASET": ("Salesforce/wikitext", meaning),
        "CONFIG": ("wikitext-103-raw-v1", "its configuration"),
    }


GAUDI: Final = Tool(
    title="Optimum Habana",
    package="optimum-habana",
    launch=_gaudi_launch,
    methods=(FineTuningMethod.LORA, FineTuningMethod.FULL),
    recipes={"bf16_mixed": "bf16_mixed", "bf16_pure": "bf16_pure"},
    optimizers=(Optimizer.ADAMW,),
    sharding={item: item for item in STAGES},
    stack=lambda setup: "deepspeed" if uses_deepspeed(setup) else "huggingface",
    vendors=("Intel",),
    instead="Choose an NVIDIA or AMD card, or on Gaudi lora or full fine-tuning on single answers.",
    loggers=("mlflow",),
    arranged=held_apart,
    means=lambda _: fused(CrossEntropy.PLAIN),
    check=_gaudi_check,
)


def _maxtext_model(setup: Setup) -> str | None:
    return launch_models().maxtext.of(setup.model.hub_id)


def _maxtext_check(setup: Setup) -> None:
    if setup.accelerator.vendor == "Google" and _maxtext_model(setup) is None:
        raise cannot(
            "MaxText has no configuration of this model",
            value=setup.model.hub_id or setup.model.name,
            allowed=f"one of {len(launch_models().maxtext.names)} models, e.g. llama3.1-8b, "
            "qwen3-8b, gemma3-4b",
            remedy="Choose such a model, or write a file for src/maxtext/configs/models.",
        )
    if setup.run.method is not None and setup.checkpoint is None:
        raise cannot(
            "MaxText starts a fine-tuning from converted weights, and none are named",
            value=setup.model.hub_id or setup.model.name,
            allowed="--checkpoint FOLDER with weights that "
            "maxtext.checkpoint_conversion.to_maxtext converted",
            remedy="Add --checkpoint FOLDER.",
        )


def _maxtext_launch(setup: Setup) -> Launch:
    run, layout = setup.run, setup.estimate.layout
    per_device = layout.micro_batch * layout.data / setup.estimate.count
    fully = layout.sharding is Sharding.ZERO3
    settings: dict[str, object] = {
        "run_name": setup.slug,
        "model_name": _maxtext_model(setup) or "default",
        "per_device_batch_size": f"{per_device:g}",
        "gradient_accumulation_steps": accumulation(run, layout),
        "max_target_length": run.sequence_length,
        "steps": steps(setup),
        "dtype": "bfloat16",
        "weight_dtype": "float32",
        "remat_policy": "full" if layout.recompute is Recompute.FULL else "minimal",
        "ici_fsdp_parallelism": layout.data if fully else 1,
        "ici_data_parallelism": 1 if fully else layout.data,
        "ici_tensor_parallelism": layout.tensor,
        "ici_context_parallelism": layout.context,
        "shard_optimizer_over_data": str(layout.sharding is Sharding.ZERO1).lower(),
        "learning_rate": rate(setup),
        "warmup_steps_fraction": 0.03,
        "gradient_clipping_threshold": 1.0,
        "adam_weight_decay": 0.1,
        "adam_b1": 0.9,
        "adam_b2": 0.95,
        "dataset_type": "hf",
        "train_split": "train",
        "tokenizer_type": "huggingface",
        "tokenizer_path": setup.model.hub_id or "",
    }
    module = "maxtext.trainers.pre_train.train"
    if run.method is not None:
        module = "maxtext.trainers.post_train.sft.train_sft"
        settings["load_parameters_path"] = setup.checkpoint or ""
    options: Options = (
        (Variable("OUTPUT", "base_output_directory="),),
        (Variable("DATASET", "hf_path="),),
        *((f"{name}={value}",) for name, value in settings.items()),
    )
    source = "https://github.com/AI-Hypercomputer/maxtext"
    return Launch(
        program=("python3", "-m", module),
        options=options,
        install=(git_clone(source, "maxtext", tag=""), ("pip", "install", "-e", "maxtext[tpu]")),
        image=image_of("maxtext", "Google"),
        variables={
            "OUTPUT": ("output", "folder or bucket (gs://) for checkpoints"),
            "DATASET": ("allenai/c4", "your data: a dataset of the hub"),
        },
        notes=("Runs on one slice; every host of it runs the same command.",),
        starter=(),
    )


MAXTEXT: Final = Tool(
    title="MaxText",
    package="maxtext",
    launch=_maxtext_launch,
    methods=(None, FineTuningMethod.FULL),
    recipes={"bf16_mixed": "bf16_mixed", "bf16_amp": "bf16_mixed"},
    optimizers=(Optimizer.ADAMW,),
    sharding={
        Sharding.DDP: Sharding.DDP,
        Sharding.ZERO1: Sharding.ZERO1,
        Sharding.ZERO2: Sharding.ZERO3,
        Sharding.ZERO3: Sharding.ZERO3,
    },
    stack=lambda _: "compiled",
    vendors=("Google",),
    instead="Choose an NVIDIA or AMD card, or on TPUs pretraining or --task finetune.",
    recompute={**SAME, Recompute.NONE: Recompute.SELECTIVE},
    divides=("tensor", "context"),
    check=_maxtext_check,
)
