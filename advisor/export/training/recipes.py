"""Axolotl and LLaMA-Factory: one YAML file for a run of Hugging Face's trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from advisor.export.formats import KINDS, Format, cannot
from advisor.export.quoting import yaml_text
from advisor.export.script import Launch
from advisor.export.setup import Setup
from advisor.export.training.model_names import launch_models
from advisor.export.training.sharded import (
    STAGES,
    deepspeed_options,
    first_fsdp,
    fsdp_words,
    held_apart,
    quantized,
    uses_deepspeed,
    uses_fsdp,
)
from advisor.export.training.tool import Tool, fused
from advisor.export.training.trl import METHODS, OPTIMIZERS
from advisor.export.training.words import (
    ALPHA_PER_RANK,
    adapts_all,
    chats,
    rate,
    steps,
    targets,
    template_note,
    warm_up,
)
from advisor.export.training.written import accumulation
from advisor.export.versions import git_clone, image_of, pip_install
from advisor.nouns.layout import Offload, ParallelLayout, Recompute
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.training_choices import CrossEntropy, Preference
from advisor.nouns.workload import Serving

LIGER: Final = ("Llama", "Mistral", "Mixtral", "Qwen", "Gemma", "Phi 3", "Phi-3", "OLMo", "Granite")
"""Families that Liger's kernels replace (liger-kernel 0.8.5, transformers/monkey_patch.py)."""
REPOSITORY: Final = "https://github.com/hiyouga/LLaMA-Factory"


def _liger(setup: Setup) -> bool:
    """Whether the file uses Liger's kernels: asked for, or nothing is and they know the model."""
    assert not isinstance(setup.workload, Serving)
    if setup.workload.software in known_stacks():
        return setup.workload.software == "liger"
    return any(name in setup.model.family for name in LIGER)


def _stack(setup: Setup) -> str:
    if _liger(setup):
        return "liger"
    return "deepspeed" if uses_deepspeed(setup) else "huggingface"


def _means(setup: Setup) -> Mapping[str, object]:
    """Return what both decide: without Liger's kernels they build the whole logits."""
    return fused(None if _liger(setup) else CrossEntropy.PLAIN, waits=uses_fsdp(setup))


def _axolotl_launch(setup: Setup) -> Launch:
    name = KINDS[Format.AXOLOTL].file_name
    needs = ["axolotl", *(["deepspeed-axolotl"] if uses_deepspeed(setup) else [])]
    needs += [setup.log_to] if setup.log_to else []
    return Launch(
        program=("-m", "axolotl.cli.train", name),
        options=(),
        install=((*pip_install(*needs), "--no-build-isolation"),),
        image=image_of("trl", setup.accelerator.vendor),
        variables=setup.log_variables,
        files={name: yaml_text(_axolotl(setup))},
        notes=(template_note(setup),),
        config=name,
    )


def _axolotl(setup: Setup) -> dict[str, object]:
    run, layout = setup.run, setup.estimate.layout
    content: dict[str, object] = {
        "base_model": setup.weights,
        "output_dir": "./output",
        **_axolotl_data(setup),
        "sequence_len": run.sequence_length,
        "micro_batch_size": layout.micro_batch,
        "gradient_accumulation_steps": accumulation(run, layout),
        "max_steps": steps(setup),
        "optimizer": OPTIMIZERS[run.optimizer],
        "learning_rate": float(rate(setup)),
        "lr_scheduler": "cosine",
        "warmup_steps": warm_up(setup),
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "bf16": True,
        "tf32": False,
        "attn_implementation": "flash_attention_2",
        "gradient_checkpointing": layout.recompute is not Recompute.NONE,
        "logging_steps": 10,
    }
    if run.frozen:
        content |= {
            "adapter": run.method.value if run.method else None,
            "load_in_4bit": quantized(setup),
            "lora_r": run.lora_rank,
            "lora_alpha": ALPHA_PER_RANK * run.lora_rank,
            "lora_dropout": 0.0,
        }
        whole = adapts_all(setup)
        content |= (
            {"lora_target_linear": True} if whole else {"lora_target_modules": list(targets(setup))}
        )
    if Offload.ACTIVATIONS in layout.offload:
        content["activation_offloading"] = True
    if _liger(setup):
        content |= {
            "plugins": ["axolotl.integrations.liger.LigerPlugin"],
            "liger_rope": True,
            "liger_rms_norm": True,
            "liger_glu_activation": True,
            "liger_fused_linear_cross_entropy": True,
        }
    if uses_deepspeed(setup):
        content["deepspeed"] = deepspeed_options(setup)
    elif uses_fsdp(setup):
        content |= {"fsdp_version": 2, "fsdp_config": _axolotl_fsdp(setup)}
    if setup.log_to:
        content |= {"use_mlflow": True, "mlflow_experiment_name": "gpu-advisor"}
    return content


def _axolotl_fsdp(setup: Setup) -> dict[str, object]:
    return {
        "offload_params": Offload.PARAMETERS in setup.estimate.layout.offload,
        "cpu_ram_efficient_loading": True,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "state_dict_type": "FULL_STATE_DICT",
        "reshard_after_forward": True,
    }


def _axolotl_data(setup: Setup) -> dict[str, object]:
    """Return the data: dialogues in the model's own template, or instructions without one."""
    chat = chats(setup.weights)
    if setup.run.preference is not None:
        pairs = {
            "path": "trl-lib/ultrafeedback_binarized",
            "split": "train",
            "type": "chat_template.default",
            "field_messages": "chosen",
            "field_chosen": "chosen",
            "field_rejected": "rejected",
        }
        template = {"chat_template": "tokenizer_default" if chat else "chatml"}
        return {**template, "rl": setup.run.preference.value, "datasets": [pairs]}
    packed: dict[str, object] = {"sample_packing": True, "pad_to_sequence_len": True}
    if chat:
        talk = {"path": "trl-lib/Capybara", "type": "chat_template", "field_messages": "messages"}
        return {"chat_template": "tokenizer_default", "datasets": [talk], **packed}
    return {"datasets": [{"path": "tatsu-lab/alpaca", "type": "alpaca"}], **packed}


def _axolotl_check(setup: Setup) -> None:
    if quantized(setup) and uses_fsdp(setup) and setup.run.preference is not None:
        raise cannot(
            "Axolotl does not train on pairs with FSDP and a base in 4 bits",
            value="qlora with zero3",
            allowed="lora with zero3, or qlora with ddp",
            remedy="Add --sharding ddp, or choose --to torchrun.",
        )
    _deepspeed_check(setup, "Axolotl")


def _deepspeed_check(setup: Setup, title: str) -> None:
    if quantized(setup) and uses_deepspeed(setup):
        raise cannot(
            f"{title} would load the whole 4-bit base on every card under DeepSpeed",
            value="qlora with deepspeed",
            allowed="FSDP, over two cards or more, or no sharding",
            remedy="Leave --software deepspeed and --offload out, or add --count 2.",
        )


def _factory_launch(setup: Setup) -> Launch:
    name = KINDS[Format.LLAMA_FACTORY].file_name
    clone = git_clone(REPOSITORY, "llamafactory")
    needs = [item for item, used in _factory_needs(setup).items() if used]
    return Launch(
        program=("-m", "llamafactory.launcher", name),
        options=(),
        install=(clone, pip_install("llamafactory", *needs)),
        image=image_of("trl", setup.accelerator.vendor),
        variables=setup.log_variables,
        files={name: yaml_text(_factory(setup))},
        notes=(template_note(setup),),
        config=name,
    )


def _factory_needs(setup: Setup) -> dict[str, bool]:
    return {
        "transformers-4": quantized(setup) and uses_fsdp(setup),
        "bitsandbytes": quantized(setup) or "8bit" in OPTIMIZERS[setup.run.optimizer],
        "liger-kernel": _liger(setup),
        "deepspeed-llamafactory": uses_deepspeed(setup),
        "mlflow": setup.log_to == "mlflow",
    }


def _factory(setup: Setup) -> dict[str, object]:
    run, layout = setup.run, setup.estimate.layout
    recipe = run.recipe.name
    content: dict[str, object] = {
        "model_name_or_path": setup.weights,
        "stage": "sft" if run.preference is None else "dpo",
        "do_train": True,
        "finetuning_type": "lora" if run.frozen else "full",
        **_factory_data(setup),
        "cutoff_len": run.sequence_length,
        "output_dir": "output",
        "logging_steps": 10,
        "report_to": setup.log_to or "none",
        "per_device_train_batch_size": layout.micro_batch,
        "gradient_accumulation_steps": accumulation(run, layout),
        "max_steps": steps(setup),
        "optim": OPTIMIZERS[run.optimizer],
        "learning_rate": float(rate(setup)),
        "lr_scheduler_type": "cosine",
        "warmup_steps": warm_up(setup),
        "flash_attn": "sdpa",
        "disable_gradient_checkpointing": layout.recompute is Recompute.NONE,
        "enable_liger_kernel": _liger(setup),
    }
    if Offload.ACTIVATIONS in layout.offload:
        content["use_unsloth_gc"] = True
    content["pure_bf16" if recipe == "bf16_pure" else "bf16"] = True
    if run.preference is Preference.DPO:
        content |= {"pref_loss": "sigmoid", "pref_beta": 0.1}
    elif run.preference is Preference.ORPO:
        content["pref_loss"] = "orpo"
    if run.frozen:
        content |= {
            "lora_rank": run.lora_rank,
            "lora_alpha": ALPHA_PER_RANK * run.lora_rank,
            "lora_dropout": 0.0,
            "lora_target": "all" if adapts_all(setup) else ",".join(targets(setup)),
        }
    if quantized(setup):
        content |= {
            "quantization_method": "bnb",
            "quantization_bit": 4,
            "quantization_type": "nf4",
            "double_quantization": True,
        }
    if uses_deepspeed(setup):
        content["deepspeed"] = deepspeed_options(setup)
    elif uses_fsdp(setup):
        content |= {"fsdp": fsdp_words(setup), "fsdp_config": dict(first_fsdp())}
    return content


def _factory_arranged(setup: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout; activations move to the host's memory only between recomputed blocks."""
    held = held_apart(setup, layout)
    if Offload.ACTIVATIONS not in held.offload:
        return held
    return held.model_copy(update={"recompute": Recompute.FULL})


def _factory_data(setup: Setup) -> dict[str, object]:
    template = "empty"
    if chats(setup.weights):
        template = launch_models().llama_factory.of(setup.weights) or ""
    data: dict[str, object] = {
        "dataset": "dpo_en_demo" if setup.run.preference else "alpaca_en_demo",
        "dataset_dir": "LLaMA-Factory/data",
    }
    # Without one, LLaMA-Factory takes the template of the tokenizer.
    if template:
        data["template"] = template
    if setup.run.preference is None:
        data["packing"] = True
    return data


def _factory_check(setup: Setup) -> None:
    _deepspeed_check(setup, "LLaMA-Factory")
    recipe, layout = setup.estimate.precision, setup.estimate.layout
    if not setup.run.frozen and recipe == "bf16_amp" and uses_deepspeed(setup):
        raise cannot(
            "LLaMA-Factory keeps fp32 weights under autocast only without DeepSpeed",
            value=f"{recipe} with {layout.sharding.value}",
            allowed="bf16_mixed",
            remedy="Add --precision bf16_mixed.",
        )


_OPTIMIZERS: Final = tuple(OPTIMIZERS)
AXOLOTL: Final = Tool(
    title="Axolotl",
    package="axolotl",
    launch=_axolotl_launch,
    methods=METHODS,
    recipes={"bf16_mixed": "bf16_mixed", "bf16_pure": "bf16_pure"},
    optimizers=_OPTIMIZERS,
    sharding={item: item for item in STAGES},
    stack=_stack,
    offload=tuple(Offload),
    preferences=(None, *Preference),
    loggers=("mlflow",),
    arranged=held_apart,
    means=_means,
    check=_axolotl_check,
)
LLAMA_FACTORY: Final = Tool(
    title="LLaMA-Factory",
    package="llamafactory",
    launch=_factory_launch,
    methods=METHODS,
    recipes={name: name for name in ("bf16_mixed", "bf16_amp", "bf16_pure")},
    optimizers=_OPTIMIZERS,
    sharding=AXOLOTL.sharding,
    stack=_stack,
    offload=tuple(Offload),
    preferences=(None, *Preference),
    loggers=("mlflow",),
    arranged=_factory_arranged,
    means=_means,
    check=_factory_check,
)
