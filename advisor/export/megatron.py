"""Megatron-LM: training that splits layers, matrices, sequences or experts over accelerators.

The model's shape comes from the operator table. A model can be launched if its rows are those of a
plain transformer.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final

from advisor.architecture.table.operators import Operator
from advisor.export.formats import cannot
from advisor.export.script import Launch, Options, Variable
from advisor.export.setup import Setup
from advisor.export.trl import accumulation, batch_notes
from advisor.export.versions import image_of, version_of
from advisor.nouns.layout import Recompute, Sharding
from advisor.nouns.training_choices import Optimizer

PLAIN_ROWS: Final = {
    "embedding.tokens",
    "block.attention.query",
    "block.attention.key",
    "block.attention.value",
    "block.attention.query_norm",
    "block.attention.key_norm",
    "block.attention.rotation",
    "block.attention.scores",
    "block.attention.output",
    "block.feed_forward.gate",
    "block.feed_forward.up",
    "block.feed_forward.activation",
    "block.feed_forward.down",
    "block.feed_forward.router",
    "block.feed_forward.dispatch",
    "block.feed_forward.experts.gate",
    "block.feed_forward.experts.up",
    "block.feed_forward.experts.activation",
    "block.feed_forward.experts.down",
    "block.attention_input_norm",
    "block.feed_forward_input_norm",
    "block.residual",
    "block.unassigned",
    "head.norm",
    "head.logits",
    "head.loss",
}
"""Rows of the decoders that ``pretrain_gpt.py`` builds: rotary positions, gated feed-forward layers
or experts without shared ones, and one kind of attention."""
RECIPES: Final[Mapping[str, Options]] = {
    "bf16_mixed": (("--bf16",),),
    "fp16_mixed": (("--fp16",),),
    "fp32": (),
    "fp8": (("--bf16",), ("--fp8-format", "hybrid")),
    "mxfp8": (("--bf16",), ("--fp8-format", "e4m3"), ("--fp8-recipe", "mxfp8")),
}
"""Recipe -> options for its number formats."""
RECOMPUTE: Final[Mapping[Recompute, Options]] = {
    Recompute.NONE: (),
    Recompute.SELECTIVE: (("--recompute-activations",),),
    Recompute.FULL: (
        ("--recompute-granularity", "full"),
        ("--recompute-method", "uniform"),
        ("--recompute-num-layers", "1"),
    ),
}
FULLY_SHARDED: Final = {Sharding.ZERO2: "optim_grads", Sharding.ZERO3: "optim_grads_params"}
"""Sharding -> ``--data-parallel-sharding-strategy``."""
REPOSITORY: Final = "https://github.com/NVIDIA/Megatron-LM"
LEARNING_RATE: Final = "3e-4"
"""Llama 2 (arXiv:2307.09288, table 1), 7B and 13B; larger ones took half."""
OWN_DATA: Final = (
    "Runs on mock data. For your own data, replace --mock-data by --data-path and a tokenizer; "
    "to fine-tune, add --load with a converted checkpoint."
)


def megatron_launch(setup: Setup) -> Launch:
    """Return the training command of every rank. It uses mock data until the user names a dataset.

    Raises
    ------
    InputError
        If ``pretrain_gpt.py`` does not support the model or the training.
    """
    rows = {row.name: row for row in setup.model.operators}
    _check(setup, rows)
    run, layout = setup.run, setup.estimate.layout
    sharded = layout.sharding in FULLY_SHARDED
    batch = accumulation(setup) * layout.data * layout.micro_batch
    options = (
        *_shape(setup, rows),
        ("--seq-length", str(run.sequence_length)),
        (
            "--max-position-embeddings",
            str(max(run.sequence_length, setup.model.max_position_embeddings or 0)),
        ),
        ("--tensor-model-parallel-size", str(layout.tensor)),
        ("--pipeline-model-parallel-size", str(layout.pipeline)),
        ("--context-parallel-size", str(layout.context)),
        *_pipeline(setup),
        *_experts(setup, rows),
        ("--micro-batch-size", str(layout.micro_batch)),
        ("--global-batch-size", str(batch)),
        ("--train-iters", str(ceil(run.tokens / run.tokens_per_step))),
        ("--lr", LEARNING_RATE),
        ("--clip-grad", "1.0"),
        *RECIPES[run.recipe.name],
        *RECOMPUTE[layout.recompute],
    )
    if layout.tensor > 1 and layout.sequence_parallel:
        options += (("--sequence-parallel",),)
    if layout.sharding is not Sharding.DDP:
        options += (("--use-distributed-optimizer",),)
    if sharded:
        options += (
            ("--use-megatron-fsdp",),
            ("--data-parallel-sharding-strategy", FULLY_SHARDED[layout.sharding]),
            ("--ckpt-format", "fsdp_dtensor"),
        )
    # Before Blackwell, split matrices and sequences need one connection, which Megatron requires;
    # full sharding needs several.
    one = not sharded and layout.tensor * layout.context > 1
    release = version_of("megatron-lm")
    return Launch(
        program=("Megatron-LM/pretrain_gpt.py",),
        options=(
            *options,
            ("--mock-data",),
            ("--tokenizer-type", "NullTokenizer"),
            ("--vocab-size", str(setup.model.vocab_size)),
            ("--save", Variable("OUTPUT")),
            ("--save-interval", "1000"),
            ("--log-interval", "10"),
            ("--eval-iters", "0"),
        ),
        install=(("git", "clone", "--depth", "1", "--branch", release, REPOSITORY),),
        environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if one else {},
        image=image_of("megatron", setup.accelerator.vendor),
        variables={"OUTPUT": ("output", "folder for checkpoints")},
        notes=(
            *batch_notes(setup),
            OWN_DATA,
        ),
    )


def _check(setup: Setup, rows: Mapping[str, Operator]) -> None:
    run, layout = setup.run, setup.estimate.layout
    other = sorted(set(rows) - PLAIN_ROWS)
    windows = any(row.window is not None for row in rows.values())
    gated = "block.feed_forward.gate" in rows or "block.feed_forward.experts.gate" in rows
    plain = not other and gated and not windows and "block.attention.rotation" in rows
    report = "a report, and the model's own launch scripts"
    recipe = ", ".join(RECIPES)
    if run.frozen:
        raise cannot(
            "the plan splits a model with adapters, which no launcher supports",
            value=f"tensor {layout.tensor}, pipeline {layout.pipeline}",
            allowed="layouts that only shard states",
            remedy=f"Add --accelerator {setup.accelerator.key} --count {setup.estimate.count} "
            "--sharding zero3 --recompute full.",
        )
    problems = (
        (not plain, "the model is not a plain decoder", setup.model.name, report),
        (
            run.preference is not None,
            "it does not train on pairs of answers",
            run.preference,
            "fine-tuning",
        ),
        (run.recipe.name not in RECIPES, "no such recipe", run.recipe.name, recipe),
        (run.optimizer is not Optimizer.ADAMW, "no such optimizer", run.optimizer, "adamw"),
        (setup.accelerator.vendor != "NVIDIA", "NVIDIA only", setup.accelerator.name, "NVIDIA"),
        (bool(layout.offload), "offload is not written", "--offload", "no offload"),
    )
    for wrong, what, value, allowed in problems:
        if wrong:
            raise cannot(
                f"Megatron-LM would not start: {what}",
                value=value,
                allowed=allowed,
                remedy=f"Choose {allowed}.",
            )


def _shape(setup: Setup, rows: Mapping[str, Operator]) -> Options:
    model = setup.model
    query, norm = rows["block.attention.query"], rows["block.attention_input_norm"]
    inner = rows.get("block.feed_forward.down") or rows["block.feed_forward.experts.down"]
    heads, groups = model.num_attention_heads, model.num_key_value_heads
    options: Options = (
        ("--num-layers", str(model.num_hidden_layers)),
        ("--hidden-size", str(model.hidden_size)),
        ("--ffn-hidden-size", str(inner.in_features)),
        ("--num-attention-heads", str(heads)),
        ("--kv-channels", str(query.out_features // heads)),
        # A layer norm has a shift in addition to its scale.
        ("--normalization", "LayerNorm" if norm.parameters > model.hidden_size else "RMSNorm"),
        ("--position-embedding-type", "rope"),
        ("--swiglu",),
        ("--disable-bias-linear",),
        ("--attention-dropout", "0"),
        ("--hidden-dropout", "0"),
    )
    if groups < heads:
        options += (("--group-query-attention",), ("--num-query-groups", str(groups)))
    if query.parameters > query.in_features * query.out_features:
        options += (("--add-qkv-bias",),)
    if "block.attention.query_norm" in rows:
        options += (("--qk-layernorm",),)
    if not model.tied_embeddings:
        options += (("--untie-embeddings-and-output-weights",),)
    return options


def _pipeline(setup: Setup) -> Options:
    """Return the options for the stages; embedding and head count as layers if needed."""
    layout, layers = setup.estimate.layout, setup.model.num_hidden_layers
    if layout.pipeline == 1:
        return ()
    stages = layout.pipeline * layout.virtual_stages
    ends: Options = ()
    if layers % stages:
        layers += 2
        ends = (
            ("--account-for-embedding-in-pipeline-split",),
            ("--account-for-loss-in-pipeline-split",),
        )
    if layers % stages:
        raise cannot(
            "Megatron-LM would not start: the layers do not divide evenly into stages",
            value=stages,
            allowed=f"a divisor of {setup.model.num_hidden_layers} or of two more",
            remedy="Choose another --pipeline.",
        )
    if layout.virtual_stages > 1:
        ends += (("--num-layers-per-virtual-pipeline-stage", str(layers // stages)),)
    return ends


def _experts(setup: Setup, rows: Mapping[str, Operator]) -> Options:
    model = setup.model
    if model.num_experts == 1:
        return ()
    inner = rows["block.feed_forward.experts.down"].in_features
    return (
        ("--num-experts", str(model.num_experts)),
        ("--moe-router-topk", str(model.experts_per_token)),
        ("--moe-ffn-hidden-size", str(inner)),
        ("--expert-model-parallel-size", str(setup.estimate.layout.expert)),
        ("--moe-grouped-gemm",),
        ("--moe-token-dispatcher-type", "alltoall"),
    )
