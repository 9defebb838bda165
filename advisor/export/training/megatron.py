"""Megatron-LM: training that splits layers, matrices, sequences or experts over accelerators.

The model's shape comes from the operator table. A model can be launched if its rows are those of a
plain decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from advisor.architecture.table.operators import Operator
from advisor.export.formats import cannot
from advisor.export.script import Launch, Options, Variable
from advisor.export.setup import Setup
from advisor.export.training.model_names import ORIGINAL, rotary_of
from advisor.export.training.tool import SAME, Tool, fused
from advisor.export.training.words import rate, steps, warm_up
from advisor.export.versions import git_clone, image_of
from advisor.nouns.layout import ParallelLayout, Recompute, Schedule, Sharding
from advisor.nouns.software.stacks import DEGREES
from advisor.nouns.training_choices import AttentionKernel, FineTuningMethod, Optimizer

PLAIN_ROWS: Final = {
    "embedding.tokens",
    "embedding.positions",
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
"""Rows of the decoders that ``pretrain_gpt.py`` builds: rotary or learned positions, feed-forward
layers or experts without shared ones, and one kind of attention."""
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
LEAST_RATE: Final = 0.1
"""Last over highest rate of a cosine schedule (Llama 2, section 2.2)."""
DECAY: Final = "0.1"
"""Weight decay, with betas 0.9 and 0.95 (Llama 2, section 2.2)."""
MOCK_DATA: Final = (
    "Runs on mock data. For your own data, replace --mock-data by --data-path, and NullTokenizer "
    "by --tokenizer-type HuggingFaceTokenizer --tokenizer-model with the model's id."
)


def _tunes(setup: Setup) -> bool:
    return setup.run.method is FineTuningMethod.FULL


def megatron_launch(setup: Setup) -> Launch:
    """Return the training command of every rank.

    Pretraining uses mock data until the user names a dataset. Fine-tuning loads a checkpoint.
    """
    run, layout = setup.run, setup.estimate.layout
    rows = {row.name: row for row in setup.model.operators}
    sharded = layout.sharding in FULLY_SHARDED
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
        ("--global-batch-size", str(run.global_batch)),
        *_schedule(setup),
        *RECIPES[run.recipe.name],
        *RECOMPUTE[layout.recompute],
        *_sharing(layout),
        *_overlaps(setup),
        *_data(setup),
        ("--save", Variable("OUTPUT")),
        ("--save-interval", "1000"),
        ("--log-interval", "10"),
        ("--eval-iters", "0"),
    )
    # Before Blackwell, split matrices and sequences need one connection, which Megatron requires;
    # full sharding needs several.
    one = not sharded and layout.tensor * layout.context > 1
    variables = {"OUTPUT": ("output", "folder for checkpoints")}
    tuned = {"DATA": ("data/text_document", "your data, made by tools/preprocess_data.py")}
    return Launch(
        program=("Megatron-LM/pretrain_gpt.py",),
        options=options,
        install=(git_clone(REPOSITORY, "megatron-lm", tag=""),),
        environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if one else {},
        image=image_of("megatron", setup.accelerator.vendor),
        variables={**variables, **(tuned if _tunes(setup) else {})},
        notes=() if _tunes(setup) else (MOCK_DATA, *_unknown_positions(setup)),
    )


def _schedule(setup: Setup) -> Options:
    """Return the options for the length of the run, the learning rate and the optimizer."""
    highest = rate(setup)
    return (
        ("--train-iters", str(steps(setup))),
        ("--lr", highest),
        ("--min-lr", f"{LEAST_RATE * float(highest):g}"),
        ("--lr-decay-style", "cosine"),
        ("--lr-warmup-iters", str(warm_up(setup))),
        ("--weight-decay", DECAY),
        ("--adam-beta1", "0.9"),
        ("--adam-beta2", "0.95"),
        ("--clip-grad", "1.0"),
    )


def _sharing(layout: ParallelLayout) -> Options:
    """Return the options that share out states and the work between them."""
    options: Options = ()
    if layout.tensor > 1 and layout.sequence_parallel:
        options += (("--sequence-parallel",),)
    if layout.sharding is not Sharding.DDP:
        options += (("--use-distributed-optimizer",),)
    if layout.sharding in FULLY_SHARDED:
        options += (
            ("--use-megatron-fsdp",),
            ("--data-parallel-sharding-strategy", FULLY_SHARDED[layout.sharding]),
            ("--ckpt-format", "fsdp_dtensor"),
        )
    return options


def _overlaps(setup: Setup) -> Options:
    """Return the options for the traffic that the estimate takes to be hidden."""
    layout = setup.estimate.layout
    options: Options = ()
    if layout.data * layout.context > 1:
        options += (("--overlap-grad-reduce",),)
        if layout.sharding is not Sharding.DDP:
            options += (("--overlap-param-gather",),)
        if setup.run.switches.reduce_format == "bf16":
            options += (("--grad-reduce-in-bf16",),)
    if layout.tensor > 1 and layout.sequence_parallel and setup.run.stack.overlaps_traffic:
        options += (("--tp-comm-overlap",),)
    if layout.schedule is Schedule.OVERLAPPED:
        options += (("--overlap-moe-expert-parallel-comm",), ("--delay-wgrad-compute",))
    return options


def _data(setup: Setup) -> Options:
    """Return the options for data, tokenizer and the weights to start from."""
    if not _tunes(setup):
        return (
            ("--mock-data",),
            ("--tokenizer-type", "NullTokenizer"),
            ("--vocab-size", str(setup.model.vocab_size)),
        )
    return (
        ("--load", setup.checkpoint or ""),
        ("--finetune",),
        ("--use-checkpoint-args",),
        ("--data-path", Variable("DATA")),
        ("--tokenizer-type", "HuggingFaceTokenizer"),
        ("--tokenizer-model", setup.model.hub_id or setup.checkpoint or ""),
    )


def _check(setup: Setup) -> None:
    rows = {row.name: row for row in setup.model.operators}
    run = setup.run
    other = sorted(set(rows) - PLAIN_ROWS)
    windows = any(row.window is not None for row in rows.values())
    placed = "block.attention.rotation" in rows or setup.model.learned_positions
    if other or windows or not placed:
        raise cannot(
            "Megatron-LM's pretrain_gpt.py does not build this decoder",
            value=f"{setup.model.name}: {', '.join(other) or 'windows or positions of its own'}",
            allowed="rotary or learned positions, full attention, experts without shared ones",
            remedy="Add --software deepspeed and --to deepspeed for the model's own code, or "
            "train it with its recipe of Megatron Bridge (docs.nvidia.com/nemo/megatron-bridge).",
        )
    if _tunes(setup) and setup.checkpoint is None:
        raise cannot(
            "Megatron-LM starts a fine-tuning from converted weights, and none are named",
            value=setup.model.hub_id or setup.model.name,
            allowed="--checkpoint FOLDER with weights that Megatron Bridge converted "
            "(AutoBridge.import_ckpt)",
            remedy="Add --checkpoint FOLDER, or --software huggingface, which loads hub weights.",
        )
    if run.attention is AttentionKernel.EAGER:
        raise cannot(
            "Megatron-LM with Transformer Engine has no eager attention",
            value=run.attention.value,
            allowed=AttentionKernel.FLASH.value,
            remedy="Leave --attention out.",
        )
    _pipeline(setup)


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
        *_positions(setup),
        ("--attention-dropout", "0"),
        ("--hidden-dropout", "0"),
    )
    if "block.feed_forward.gate" in rows or "block.feed_forward.experts.gate" in rows:
        options += (("--swiglu",),)
    if not _biased(rows["block.attention.output"]):
        options += (("--disable-bias-linear",),)
        if _biased(query):
            options += (("--add-qkv-bias",),)
    if groups < heads:
        options += (("--group-query-attention",), ("--num-query-groups", str(groups)))
    if "block.attention.query_norm" in rows:
        options += (("--qk-layernorm",),)
    if not model.tied_embeddings:
        options += (("--untie-embeddings-and-output-weights",),)
    return options


def _biased(row: Operator) -> bool:
    return row.parameters > row.in_features * row.out_features


def _positions(setup: Setup) -> Options:
    if setup.model.learned_positions:
        return (("--position-embedding-type", "learned_absolute"),)
    rotary = rotary_of(setup.model.hub_id)
    options: Options = (("--position-embedding-type", "rope"), ("--rotary-base", str(rotary.base)))
    if rotary.factor is not None:
        options += (("--use-rope-scaling",), ("--rope-scaling-factor", f"{rotary.factor:g}"))
    return options


def _unknown_positions(setup: Setup) -> tuple[str, ...]:
    hub = setup.model.hub_id
    if hub is None or setup.model.learned_positions or rotary_of(hub) is not ORIGINAL:
        return ()
    return (f"The rotary base of {hub} is not known here: {ORIGINAL.base:,}, as first published.",)


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
    model, layout = setup.model, setup.estimate.layout
    if model.num_experts == 1:
        return ()
    inner = rows["block.feed_forward.experts.down"].in_features
    return (
        ("--num-experts", str(model.num_experts)),
        ("--moe-router-topk", str(model.experts_per_token)),
        ("--moe-ffn-hidden-size", str(inner)),
        ("--expert-model-parallel-size", str(layout.expert)),
        ("--expert-tensor-parallel-size", str(layout.tensor)),
        ("--moe-grouped-gemm",),
        ("--moe-permute-fusion",),
        ("--moe-token-dispatcher-type", "alltoall"),
        ("--moe-router-load-balancing-type", "aux_loss"),
        ("--moe-aux-loss-coeff", "1e-3"),
    )


def _means(setup: Setup) -> Mapping[str, object]:
    """Return what Megatron decides: gradients are summed in fp32 unless told otherwise."""
    narrow = setup.run.switches.reduce_format == "bf16"
    return {**fused(None), "reduce_format": "bf16" if narrow else None}


MEGATRON: Final = Tool(
    title="Megatron-LM",
    package="megatron-lm",
    launch=megatron_launch,
    methods=(None, FineTuningMethod.FULL),
    recipes={name: name for name in RECIPES},
    optimizers=(Optimizer.ADAMW,),
    sharding={item: item for item in Sharding},
    stack=lambda _: "megatron",
    vendors=("NVIDIA",),
    recompute=SAME,
    divides=DEGREES,
    means=_means,
    check=_check,
)
