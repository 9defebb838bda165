"""torchtune: recipes of plain PyTorch with FSDP, each with one YAML file."""

from __future__ import annotations

from typing import Final

from advisor.export.formats import KINDS, Format, cannot
from advisor.export.quoting import yaml_text
from advisor.export.script import Launch
from advisor.export.setup import Setup
from advisor.export.training.model_names import TunedModel, launch_models
from advisor.export.training.tool import Tool, fused
from advisor.export.training.trl import METHODS
from advisor.export.training.words import (
    ALPHA_PER_RANK,
    chats,
    rate,
    steps,
    targets,
    template_note,
    warm_up,
)
from advisor.export.training.written import accumulation
from advisor.export.versions import image_of, pip_install
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.training_choices import CrossEntropy, FineTuningMethod, Optimizer

OPTIMIZERS: Final[dict[Optimizer, dict[str, object]]] = {
    Optimizer.ADAMW: {"_component_": "torch.optim.AdamW", "fused": True},
    Optimizer.PAGED_ADAMW_8BIT: {"_component_": "bitsandbytes.optim.PagedAdamW8bit"},
    Optimizer.ADAMW_8BIT: {"_component_": "bitsandbytes.optim.AdamW8bit"},
    Optimizer.SGD: {"_component_": "torch.optim.SGD"},
}
TOKENIZERS: Final = {
    "llama3": {
        "_component_": "torchtune.models.llama3.llama3_tokenizer",
        "path": "weights/original/tokenizer.model",
    },
    "qwen2_5": {
        "_component_": "torchtune.models.qwen2_5.qwen2_5_tokenizer",
        "path": "weights/vocab.json",
        "merges_file": "weights/merges.txt",
    },
}
INNER: Final = {"gate", "up", "down"}


def _model(setup: Setup) -> TunedModel | None:
    return next((row for row in launch_models().torchtune if row.pattern in setup.weights), None)


def _check(setup: Setup) -> None:
    model, run = _model(setup), setup.run
    if model is None:
        raise cannot(
            "torchtune has no builder for this model",
            value=setup.weights,
            allowed=", ".join(row.pattern for row in launch_models().torchtune),
            remedy="Choose --to torchrun, axolotl or llama-factory.",
        )
    if run.method is FineTuningMethod.QLORA and not model.qlora:
        raise cannot(
            "torchtune has no builder of this model with a base in 4 bits",
            value=setup.weights,
            allowed=", ".join(row.pattern for row in launch_models().torchtune if row.qlora),
            remedy="Choose --task lora, or --to torchrun.",
        )
    inner = INNER & set(run.lora_targets)
    if run.frozen and inner and inner != INNER:
        raise cannot(
            "torchtune adapts all projections of a feed-forward layer, or none",
            value=", ".join(run.lora_targets),
            allowed="gate, up and down together, or none of them",
            remedy="Change lora_targets, or choose --to torchrun.",
        )


def _arranged(setup: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout of the recipe: on several cards it shares out everything."""
    several = setup.estimate.count > 1
    held = Offload.PARAMETERS in layout.offload or Offload.OPTIMIZER in layout.offload
    kept = set(layout.offload) & {Offload.ACTIVATIONS}
    if several and held:
        kept |= {Offload.OPTIMIZER, Offload.PARAMETERS}
    recompute = Recompute.FULL if Offload.ACTIVATIONS in kept else layout.recompute
    return layout.model_copy(
        update={
            "sharding": Sharding.ZERO3 if several else Sharding.DDP,
            "offload": tuple(item for item in Offload if item in kept),
            "recompute": recompute,
        }
    )


def _recipe(setup: Setup) -> str:
    kind = "lora_finetune" if setup.run.frozen else "full_finetune"
    return f"{kind}_{'distributed' if setup.estimate.count > 1 else 'single_device'}"


def _launch(setup: Setup) -> Launch:
    name = KINDS[Format.TORCHTUNE].file_name
    small = "bitsandbytes" in str(OPTIMIZERS[setup.run.optimizer]["_component_"])
    fetch = ("tune", "download", setup.weights, "--output-dir", "weights")
    several = setup.estimate.count > 1
    return Launch(
        program=(_recipe(setup), "--config", name)
        if several
        else ("tune", "run", _recipe(setup), "--config", name),
        options=(),
        install=(pip_install("torchtune", "torchao", *(["bitsandbytes"] if small else [])), fetch),
        image=image_of("trl", setup.accelerator.vendor),
        files={name: yaml_text(_config(setup))},
        notes=(
            template_note(setup),
            f"Goes once through your data; with fewer than {setup.run.tokens:,.0f} tokens it ends.",
            "torchtune is no longer maintained (its README, April 2026); TRL and Axolotl are.",
        ),
        starter=("tune", "run") if several else (),
        config=name,
    )


def _config(setup: Setup) -> dict[str, object]:
    run, layout = setup.run, setup.estimate.layout
    model = _model(setup)
    assert model is not None
    width = 5
    files: object = ["model.safetensors"]
    if model.files > 1:
        names = {"filename_format": "model-{}-of-{}.safetensors"}
        files = {**names, "max_filename": f"{model.files:0{width}d}"}
    content: dict[str, object] = {
        "output_dir": "output",
        "tokenizer": {**TOKENIZERS[model.tokenizer], "max_seq_len": run.sequence_length},
        "model": _network(setup, model),
        "checkpointer": {
            "_component_": "torchtune.training.FullModelHFCheckpointer",
            "checkpoint_dir": "weights",
            "checkpoint_files": files,
            "recipe_checkpoint": None,
            "output_dir": "${output_dir}",
            "model_type": model.type,
        },
        "resume_from_checkpoint": False,
        "dataset": _dataset(setup),
        "seed": None,
        "shuffle": True,
        "batch_size": layout.micro_batch,
        "gradient_accumulation_steps": accumulation(run, layout),
        "epochs": 1,
        "max_steps_per_epoch": steps(setup),
        "optimizer": {**OPTIMIZERS[run.optimizer], "lr": float(rate(setup))},
        "lr_scheduler": {
            "_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",
            "num_warmup_steps": warm_up(setup),
        },
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "clip_grad_norm": 1.0,
        "compile": True,
        "device": "cuda",
        "dtype": "fp32" if run.recipe.name == "fp32" else "bf16",
        "enable_activation_checkpointing": layout.recompute is not Recompute.NONE,
        "enable_activation_offloading": Offload.ACTIVATIONS in layout.offload,
        "metric_logger": {
            "_component_": "torchtune.training.metric_logging.DiskLogger",
            "log_dir": "${output_dir}/logs",
        },
        "log_every_n_steps": 1,
        "log_peak_memory_stats": True,
    }
    if run.frozen:
        content["save_adapter_weights_only"] = False
    else:
        content["optimizer_in_bwd"] = False
    if setup.estimate.count > 1:
        content["fsdp_cpu_offload"] = Offload.PARAMETERS in layout.offload
    return content


def _network(setup: Setup, model: TunedModel) -> dict[str, object]:
    run = setup.run
    prefix = {FineTuningMethod.LORA: "lora_", FineTuningMethod.QLORA: "qlora_"}
    builder = f"{prefix.get(run.method, '') if run.method else ''}{model.name}"
    content: dict[str, object] = {"_component_": f"torchtune.models.{model.module}.{builder}"}
    if run.frozen:
        names = {"o_proj": "output_proj"}
        adapted = [name for name in targets(setup) if name[0] in "qkvo"]
        content |= {
            "lora_attn_modules": [names.get(name, name) for name in adapted],
            "apply_lora_to_mlp": set(run.lora_targets) >= INNER,
            "apply_lora_to_output": False,
            "lora_rank": run.lora_rank,
            "lora_alpha": ALPHA_PER_RANK * run.lora_rank,
            "lora_dropout": 0.0,
        }
    return content


def _dataset(setup: Setup) -> dict[str, object]:
    if not chats(setup.weights):
        return {"_component_": "torchtune.datasets.alpaca_cleaned_dataset", "packed": True}
    return {
        "_component_": "torchtune.datasets.chat_dataset",
        "source": "trl-lib/Capybara",
        "conversation_column": "messages",
        "conversation_style": "openai",
        "split": "train",
        "packed": True,
    }


TORCHTUNE: Final = Tool(
    title="torchtune",
    package="torchtune",
    launch=_launch,
    methods=METHODS,
    recipes={"bf16_mixed": "bf16_pure", "bf16_pure": "bf16_pure", "fp32": "fp32"},
    optimizers=tuple(OPTIMIZERS),
    sharding={item: item for item in Sharding},
    stack=lambda _: "compiled",
    offload=tuple(Offload),
    arranged=_arranged,
    means=lambda _: fused(CrossEntropy.CHUNKED),
    check=_check,
)
