"""Training software of Gaudi, Trainium (Optimum), TPUs (MaxText) and Apple's chips (MLX-LM)."""

from math import ceil
from typing import Final

from advisor.export.setup import Setup
from advisor.export.training import words
from advisor.export.training.model_names import launch_models
from advisor.export.training.sharded import held_apart, micro_steps, uses_deepspeed
from advisor.export.training.tool import Tool, fused
from advisor.export.versions import version_of
from advisor.nouns.layout import Sharding
from advisor.nouns.training_choices import AttentionKernel, CrossEntropy


def _shared(setup: Setup) -> bool:
    return uses_deepspeed(setup) or setup.layout.sharding is not Sharding.DDP


def _spawn(setup: Setup) -> tuple[str, ...]:
    """Return what starts a process on each card of a machine."""
    if setup.estimate.count == 1:
        return ()
    how = "--use_deepspeed" if _shared(setup) else "--use_mpi"
    spawn = "optimum-habana/examples/gaudi_spawn.py"
    return (spawn, "--world_size", str(setup.estimate.count), how)


GAUDI: Final = Tool(
    "optimum-habana",
    facts={
        "gaudi_deepspeed": lambda setup: version_of("gaudi-deepspeed"),
        "shared": _shared,
        "spawn": _spawn,
    },
    chosen_stack=lambda setup: "deepspeed" if uses_deepspeed(setup) else "huggingface",
    arranged=held_apart,
    means=lambda _: fused(CrossEntropy.PLAIN),
)


def _cores(setup: Setup) -> int:
    """Return over how many cores a model is split: those of a chip share its memory."""
    return setup.layout.tensor * NEURON.says.ranks[setup.accelerator.architecture]


def _uneven_heads(setup: Setup) -> bool:
    cores, heads = _cores(setup), setup.model.num_key_value_heads
    return bool(setup.model.num_attention_heads % cores or (heads % cores and cores % heads))


def _tiled(setup: Setup) -> AttentionKernel:
    """Return the kernel that divides a sequence: NKI's ``flash_fwd`` has tiles of 2,048 keys."""
    odd = setup.run.sequence_length % 2048
    return AttentionKernel.EAGER if odd else AttentionKernel.FLASH


NEURON: Final = Tool(
    "optimum-neuron",
    arranged=lambda _, layout: (
        layout if layout.data > 1 else layout.changed(sharding=Sharding.DDP)  # nothing to share out
    ),
    facts={"kernel": _tiled, "tensor_ranks": _cores, "uneven_heads": _uneven_heads},
    means=lambda setup: {**fused(CrossEntropy.PLAIN), "attention": _tiled(setup)},
)


def _adapted(setup: Setup) -> str:
    """Return the pattern of the modules with adapters, as MaxText names them."""
    names = launch_models().projections.maxtext
    return f"decoder/.*/({'|'.join(names[target] for target in setup.run.lora_targets)})"


def _slices(setup: Setup) -> int:
    """Return the slices over which the chips lie; a slice is no larger than the fast links."""
    links = setup.accelerator.interconnect
    return ceil(setup.estimate.count / links.domain_size) if links else 1


def _one_slice(setup: Setup, *, shards: bool) -> int:
    """Return the ranks in one slice of those that share out states, or that replicate them.

    Without the ranks of expert parallelism: MaxText counts them apart, though they share the batch.
    """
    whole = setup.layout.sharding is Sharding.ZERO3
    ranks = setup.layout.data // setup.layout.expert if whole is shards else 1
    return ranks // _slices(setup) if whole is shards else ranks


MAXTEXT: Final = Tool(
    "maxtext",
    # Ranks of expert parallelism share out the other weights, too.
    arranged=lambda _, layout: (
        layout.changed(sharding=Sharding.ZERO3) if layout.expert == layout.data > 1 else layout
    ),
    facts={
        "adapted_paths": _adapted,
        "chips": lambda setup: setup.estimate.count // _slices(setup),
        "inner_replicas": lambda setup: _one_slice(setup, shards=False),
        "inner_shards": lambda setup: _one_slice(setup, shards=True),
        "maxtext": lambda setup: launch_models().maxtext.of(setup.model.hub_id) or "default",
        "maxtext_count": lambda _: len(launch_models().maxtext.names),
        "no_template": lambda setup: (
            setup.run.method is not None and not words.chats(setup.model.hub_id or "")
        ),
        "per_device": lambda setup: (
            f"{setup.layout.micro_batch * setup.layout.data / setup.estimate.count:g}"
        ),
        "slices": _slices,
        "uneven": lambda setup: setup.layout.data % (setup.layout.expert * _slices(setup)) != 0,
    },
)


MLX: Final = Tool(
    "mlx-lm",
    facts={
        # The schedule counts updates: those of the rise, then those of the decay to zero.
        "decay": lambda setup: [
            float(words.rate(setup)),
            words.steps(setup) - words.warm_up(setup),
        ],
        "keys": lambda setup: [
            f"{'mlp' if name in words.INNER else 'self_attn'}.{name}"
            for name in words.targets(setup)
        ],
        "micro_batches": lambda setup: words.steps(setup) * micro_steps(setup),
        "saved": lambda setup: words.save_steps(setup) * micro_steps(setup),
        "scale": lambda _: float(words.ALPHA_PER_RANK),
    },
    means=lambda _: fused(CrossEntropy.PLAIN),
)
