"""PyTorch's own training programs: torchtune, one YAML file for each recipe, and torchtitan."""

from typing import Final, cast

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import OperatorKind
from advisor.export.setup import Setup
from advisor.export.training.model_names import TunedModel, launch_models
from advisor.export.training.tool import Tool, descriptions, fused
from advisor.export.training.words import rate
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Schedule, Sharding
from advisor.nouns.training_choices import CrossEntropy, GradientSync

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
        "rated_optimizer": lambda setup: {
            **cast(
                "dict[str, object]", descriptions()["torchtune"].optimizers[setup.run.optimizer]
            ),
            "lr": float(rate(setup)),
        },
        "starter": lambda setup: ("tune", "run") if _several(setup) else (),
        "target_words": lambda setup: ", ".join(setup.run.lora_targets),
        "token_count": lambda setup: f"{setup.run.tokens:,.0f}",
        "tuned": _model,
        "tuned_names": lambda _: _names(qlora=False),
    },
    arranged=_arranged,
    means=lambda _: fused(CrossEntropy.CHUNKED),
)


def _titan_arranged(_: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout with everything shared out, as FSDP does, and stages in one part."""
    ranks = layout.data * layout.context
    shared = Sharding.ZERO3 if ranks > 1 and layout.sharding is not Sharding.DDP else Sharding.DDP
    return layout.changed(sharding=shared, virtual_stages=1, schedule=Schedule.PLAIN)


def _local_batch(setup: Setup) -> int:
    """Return the batch of a rank; a pipeline takes it whole and cuts it into micro-batches."""
    layout = setup.layout
    if layout.pipeline == 1:
        return layout.micro_batch
    return setup.run.global_batch // layout.data


def knows(setup: Setup) -> bool:
    """Whether torchtitan has a configuration of the model."""
    return _name(setup) is not None


def _name(setup: Setup) -> str | None:
    return launch_models().torchtitan.of(setup.model.hub_id)


TORCHTITAN: Final = Tool(
    "torchtitan",
    facts={
        "local_batch": _local_batch,
        "otherwise": lambda setup: launch_models().elsewhere.get(
            f"{setup.accelerator.vendor}, pretraining",
            "Choose such a model, or --to torchrun with --software megatron.",
        ),
        "titan": _name,
        "titan_module": lambda setup: (_name(setup) or "").partition("_")[0],
        "titan_names": lambda _: ", ".join(launch_models().torchtitan.names),
    },
    arranged=_titan_arranged,
    means=lambda _: fused(CrossEntropy.LINEAR),
)


def recurs(model: ModelArchitecture) -> bool:
    """Whether a network repeats a product over the sequence, as LSTM and GRU do."""
    return any(row.kind is OperatorKind.RECURRENCE for row in model.operators)


def _as_usual(model: ModelArchitecture) -> bool:
    """Whether a network has the parts of the script, and so its number of parameters.

    A layer has two products and two biases for each gate (torch.nn.LSTM, torch.nn.GRU).
    """
    gates, width, words = GATES.get(model.family, 0), model.hidden_size, model.vocab_size
    layers = model.num_hidden_layers * gates * (2 * width**2 + 2 * width)
    return model.total_parameters == layers + words * (2 * width + 1)


GATES: Final = {"LSTM": 4, "GRU": 3}
RECURRENT: Final = Tool(
    "recurrent",
    facts={
        "recurs": lambda setup: setup.model.family,
        "usual_recurrent": lambda setup: _as_usual(setup.model),
    },
    means=lambda _: {"gradient_sync": GradientSync.EACH},
)
"""A script in plain PyTorch for recurrent language models."""
