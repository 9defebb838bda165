"""torchtitan: pretraining with torch.compile and FSDP on several kinds of parallelism."""

from __future__ import annotations

from typing import Final

from advisor.export.formats import cannot
from advisor.export.script import Launch, Options, Variable
from advisor.export.setup import Setup
from advisor.export.training.model_names import launch_models
from advisor.export.training.tool import SAME, Tool, fused
from advisor.export.training.words import steps, warm_up
from advisor.export.versions import image_of, pip_install
from advisor.nouns.layout import ParallelLayout, Recompute, Schedule, Sharding
from advisor.nouns.training_choices import CrossEntropy, Optimizer

OTHERWISE: Final = {
    "AMD": "Choose such a model; AMD's Primus (github.com/AMD-AGI/Primus, in the image "
    "rocm/megatron-lm) trains others, which no export writes."
}
TOKENIZER: Final = ("--include", "tokenizer*", "--local-dir", "tokenizer")
CHECKPOINTING: Final = {
    Recompute.NONE: "activation-checkpoint:none",
    Recompute.SELECTIVE: "activation-checkpoint:selective",
    Recompute.FULL: "activation-checkpoint:full",
}


def _check(setup: Setup) -> None:
    if launch_models().torchtitan.of(setup.model.hub_id) is None:
        raise cannot(
            "torchtitan has no configuration of this model",
            value=setup.model.hub_id or setup.model.name,
            allowed=", ".join(launch_models().torchtitan.names),
            remedy=OTHERWISE.get(
                setup.accelerator.vendor,
                "Choose such a model, or --to torchrun with --software megatron.",
            ),
        )


def _arranged(_: Setup, layout: ParallelLayout) -> ParallelLayout:
    """Return the layout with everything shared out, as FSDP does, and stages in one part."""
    ranks = layout.data * layout.context
    shared = Sharding.ZERO3 if ranks > 1 and layout.sharding is not Sharding.DDP else Sharding.DDP
    return layout.model_copy(
        update={"sharding": shared, "virtual_stages": 1, "schedule": Schedule.PLAIN}
    )


def _launch(setup: Setup) -> Launch:
    run, layout = setup.run, setup.estimate.layout
    name = launch_models().torchtitan.of(setup.model.hub_id)
    assert name is not None
    whole = layout.sharding is Sharding.ZERO3
    # A pipeline takes the whole batch of a rank at once and cuts it into micro-batches.
    local = layout.micro_batch if layout.pipeline == 1 else run.global_batch // layout.data
    settings: dict[str, object] = {
        "training.local_batch_size": local,
        "training.global_batch_size": run.global_batch,
        "training.seq_len": run.sequence_length,
        "training.steps": steps(setup),
        "lr_scheduler.warmup_steps": warm_up(setup),
        "parallelism.data_parallel_replicate_degree": 1 if whole else layout.data,
        "parallelism.data_parallel_shard_degree": layout.data if whole else 1,
        "parallelism.tensor_parallel_degree": layout.tensor,
        "parallelism.pipeline_parallel_degree": layout.pipeline,
        "parallelism.pipeline_parallel_schedule": "1F1B",
        "parallelism.pipeline_parallel_microbatch_size": layout.micro_batch,
        "parallelism.context_parallel_degree": layout.context,
        "parallelism.expert_parallel_degree": layout.expert,
    }
    options: Options = (
        ("--module", name.partition("_")[0]),
        ("--config", name),
        ("--dump_folder", Variable("OUTPUT")),
        ("--hf_assets_path", Variable("TOKENIZER")),
        *((f"--{name}", str(value)) for name, value in settings.items()),
        ("--compile.enable",),
        (CHECKPOINTING[layout.recompute],),
    )
    return Launch(
        program=("-m", "torchtitan.train"),
        options=options,
        install=(
            pip_install("torchtitan"),
            ("hf", "download", setup.model.hub_id or "", *TOKENIZER),
        ),
        image=image_of("torchtitan", setup.accelerator.vendor),
        variables={
            "OUTPUT": ("output", "folder for checkpoints"),
            "TOKENIZER": ("tokenizer", "folder with the model's tokenizer"),
        },
        notes=("Trains on C4, streamed from the hub (--dataloader.dataset).",),
    )


TORCHTITAN: Final = Tool(
    title="torchtitan",
    package="torchtitan",
    launch=_launch,
    methods=(None,),
    recipes={"bf16_mixed": "bf16_mixed", "bf16_amp": "bf16_mixed"},
    optimizers=(Optimizer.ADAMW,),
    sharding={item: item for item in Sharding},
    stack=lambda _: "compiled",
    recompute=SAME,
    divides=("tensor", "pipeline", "context", "expert"),
    arranged=_arranged,
    means=lambda _: fused(CrossEntropy.LINEAR),
    check=_check,
)
