"""torchtune: recipes of plain PyTorch with FSDP, each with one YAML file."""

from typing import Any, Final

from advisor.export.setup import Setup
from advisor.export.training.model_names import TunedModel, launch_models
from advisor.export.training.tool import Tool, descriptions, fused
from advisor.export.training.words import rate
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Sharding
from advisor.nouns.training_choices import CrossEntropy

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


def _file_count(setup: Setup) -> str:
    """Return the files of the weights, as the name of the last one states them."""
    model = _model(setup)
    return f"{model.files if model else 0:05d}"


def _optimizer(setup: Setup) -> dict[str, object]:
    named: Any = descriptions()["torchtune"].optimizers[setup.run.optimizer]
    return {**named, "lr": float(rate(setup))}


def _names(*, qlora: bool) -> str:
    rows = launch_models().torchtune
    return ", ".join(row.pattern for row in rows if row.qlora or not qlora)


TORCHTUNE: Final = Tool(
    "torchtune",
    facts={
        "alone": lambda setup: () if _several(setup) else ("tune", "run"),
        "file_count": _file_count,
        "inner_divided": _inner_divided,
        "adapts_inner": lambda setup: set(setup.run.lora_targets) >= INNER,
        "attention_targets": lambda setup: [
            OUTER[name] for name in setup.run.lora_targets if name in OUTER
        ],
        "qlora_names": lambda _: _names(qlora=True),
        "rated_optimizer": _optimizer,
        "starter": lambda setup: ("tune", "run") if _several(setup) else (),
        "target_words": lambda setup: ", ".join(setup.run.lora_targets),
        "token_count": lambda setup: f"{setup.run.tokens:,.0f}",
        "tuned": _model,
        "tuned_names": lambda _: _names(qlora=False),
    },
    arranged=_arranged,
    means=lambda _: fused(CrossEntropy.CHUNKED),
)
