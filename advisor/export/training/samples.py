"""Networks that take images or sound: timm, and scripts for Whisper and SDXL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from advisor.architecture.table.sample import Unit
from advisor.estimate.training.run import PRETRAINING_SAMPLES
from advisor.export.formats import cannot
from advisor.export.script import Launch, Options, Variable
from advisor.export.setup import Setup
from advisor.export.training.model_names import launch_models
from advisor.export.training.tool import Tool
from advisor.export.training.words import steps, true, warm_up
from advisor.export.training.written import accumulation
from advisor.export.versions import git_clone, image_of, pip_install
from advisor.nouns.layout import Recompute, Sharding
from advisor.nouns.training_choices import (
    AttentionKernel,
    DataLoading,
    FineTuningMethod,
    GradientSync,
    Optimizer,
)

IMAGENET: Final = PRETRAINING_SAMPLES // 90
"""Images of ImageNet's training set, through which the default run goes 90 times."""
TIMM_OPTIMIZERS: Final = {
    Optimizer.SGD_MOMENTUM: ("momentum", "0.1", "256", "1e-4"),
    Optimizer.SGD: ("momentum", "0.1", "256", "1e-4"),
    Optimizer.ADAMW: ("adamw", "5e-4", "512", "0.05"),
    Optimizer.LION: ("lion", "1e-4", "512", "0.5"),
}
"""Optimizer -> its name in timm, learning rate at a batch, that batch, and weight decay. SGD: Goyal
et al. 2017, arXiv:1706.02677, section 5.1; AdamW: DeiT, arXiv:2012.12877, table 9; Lion: a third
of the rate and more decay (arXiv:2302.06675, section 5)."""
AUTOCAST: Final = {"bf16_amp": "bfloat16", "fp16_amp": "float16"}
AMP: Final = {
    "bf16_amp": "bf16_amp",
    "bf16_mixed": "bf16_amp",
    "fp16_amp": "fp16_amp",
    "fp16_mixed": "fp16_amp",
    "fp32": "fp32",
}
"""Recipe -> the one of scripts that keep fp32 weights under autocast."""
ATTENDS: Final = {"attention": AttentionKernel.FLASH, "gradient_sync": GradientSync.EACH}
REPLICATED: Final = dict.fromkeys(Sharding, Sharding.DDP)
"""Sharding of scripts that run plain data parallelism alone."""


def _dataset_size(setup: Setup) -> int:
    """Images that the run goes through in one epoch: the stated samples, or ImageNet's."""
    given = getattr(setup.workload, "samples", None)
    return round(given) if given is not None and setup.tool is None else IMAGENET


def _epochs(setup: Setup) -> int:
    return max(1, round(setup.run.tokens / _dataset_size(setup)))


def _images(setup: Setup, _: int) -> float:
    return float(_epochs(setup) * _dataset_size(setup))


def _workers(setup: Setup) -> int:
    """Return the loader's processes for each accelerator: as asked, or one on each core."""
    node = setup.placement.node
    asked: int | None = getattr(setup.workload, "loader_workers", None)
    return asked or max(1, int(node.host_cores / node.accelerators))


def _timm_means(setup: Setup) -> Mapping[str, object]:
    optimizer = setup.run.optimizer
    momentum = Optimizer.SGD_MOMENTUM if optimizer is Optimizer.SGD else optimizer
    return {
        "optimizer": momentum,
        "data_loading": DataLoading.JPEG,
        "loader_workers": _workers(setup),
        "gradient_sync": GradientSync.EACH,
    }


def _timm_check(setup: Setup) -> None:
    if setup.model.hub_id not in launch_models().timm.names:
        raise cannot(
            "no network of timm is known to be this one",
            value=setup.model.hub_id or setup.model.name,
            allowed=", ".join(launch_models().timm.names.values()),
            remedy="Choose such a preset, or export a report and start the network's own code.",
        )
    if getattr(setup.workload, "data_loading", None) is DataLoading.CACHED:
        raise cannot(
            "timm's train.py decodes every JPEG on the host",
            value=DataLoading.CACHED.value,
            allowed=f"{DataLoading.JPEG.value}; decoding on the card: NVIDIA DALI's own pipeline",
            remedy="Add --data-loading jpeg.",
        )


def _timm_launch(setup: Setup) -> Launch:
    run, layout = setup.run, setup.estimate.layout
    name, rate, base, decay = TIMM_OPTIMIZERS[run.optimizer]
    epochs = round(run.tokens / _epoch(setup))
    options: Options = (
        ("--data-dir", Variable("DATA")),
        ("--output", Variable("OUTPUT")),
        ("--model", launch_models().timm.names[setup.model.hub_id or ""]),
        ("--train-num-samples", str(_epoch(setup))),
        ("--epochs", str(epochs)),
        ("--warmup-epochs", str(min(5, epochs))),
        ("--batch-size", str(layout.micro_batch)),
        ("--grad-accum-steps", str(accumulation(run, layout))),
        ("--opt", name),
        ("--lr-base", rate),
        ("--lr-base-size", base),
        ("--lr-base-scale", "linear"),
        ("--weight-decay", decay),
        ("--sched", "cosine"),
        ("--workers", str(run.loading.workers if run.loading and run.loading.workers else 4)),
        ("--pin-mem",),
    )
    size = setup.model.sample.image_size if setup.model.sample else None
    if size:
        options += (("--img-size", str(size)),)
    if run.recipe.name in AUTOCAST:
        options += (("--amp",), ("--amp-dtype", AUTOCAST[run.recipe.name]), ("--channels-last",))
    if layout.recompute is not Recompute.NONE:
        options += (("--grad-checkpointing",),)
    if run.method is not None:
        options += (("--pretrained",),)
    source = "https://github.com/huggingface/pytorch-image-models"
    return Launch(
        program=("pytorch-image-models/train.py",),
        options=options,
        install=(git_clone(source, "timm"), pip_install("timm")),
        image=image_of("trl", setup.accelerator.vendor),
        variables={
            "DATA": ("imagenet", "folder with train/ and val/, one folder for each class"),
            "OUTPUT": ("output", "folder for checkpoints"),
        },
        notes=("The number of classes follows from --num-classes; 1,000 without it.",),
    )


def _epoch(setup: Setup) -> int:
    """Images of one epoch of the written run: ImageNet's if they divide it, else all."""
    whole = round(setup.run.tokens)
    return IMAGENET if whole % IMAGENET == 0 else whole


TIMM: Final = Tool(
    title="timm",
    package="timm",
    launch=_timm_launch,
    methods=(None, FineTuningMethod.FULL),
    recipes=AMP,
    optimizers=tuple(TIMM_OPTIMIZERS),
    sharding=REPLICATED,
    stack=lambda _: "plain",
    units=(Unit.IMAGE,),
    amount=_images,
    means=_timm_means,
    check=_timm_check,
)


WHISPER_NOTE: Final = (
    "transformers 5 loads the weights in the 16-bit format of their file; this release of "
    "transformers 4 loads them in fp32, as autocast needs."
)


def _whisper_check(setup: Setup) -> None:
    if "whisper" not in (setup.model.hub_id or setup.checkpoint or ""):
        raise cannot(
            "no launch configuration trains this network",
            value=setup.model.name,
            allowed="Whisper, networks of timm, SDXL with LoRA, and models that write text",
            remedy="Export a report, and start the network's own code.",
        )


def _whisper_launch(setup: Setup) -> Launch:
    run, layout = setup.run, setup.estimate.layout
    amp = run.recipe.name
    source = "https://github.com/huggingface/transformers"
    folder = "transformers/examples/pytorch/speech-recognition"
    options: Options = (
        ("--model_name_or_path", setup.weights),
        ("--dataset_name", Variable("DATASET")),
        ("--dataset_config_name", Variable("CONFIG")),
        ("--train_split_name", Variable("SPLIT")),
        ("--text_column_name", Variable("TEXT")),
        ("--language", Variable("LANGUAGE")),
        ("--task", "transcribe"),
        ("--output_dir", Variable("OUTPUT")),
        ("--do_train",),
        ("--freeze_feature_encoder", "false"),
        ("--max_duration_in_seconds", "30"),
        ("--preprocessing_num_workers", "16"),
        ("--per_device_train_batch_size", str(layout.micro_batch)),
        ("--gradient_accumulation_steps", str(accumulation(run, layout))),
        ("--max_steps", str(steps(setup))),
        ("--learning_rate", "1e-5"),
        ("--warmup_steps", str(warm_up(setup))),
        ("--optim", WHISPER_OPTIMIZERS[run.optimizer]),
        ("--bf16", true(amp == "bf16_amp")),
        ("--fp16", true(amp == "fp16_amp")),
        ("--gradient_checkpointing", true(layout.recompute is not Recompute.NONE)),
        ("--report_to", setup.log_to or "none"),
    )
    needs = ("transformers-4", "accelerate", "datasets-3", "evaluate", "jiwer", "librosa")
    small = ("bitsandbytes",) if "8bit" in run.optimizer.value else ()
    log = (setup.log_to,) if setup.log_to else ()
    return Launch(
        program=(f"{folder}/run_speech_recognition_seq2seq.py",),
        options=options,
        install=(git_clone(source, "transformers-4"), pip_install(*needs, *small, *log)),
        image=image_of("trl", setup.accelerator.vendor),
        variables={
            "DATASET": ("openslr/librispeech_asr", "your data: a dataset of the hub"),
            "CONFIG": ("clean", "its configuration"),
            "SPLIT": ("train.100", "its part to train on"),
            "TEXT": ("text", "its column with transcripts"),
            "LANGUAGE": ("english", "language of the transcripts"),
            "OUTPUT": ("output", "folder for checkpoints"),
            **setup.log_variables,
        },
        notes=(WHISPER_NOTE,),
    )


WHISPER_OPTIMIZERS: Final = {
    Optimizer.ADAMW: "adamw_torch_fused",
    Optimizer.ADAMW_8BIT: "adamw_bnb_8bit",
    Optimizer.PAGED_ADAMW_8BIT: "paged_adamw_8bit",
    Optimizer.ADAFACTOR: "adafactor",
}
WHISPER: Final = Tool(
    title="transformers (run_speech_recognition_seq2seq.py)",
    package="transformers-4",
    launch=_whisper_launch,
    methods=(FineTuningMethod.FULL,),
    recipes=AMP,
    optimizers=tuple(WHISPER_OPTIMIZERS),
    sharding=REPLICATED,
    stack=lambda _: "plain",
    units=(Unit.SAMPLE,),
    loggers=("mlflow",),
    means=lambda _: ATTENDS,
    check=_whisper_check,
)

SDXL_TARGETS: Final = ("q", "k", "v", "o")
"""Projections that ``train_text_to_image_lora_sdxl.py`` adapts: to_q, to_k, to_v, to_out.0."""


def _sdxl_check(setup: Setup) -> None:
    if "stable-diffusion-xl" not in (setup.model.hub_id or ""):
        raise cannot(
            "launch configurations train of the diffusion networks only SDXL, with LoRA",
            value=setup.model.hub_id or setup.model.name,
            allowed="sdxl-unet with --task lora",
            remedy="Export a report, and start the network's script in diffusers' "
            "examples (github.com/huggingface/diffusers/tree/main/examples).",
        )


def _sdxl_launch(setup: Setup) -> Launch:
    run, layout = setup.run, setup.estimate.layout
    source = "https://github.com/huggingface/diffusers"
    size = setup.model.sample.image_size if setup.model.sample else None
    precision = {"bf16_mixed": "bf16", "fp16_mixed": "fp16", "fp32": "no"}
    options: Options = (
        ("--pretrained_model_name_or_path", setup.weights),
        ("--pretrained_vae_model_name_or_path", "madebyollin/sdxl-vae-fp16-fix"),
        ("--dataset_name", Variable("DATASET")),
        ("--caption_column", Variable("CAPTION")),
        ("--output_dir", Variable("OUTPUT")),
        ("--resolution", str(size or 1024)),
        ("--random_flip",),
        ("--rank", str(run.lora_rank)),
        ("--train_batch_size", str(layout.micro_batch)),
        ("--gradient_accumulation_steps", str(accumulation(run, layout))),
        ("--max_train_steps", str(steps(setup))),
        ("--learning_rate", "1e-4"),
        ("--lr_scheduler", "constant"),
        ("--lr_warmup_steps", "0"),
        ("--mixed_precision", precision[run.recipe.name]),
        ("--checkpointing_steps", "500"),
    )
    if layout.recompute is not Recompute.NONE:
        options += (("--gradient_checkpointing",),)
    if run.optimizer is Optimizer.ADAMW_8BIT:
        options += (("--use_8bit_adam",),)
    needs = ("transformers-4", "accelerate", "datasets", "peft", "torchvision")
    small = ("bitsandbytes",) if run.optimizer is Optimizer.ADAMW_8BIT else ()
    return Launch(
        program=("diffusers/examples/text_to_image/train_text_to_image_lora_sdxl.py",),
        options=options,
        install=(
            git_clone(source, "diffusers-examples"),
            pip_install("diffusers-examples", *needs, *small),
        ),
        image=image_of("trl", setup.accelerator.vendor),
        variables={
            "DATASET": ("lambdalabs/naruto-blip-captions", "your pictures: a dataset of the hub"),
            "CAPTION": ("text", "its column with captions"),
            "OUTPUT": ("output", "folder for the adapters"),
        },
        notes=(
            "The figures are the U-Net's. Text encoders and image decoder add 2 GiB on each card.",
        ),
    )


SDXL: Final = Tool(
    title="diffusers (train_text_to_image_lora_sdxl.py)",
    package="diffusers-examples",
    launch=_sdxl_launch,
    methods=(FineTuningMethod.LORA,),
    recipes={
        "bf16_mixed": "bf16_mixed",
        "bf16_amp": "bf16_mixed",
        "fp16_mixed": "fp16_mixed",
        "fp16_amp": "fp16_mixed",
        "fp32": "fp32",
    },
    optimizers=(Optimizer.ADAMW, Optimizer.ADAMW_8BIT),
    sharding=REPLICATED,
    stack=lambda _: "plain",
    units=(Unit.IMAGE,),
    means=lambda _: {**ATTENDS, "lora_targets": SDXL_TARGETS},
    check=_sdxl_check,
)
