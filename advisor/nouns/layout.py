"""How one job is arranged on its accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from advisor.foundation.noun import Noun
from advisor.nouns.inputs import SERVING, TRAINING, asked

Degree = Annotated[int, Field(ge=1, le=16384)]
CHUNKS = (1, 2, 3, 4, 5, 8, 12, 16, 20)
"""Of one stage (``virtual_stages``), as in Megatron Bridge's recipes and arXiv:2205.05198, and the
power of two between them."""


class Sharding(StrEnum):
    """What data-parallel ranks share out among themselves, least first."""

    DDP = "ddp"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"


class Recompute(StrEnum):
    """What is recomputed in the backward pass instead of kept, least first."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Offload(StrEnum):
    """What lives in the host's memory and comes over PCIe when it is needed."""

    OPTIMIZER = "optimizer"
    """Master weights and optimizer states; the host does the update."""
    PARAMETERS = "parameters"
    ACTIVATIONS = "activations"


class Schedule(StrEnum):
    """In which order a pipeline's stages take micro-batches, and what runs beside them."""

    PLAIN = "1f1b"
    """One forward, one backward, interleaved where there are virtual stages."""
    OVERLAPPED = "1f1b_overlapped"
    """The same; exchanges between experts run beside another micro-batch's computation
    (Megatron-Core's ``overlap_moe_expert_parallel_comm``, which wants virtual stages in a pipeline
    and refuses full recomputation: ``transformer_config.py``)."""
    DUALPIPE = "dualpipe"
    """From both ends at once: every rank holds two stages, and exchanges of a forward pass run
    beside the computation of a backward pass (DeepSeek-V3)."""


class ParallelLayout(Noun):
    """Degrees of parallelism and what is kept.

    The number of accelerators is ``data * tensor * pipeline * context``; experts are spread
    over ``expert`` of the data-parallel ranks. In a case, the search chooses the fields that the
    layout does not state.
    """

    data: Degree = asked(
        "data-parallel degree, or replicas of a server; what is left over", default=1
    )
    tensor: Degree = asked("tensor-parallel degree", default=1)
    pipeline: Degree = asked("pipeline stages", default=1)
    context: Degree = asked("context-parallel degree", tasks=TRAINING, default=1)
    expert: Degree = asked("expert-parallel degree", default=1)
    sharding: Sharding = asked(
        "what ranks share out", metavar="HOW", tasks=TRAINING, default=Sharding.DDP
    )
    micro_batch: Annotated[int, Field(ge=1, le=65536)] = asked(
        "sequences or images per rank and step", tasks=TRAINING, default=1
    )
    recompute: Recompute = asked(
        "in the backward pass", metavar="HOW", tasks=TRAINING, default=Recompute.NONE
    )
    sequence_parallel: bool = True
    """Split norms and residuals over the tensor-parallel group; no effect at ``tensor=1``."""
    virtual_stages: Degree = 1
    """Model chunks per pipeline stage (interleaved schedule)."""
    schedule: Schedule = asked(
        "of a pipeline; 1f1b_overlapped runs exchanges between experts beside computation "
        "(searched), dualpipe is DeepSeek-V3's",
        metavar="HOW",
        default=Schedule.PLAIN,
    )
    offload: tuple[Offload, ...] = asked(
        "what lives in the host's memory", metavar="WHAT", tasks=TRAINING, default=()
    )
    gpu_layers: Annotated[int, Field(ge=0, le=10_000)] | None = asked(
        "layers on the card, the output counted as one (-ngl of llama.cpp); all, or as many as fit",
        tasks=SERVING,
    )
    """The last layers; the host computes the others from its own memory. None means all."""
    cpu_expert_layers: Annotated[int, Field(ge=0, le=10_000)] = asked(
        "first layers whose routed experts the host holds and computes (--n-cpu-moe of llama.cpp)",
        tasks=SERVING,
        default=0,
    )

    @property
    def accelerators(self) -> int:
        """Number of accelerators the layout occupies."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def replicas(self) -> int:
        """Independent copies of a served model; ranks that share experts are one copy.

        >>> ParallelLayout(data=8, tensor=2).replicas, ParallelLayout(data=8, expert=8).replicas
        (8, 1)
        """
        return max(1, self.data // self.expert)

    @property
    def replica_cards(self) -> int:
        """Accelerators of one copy of a served model."""
        return self.accelerators // self.replicas

    @property
    def host_options(self) -> str:
        """Options of llama.cpp for layers and experts in the host's memory; empty without any.

        >>> ParallelLayout(cpu_expert_layers=20).host_options, ParallelLayout().host_options
        ('--n-cpu-moe 20', '')
        """
        layers = "" if self.gpu_layers is None else f"-ngl {self.gpu_layers}"
        experts = f"--n-cpu-moe {self.cpu_expert_layers}" if self.cpu_expert_layers else ""
        return f"{layers} {experts}".strip()

    @property
    def schedulable(self) -> bool:
        """Whether the schedule can run on these stages."""
        return not any(self._unschedulable())

    def states(self, *names: str) -> bool:
        """Whether all these fields were given, so that the search leaves them alone.

        >>> ParallelLayout(tensor=2).states("tensor"), ParallelLayout().states("tensor")
        (True, False)
        """
        return self.model_fields_set.issuperset(names)

    def contradictions(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the fields that contradict each other, with the reason."""
        if (ranks := self.data * self.context) % self.expert:
            yield (
                ("expert", "data"),
                (
                    f"expert={self.expert} must divide data x context = {ranks}; choose a divisor, "
                    f"or leave it out: tensor={self.tensor} divides experts too"
                ),
            )
        if self.virtual_stages > 1 and self.pipeline == 1:
            yield (
                ("virtual_stages", "pipeline"),
                "virtual_stages > 1 needs pipeline > 1; set virtual_stages to 1",
            )
        for fields in self._unschedulable():
            needs = {
                Schedule.OVERLAPPED: "expert > 1, virtual_stages > 1 where pipeline > 1, and "
                "recompute none or selective",
                Schedule.DUALPIPE: "an even pipeline and virtual_stages 1",
            }
            message = f"{self.schedule.value} needs {needs[self.schedule]}; change one of them"
            yield ("schedule", *fields), message
        if (
            Offload.PARAMETERS in self.offload
            and self.data > 1
            and self.sharding is not Sharding.ZERO3
        ):
            yield (
                ("offload", "sharding"),
                "offload of parameters over data-parallel ranks needs sharding zero3; state it",
            )

    def _unschedulable(self) -> Iterator[tuple[str, ...]]:
        """Yield the fields for which the schedule cannot run."""
        if self.schedule is Schedule.DUALPIPE:
            if self.pipeline % 2:
                yield ("pipeline",)
            if self.virtual_stages > 1:
                yield ("virtual_stages",)
        if self.schedule is Schedule.OVERLAPPED:
            if self.expert == 1:
                yield ("expert",)
            if self.recompute is Recompute.FULL:
                yield ("recompute",)
            if self.pipeline > 1 and self.virtual_stages == 1:
                yield ("pipeline", "virtual_stages")

    @model_validator(mode="after")
    def _consistent(self) -> ParallelLayout:
        """Refuse stated fields that contradict each other."""
        for fields, message in self.contradictions():
            if self.states(*fields):
                raise ValueError(message)
        return self


def most_chunks(*, layers: int, parts: int, pipeline: int) -> int:
    """Return the most chunks of a stage that leave the fullest at most one layer fuller.

    That layer is the one that may be left out where embedding or head sit. A pipeline is cut
    between ``parts``: the layers and these two.

    >>> most_chunks(layers=126, parts=128, pipeline=16)
    8
    """
    fullest = -(-layers // pipeline)
    spare = fullest * pipeline > layers
    return max(
        chunks
        for chunks in CHUNKS
        if chunks <= max(1, parts // pipeline)
        if chunks * -(-layers // (pipeline * chunks)) <= fullest + spare
    )
