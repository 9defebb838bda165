"""Unsloth: a Python script that fine-tunes on one card."""

from __future__ import annotations

from typing import Final

from advisor.export.formats import KINDS, Format, cannot
from advisor.export.quoting import python_constants
from advisor.export.script import Launch
from advisor.export.setup import Setup
from advisor.export.training.tool import Tool, fused
from advisor.export.training.trl import OPTIMIZERS
from advisor.export.training.words import (
    ALPHA_PER_RANK,
    chats,
    dataset,
    rate,
    steps,
    targets,
    template_note,
    warm_up,
)
from advisor.export.training.written import accumulation
from advisor.export.versions import image_of, pip_install
from advisor.nouns.layout import Offload, Recompute, Sharding
from advisor.nouns.training_choices import FineTuningMethod, Preference

LOAD: Final = """
from unsloth import FastLanguageModel  # first: it replaces parts of the others
from datasets import load_dataset

model, tokenizer = FastLanguageModel.from_pretrained(
    model_name=MODEL,
    max_seq_length=SEQUENCE,
    load_in_4bit=FOUR_BITS,
    load_in_16bit=SIXTEEN_BITS,
    full_finetuning=FULL,
    use_gradient_checkpointing=RECOMPUTE,
)
data = load_dataset(DATASET, split="train")
"""
ADAPT: Final = """
model = FastLanguageModel.get_peft_model(
    model,
    r=RANK,
    lora_alpha=ALPHA,
    lora_dropout=0,
    bias="none",
    target_modules=TARGETS,
    use_gradient_checkpointing=RECOMPUTE,
    random_state=3407,
)
"""
TALK: Final = """
data = data.map(
    lambda row: {"text": tokenizer.apply_chat_template(row["messages"], tokenize=False)},
    remove_columns=data.column_names,
)
"""
JOIN: Final = """
data = data.map(
    lambda row: {"text": row["prompt"] + row["completion"] + tokenizer.eos_token},
    remove_columns=data.column_names,
)
"""
COMMON: Final = """    output_dir=OUTPUT,
    max_length=SEQUENCE,
    per_device_train_batch_size=MICRO_BATCH,
    gradient_accumulation_steps=ACCUMULATION,
    max_steps=STEPS,
    learning_rate=RATE,
    lr_scheduler_type="cosine",
    warmup_steps=WARM_UP,
    optim=OPTIMIZER,
    bf16=True,
    logging_steps=10,
    report_to=REPORT_TO,
    seed=3407,
"""
TRAIN: Final = f"""
from trl import SFTConfig, SFTTrainer

arguments = SFTConfig(
    dataset_text_field="text",
    packing=True,
{COMMON})
trainer = SFTTrainer(
    model=model, processing_class=tokenizer, train_dataset=data, args=arguments
)
trainer.train()
model.save_pretrained(OUTPUT)
tokenizer.save_pretrained(OUTPUT)
"""
PREFER: Final = f"""
from trl import DPOConfig, DPOTrainer

arguments = DPOConfig(
    beta=0.1,
{COMMON})
trainer = DPOTrainer(
    model=model, ref_model=None, processing_class=tokenizer, train_dataset=data, args=arguments
)
trainer.train()
model.save_pretrained(OUTPUT)
tokenizer.save_pretrained(OUTPUT)
"""
TUNES: Final = ("Llama", "Mistral", "Qwen", "Gemma", "Phi", "Granite", "gpt-oss", "GPT-OSS", "OLMo")
"""Families that Unsloth's README names."""


def _check(setup: Setup) -> None:
    if setup.estimate.count > 1:
        raise cannot(
            "Unsloth's file trains on one card",
            value=setup.estimate.count,
            allowed="1",
            remedy="Add --count 1 or --max-accelerators 1, or choose --to axolotl or torchrun.",
        )
    if not any(name in setup.model.family for name in TUNES):
        raise cannot(
            "Unsloth has no kernels for this family",
            value=setup.model.family,
            allowed=", ".join(TUNES),
            remedy="Choose --to torchrun or axolotl.",
        )
    if setup.run.preference is not None and setup.run.method is FineTuningMethod.FULL:
        raise cannot(
            "Unsloth's DPO takes the base below adapters as its reference",
            value="full",
            allowed="lora, qlora",
            remedy="Choose --task lora, or --to torchrun.",
        )


def _launch(setup: Setup) -> Launch:
    run, layout = setup.run, setup.estimate.layout
    name = KINDS[Format.UNSLOTH].file_name
    recompute: object = layout.recompute is not Recompute.NONE
    if Offload.ACTIVATIONS in layout.offload:
        recompute = "unsloth"
    constants: dict[str, object] = {
        "MODEL": setup.weights,
        "DATASET": dataset(setup),
        "OUTPUT": "output",
        "SEQUENCE": run.sequence_length,
        "FOUR_BITS": run.method is FineTuningMethod.QLORA,
        "SIXTEEN_BITS": run.method is FineTuningMethod.LORA,
        "FULL": run.method is FineTuningMethod.FULL,
        "RECOMPUTE": recompute,
        "MICRO_BATCH": layout.micro_batch,
        "ACCUMULATION": accumulation(run, layout),
        "STEPS": steps(setup),
        "RATE": float(rate(setup)),
        "WARM_UP": warm_up(setup),
        "OPTIMIZER": OPTIMIZERS[run.optimizer],
        "REPORT_TO": setup.log_to or "none",
    }
    body = LOAD
    if run.frozen:
        constants |= {
            "RANK": run.lora_rank,
            "ALPHA": ALPHA_PER_RANK * run.lora_rank,
            "TARGETS": list(targets(setup)),
        }
        body += ADAPT
    if run.preference is None:
        body += (TALK if chats(setup.weights) else JOIN) + TRAIN
    else:
        body += PREFER
    script = "\n".join(python_constants(constants)) + "\n" + body
    needs = ("unsloth", *((setup.log_to,) if setup.log_to else ()))
    return Launch(
        program=("python", name),
        options=(),
        install=(pip_install(*needs),),
        image=image_of("trl", setup.accelerator.vendor),
        variables=setup.log_variables,
        files={name: script},
        notes=(template_note(setup),),
        starter=(),
        config=name,
    )


UNSLOTH: Final = Tool(
    title="Unsloth",
    package="unsloth",
    launch=_launch,
    methods=tuple(FineTuningMethod),
    recipes={"bf16_mixed": "bf16_pure", "bf16_pure": "bf16_pure"},
    optimizers=tuple(OPTIMIZERS),
    sharding=dict.fromkeys(Sharding, Sharding.DDP),
    stack=lambda _: "liger",
    offload=(Offload.ACTIVATIONS,),
    preferences=(None, Preference.DPO),
    loggers=("mlflow",),
    means=lambda _: fused(None),
    check=_check,
)
