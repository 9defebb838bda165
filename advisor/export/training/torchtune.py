"""torchtune: recipes of plain PyTorch with FSDP, each with one YAML file."""

from typing import Any, Final

from advisor.export.setup import Setup
from advisor.export.training.model_names import TunedModel, launch_models
from advisor.export.training.tool import Tool, descriptions, fused
from advisor.export.training.words import rate
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.training_choices import CrossEntropy

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
OUTER: Final = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "output_proj"}


def _model(setup: Setup) -> TunedModel | None:
    return next((row for row in launch_models().torchtune if row.pattern in setup.weights), None)


def _inner_divided(setup: Setup) -> bool:
    inner = INNER & set(setup.run.lora_targets)
    return setup.run.frozen and bool(inner) and inner != INNER


def _several(setup: Setup) -> bool:
    return setup.estimate.count > 1


def _arranged(setup: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout of the recipe: on several cards it shares out everything."""
    held = Offload.PARAMETERS in layout.offload or Offload.OPTIMIZER in layout.offload
    kept = set(layout.offload) & {Offload.ACTIVATIONS}
    if _several(setup) and held:
        kept |= {Offload.OPTIMIZER, Offload.PARAMETERS}
    recompute = Recompute.FULL if Offload.ACTIVATIONS in kept else layout.recompute
    return layout.changed(
        sharding=Sharding.ZERO3 if _several(setup) else Sharding.DDP,
        offload=tuple(item for item in Offload if item in kept),
        recompute=recompute,
    )


def _recipe(setup: Setup) -> str:
    kind = "lora_finetune" if setup.run.frozen else "full_finetune"
    return f"{kind}_{'distributed' if _several(setup) else 'single_device'}"


def _tokenizer(setup: Setup) -> dict[str, object]:
    model = _model(setup)
    assert model is not None
    return {**TOKENIZERS[model.tokenizer], "max_seq_len": setup.run.sequence_length}


def _checkpoint_files(setup: Setup) -> object:
    model, width = _model(setup), 5
    assert model is not None
    if model.files == 1:
        return ["model.safetensors"]
    names = {"filename_format": "model-{}-of-{}.safetensors"}
    return {**names, "max_filename": f"{model.files:0{width}d}"}


def _optimizer(setup: Setup) -> dict[str, object]:
    named: Any = descriptions()["torchtune"].optimizers[setup.run.optimizer]
    return {**named, "lr": float(rate(setup))}


def _builder(setup: Setup) -> str:
    """Return the function that builds the network."""
    run, model = setup.run, _model(setup)
    assert model is not None
    prefix = "" if not run.frozen or run.method is None else f"{run.method.value}_"
    return f"torchtune.models.{model.module}.{prefix}{model.name}"


def _names(*, qlora: bool) -> str:
    rows = launch_models().torchtune
    return ", ".join(row.pattern for row in rows if row.qlora or not qlora)


TORCHTUNE: Final = Tool(
    "torchtune",
    facts={
        "alone": lambda setup: () if _several(setup) else ("tune", "run"),
        "checkpoint_files": _checkpoint_files,
        # Its recipes clip no gradients that are gone (full_finetune_single_device.py).
        "clips": lambda setup: None if setup.run.switches.update_in_backward else 1.0,
        "in_backward": lambda setup: setup.run.switches.update_in_backward,
        "inner_divided": _inner_divided,
        "adapts_inner": lambda setup: set(setup.run.lora_targets) >= INNER,
        "attention_targets": lambda setup: [
            OUTER[name] for name in setup.run.lora_targets if name in OUTER
        ],
        "builder": _builder,
        "qlora_names": lambda _: _names(qlora=True),
        "rated_optimizer": _optimizer,
        "recipe": _recipe,
        "starter": lambda setup: ("tune", "run") if _several(setup) else (),
        "target_words": lambda setup: ", ".join(setup.run.lora_targets),
        "token_count": lambda setup: f"{setup.run.tokens:,.0f}",
        "tokenizer": _tokenizer,
        "tuned": _model,
        "tuned_names": lambda _: _names(qlora=False),
        "weight_type": lambda setup: "fp32" if setup.run.recipe.name == "fp32" else "bf16",
    },
    arranged=_arranged,
    means=lambda _: fused(CrossEntropy.CHUNKED),
)
