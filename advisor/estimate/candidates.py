"""Configurations as a struct of arrays: one row, or a million.

Every field broadcasts to the same shape, so the estimate of one configuration and the search
over all of them run the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from advisor.estimate.hardware.rates import CURVE, card_rates, node_rates
from advisor.foundation.record import by_identity, record
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import Offload, ParallelLayout, Recompute, Schedule, Sharding
from advisor.nouns.software.kernels import KernelEfficiency

Floats = NDArray[np.float64]

KEPT_BYTES: Final = 31 * 2**20
# glibc gives freed memory back to the system beyond a threshold, which follows the largest block
# of up to 32 MiB that was ever freed (mallopt(3)). Without this, every pass over the arrays below
# would allocate its pages again, which takes a third of its time.
np.empty(KEPT_BYTES, dtype=np.uint8)

LEVELS, SCHEDULES, POLICIES = tuple(Sharding), tuple(Schedule), tuple(Recompute)
SHARDING_LEVEL = {level: index for index, level in enumerate(Sharding)}
OFFLOAD_BITS = {what: float(2**place) for place, what in enumerate(Offload)}
SCHEDULE_LEVEL = {schedule: index for index, schedule in enumerate(Schedule)}
RECOMPUTE_LEVEL = {level: index for index, level in enumerate(Recompute)}


@record
class Columns:
    """Arrays of equal length, with one element per configuration."""

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """Return the selected elements."""
        if not isinstance(index, slice) and index.dtype == np.bool_:
            index = np.flatnonzero(index)
        names: tuple[str, ...] = self.__match_args__
        columns = [getattr(self, name) for name in names]
        return type(self)(
            *(each.take(index) if isinstance(each, Columns) else each[index] for each in columns)
        )

    def row(self, index: int = 0) -> dict[str, float]:
        """Return one element by column."""
        return {each.name: float(getattr(self, each.name)[index]) for each in fields(self)}

    @classmethod
    def joined(cls, parts: Sequence[Self], sizes: Sequence[int] | None = None) -> Self:
        """Return the elements of all parts, in order; single ones repeated to ``sizes``."""
        names: tuple[str, ...] = cls.__match_args__
        columns = [[getattr(one, name) for one in parts] for name in names]
        if sizes is not None:
            columns = [[*map(_repeated, column, sizes)] for column in columns]
        return cls(*map(np.concatenate, columns))


def _repeated(column: Floats, size: int) -> Floats:
    return column if len(column) == size else np.broadcast_to(column, size)


@record
class Shares(Columns):
    """Exclusive shares that add up, with one element per configuration."""

    @property
    def total(self) -> Floats:
        """Sum of all shares, in their unit."""
        first, *others = (getattr(self, each.name) for each in fields(self))
        return np.asarray(sum(others, first))


@record
class LayoutArrays(Columns):
    """Layouts, one element each. Degrees are whole numbers held as floats."""

    data: Floats
    tensor: Floats
    pipeline: Floats
    context: Floats
    expert: Floats
    sharding: Floats
    """Level: 0 ddp, 1 zero1, 2 zero2, 3 zero3."""
    micro_batch: Floats
    """Sequences per data-parallel rank and micro-step."""
    recompute: Floats
    """Level: 0 none, 1 selective, 2 full."""
    sequence_parallel: Floats
    """1 or 0."""
    virtual_stages: Floats
    offload: Floats
    """Sum of the bits of what is on the host: optimizer 1, parameters 2, activations 4."""
    schedule: Floats
    """Schedule: 0 plain, 1 overlapped, 2 from both ends."""
    gpu_layers: Floats
    """Layers that a served model has on the cards, the output counted as one; infinite for all."""
    cpu_expert_layers: Floats
    """First layers whose routed experts are in the host's memory."""

    @property
    def overlapped(self) -> NDArray[np.bool_]:
        """Whether expert exchanges overlap with another micro-batch's computation."""
        return np.asarray(self.schedule == SCHEDULE_LEVEL[Schedule.OVERLAPPED])

    @property
    def dual(self) -> NDArray[np.bool_]:
        """Whether every rank holds two stages of the pipeline."""
        return np.asarray(self.schedule == SCHEDULE_LEVEL[Schedule.DUALPIPE])

    @property
    def accelerators(self) -> Floats:
        """Accelerators of one job (training) or one replica (serving)."""
        return self.data * self.tensor * self.pipeline * self.context

    @classmethod
    def of(cls, layout: ParallelLayout) -> LayoutArrays:
        """Return one layout as arrays of one element."""
        return cls.stack([layout])

    @classmethod
    def stack(cls, layouts: Sequence[ParallelLayout]) -> LayoutArrays:
        """Return layouts one after the other."""
        rows = [
            (
                one.data,
                one.tensor,
                one.pipeline,
                one.context,
                one.expert,
                SHARDING_LEVEL[one.sharding],
                one.micro_batch,
                RECOMPUTE_LEVEL[one.recompute],
                one.sequence_parallel,
                one.virtual_stages,
                sum(OFFLOAD_BITS[what] for what in set(one.offload)),
                SCHEDULE_LEVEL[one.schedule],
                np.inf if one.gpu_layers is None else one.gpu_layers,
                one.cpu_expert_layers,
            )
            for one in layouts
        ]
        return cls(*np.array(rows, dtype=np.float64).T)

    def under(self, *policies: int) -> LayoutArrays:
        """Return the layouts under recompute policies: policies are rows, layouts columns.

        What no policy changes has one row, and is computed once.
        """
        return replace(self, recompute=np.array(policies, dtype=np.float64)[:, None])

    def replica_cards(self, row: int) -> int:
        """Return the accelerators of one copy of a served model."""
        return int(self.tensor[row] * self.pipeline[row] * self.expert[row])

    def on_host(self, row: int) -> bool:
        """Return whether the host's memory holds layers or experts of a served model."""
        return bool(self.gpu_layers[row] < np.inf or self.cpu_expert_layers[row])

    def layout(self, index: int) -> ParallelLayout:
        """Return element ``index`` as a noun."""
        # The search makes thousands of these, from values that need no validation.
        offload = self.offload[index]
        return ParallelLayout.model_construct(
            data=int(self.data[index]),
            tensor=int(self.tensor[index]),
            pipeline=int(self.pipeline[index]),
            context=int(self.context[index]),
            expert=int(self.expert[index]),
            sharding=LEVELS[int(self.sharding[index])],
            micro_batch=int(self.micro_batch[index]),
            recompute=POLICIES[int(self.recompute[index])],
            sequence_parallel=bool(self.sequence_parallel[index]),
            virtual_stages=int(self.virtual_stages[index]),
            offload=tuple(what for what, bit in OFFLOAD_BITS.items() if offload // bit % 2)
            if offload
            else (),
            schedule=SCHEDULES[int(self.schedule[index])],
            gpu_layers=int(layers) if np.isfinite(layers := self.gpu_layers[index]) else None,
            cpu_expert_layers=int(self.cpu_expert_layers[index]),
        )


@record
class HardwareArrays(Columns):
    """Hardware of each configuration, for one compute format. All SI units."""

    memory_bytes: Floats
    """Reported by the driver."""
    served_memory_bytes: Floats
    """What a serving engine may fill: without a display's share, with a raised limit."""
    peak_flops_per_s: Floats
    """Dense peak of the compute format."""
    peak16_flops_per_s: Floats
    """Dense peak of the 16-bit format attention runs in."""
    peak32_flops_per_s: Floats
    """Dense peak of products of fp32 matrices, rounded to TF32 where the card can."""
    library_flops_per_s: Floats
    """Dense peak of convolutions and recurrences (see ``library_peak``)."""
    fused_flops_per_s: Floats
    """Dense peak of fused attention."""
    memory_bandwidth_bytes_per_s: Floats
    matmul_overhead_s: Floats
    matmul_compute: Floats
    matmul_bandwidth: Floats
    matmul_half_tiles: Floats
    matmul_half_depth: Floats
    matmul16_overhead_s: Floats
    """The same five for the 16-bit format, for matrices that quantised checkpoints keep there."""
    matmul16_compute: Floats
    matmul16_bandwidth: Floats
    matmul16_half_tiles: Floats
    matmul16_half_depth: Floats
    expert_overhead_s: Floats
    """The same five for the grouped products of routed experts in the served format."""
    expert_compute: Floats
    expert_bandwidth: Floats
    expert_half_tiles: Floats
    expert_half_depth: Floats
    depthwise_overhead_s: Floats
    depthwise_bandwidth: Floats
    depthwise_forward: Floats
    """Shares of the vector units' peak that depthwise convolutions reach."""
    depthwise_input_gradient: Floats
    depthwise_weight_gradient: Floats
    depthwise_wide_weight_gradient: Floats
    vector_flops_per_s: Floats
    """Peak of fp32 vector units."""
    single_access_s: Floats
    """Time of one element that kernels reach one by one."""
    convolution_saving: Floats
    """Work of a 3 x 3 convolution over the work of the library's algorithm for it."""
    sustained: Floats
    """Share of the matmul rate that a long run keeps, in formats of 16 bits and more."""
    unaligned: Floats
    """Time that a product takes longer, over its time, where its rows start at any element."""
    trained_convolutions: Floats
    attention_overhead_s: Floats
    attention_forward: Floats
    attention_backward: Floats
    attention_half_keys: Floats
    attention_portable: Floats
    """Rate of FlashAttention-2 over the rate of the kernels above."""
    attention_scan: Floats
    portable_products: Floats
    """Rate of products by the instructions of the generation before, over those of the card."""
    elementwise_bandwidth: Floats
    fresh_memory: Floats
    """Rate of memory-bound kernels in training over that of inference."""
    cache_bandwidth: Floats
    """Share of the memory bandwidth at which decoding reads the key-value cache."""
    shared_reading: Floats
    """Time of one more query head that reads it, over that from memory: own kernels."""
    layer_overhead_s: Floats
    """Launches of one layer by an engine with its own kernels."""
    prompt_layer_overhead_s: Floats
    """The same of a chunk of a prompt."""
    grouped_half_rows: Floats
    """Rows of a prompt at which an engine's own kernels of routed experts reach half their rate."""
    norm_layer_overhead_s: Floats
    """Each norm of a layer besides the one before each branch, by such an engine."""
    routed_layer_overhead_s: Floats
    """What launches of routed experts add to a layer, by an engine with its own kernels."""
    scan_layer_overhead_s: Floats
    """The same of a recurrence."""
    state_passes: Floats
    """Times that such kernels pass over its state besides reading it and writing it back."""
    bf16_expert_passes: Floats
    """Times that a single token reads experts in BF16 besides once."""
    beam_layer_overhead_s: Floats
    """What several tokens of a sequence in one step add to a layer: its beams."""
    short_layers: Floats
    """1 if a serving engine adds less to each layer than on other cards, otherwise 0."""
    weight_expansion_s: Floats
    """Time to expand one stored weight."""
    node_accelerators: Floats
    intra_bytes_per_s: Floats
    intra_domain: Floats
    inter_bytes_per_s: Floats
    """0 where there is no network between nodes."""
    pcie_bytes_per_s: Floats
    host_cores: Floats
    """Of the host, for each accelerator."""
    host_pace: Floats
    """Time of the host to start an operation over that of a usual host."""
    host_memory_bytes: Floats
    """Of one machine."""
    host_bytes_per_s: Floats
    """Bandwidth of its memory."""
    cache_bytes: Floats
    """Last-level cache of a processor; 0 where its effect is left out."""
    staged: Floats
    """1 if traffic over PCIe passes through the host's memory, otherwise 0."""
    own_host: Floats
    """1 for processors, whose kernels share threads with the framework; otherwise 0."""
    shared_memory: Floats
    """1 if accelerator and host share one memory; otherwise 0."""

    @classmethod
    def of(
        cls, accelerator: Accelerator, node: Node, kernels: KernelEfficiency, *, compute: str
    ) -> HardwareArrays:
        """Return one system as arrays of one element, for matmuls in ``compute`` format."""
        return cls.stack([(accelerator, node, kernels, compute)])

    @classmethod
    def stack(
        cls, systems: Sequence[tuple[Accelerator, Node, KernelEfficiency, str]]
    ) -> HardwareArrays:
        """Return systems one after the other, each with the format of its matmuls."""
        return cls(*np.array([_rates(*system) for system in systems]).T.copy())

    def in_16_bits(self) -> HardwareArrays:
        """Return the same systems for matmuls in their 16-bit format."""
        return replace(self._multiplying("matmul16"), peak_flops_per_s=self.peak16_flops_per_s)

    def in_32_bits(self) -> HardwareArrays:
        """Return the same systems for matmuls of fp32 matrices."""
        return replace(self._multiplying("matmul16"), peak_flops_per_s=self.peak32_flops_per_s)

    def in_library(self) -> HardwareArrays:
        """Return the same systems for convolutions and recurrences."""
        if np.all(self.library_flops_per_s == self.peak_flops_per_s):
            return self
        return replace(self._multiplying("matmul16"), peak_flops_per_s=self.library_flops_per_s)

    def for_experts(self) -> HardwareArrays:
        """Return the same systems for the grouped products of routed experts."""
        return self._multiplying("expert")

    def _multiplying(self, curve: str) -> HardwareArrays:
        matmul: dict[str, Any] = {
            f"matmul_{part}": getattr(self, f"{curve}_{part}") for part in CURVE
        }
        return replace(self, **matmul)


@by_identity(4096)
def _rates(card: Accelerator, node: Node, kernels: KernelEfficiency, compute: str) -> Floats:
    """Return the fields of ``HardwareArrays``, in order."""
    found = card_rates(card, kernels, compute) | node_rates(card, node, kernels)
    return np.array([found[name] for name in HardwareArrays.__match_args__])


@record
class Candidates:
    """Configurations to evaluate: layouts on hardware, for one precision."""

    layout: LayoutArrays
    hardware: HardwareArrays

    alike: ClassVar[None] = None
    """What estimates of several have in common that are made together."""

    @classmethod
    def of(
        cls,
        layouts: Sequence[ParallelLayout],
        accelerator: Accelerator,
        node: Node,
        kernels: KernelEfficiency,
        *,
        compute: str,
    ) -> Candidates:
        """Return layouts on one kind of machine, for one format of matrix products."""
        hardware = HardwareArrays.of(accelerator, node, kernels, compute=compute)
        every = np.zeros(len(layouts), dtype=np.intp)
        return cls(LayoutArrays.stack(layouts), hardware.take(every))

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Candidates:
        """Return the selected configurations."""
        return Candidates(layout=self.layout.take(index), hardware=self.hardware.take(index))

    @classmethod
    def joined(cls, parts: Sequence[Candidates], sizes: Sequence[int] | None = None) -> Candidates:
        """Return the configurations of all parts, in order."""
        return cls(
            LayoutArrays.joined([one.layout for one in parts], sizes),
            HardwareArrays.joined([one.hardware for one in parts], sizes),
        )
