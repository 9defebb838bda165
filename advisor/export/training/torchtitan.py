"""torchtitan: pretraining with torch.compile and FSDP on several kinds of parallelism."""

from typing import Final

from advisor.export.setup import Setup
from advisor.export.training.model_names import launch_models
from advisor.export.training.tool import Tool, fused
from advisor.nouns.layout import ParallelLayout, Schedule, Sharding
from advisor.nouns.training_choices import CrossEntropy


def _arranged(_: Setup, layout: ParallelLayout) -> ParallelLayout:
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
    arranged=_arranged,
    means=lambda _: fused(CrossEntropy.LINEAR),
)
