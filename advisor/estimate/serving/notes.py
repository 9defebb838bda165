"""What an answer says of the serving engine: its builds, its split of layers, raised limits."""

from __future__ import annotations

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.results import MemoryBreakdown
from advisor.estimate.serving.report import on_host
from advisor.foundation.units import GB, GIB, MIB
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.techniques import speculated, speculation_facts
from advisor.nouns.workload import Serving

PAGE_BYTES = 4096


def engine_notes(
    layout: ParallelLayout,
    node: Node,
    architecture: ModelArchitecture,
    weight_format: WeightFormat,
    calibration: Calibration,
) -> tuple[str, ...]:
    """Return the age of the builds behind the speeds, and what the host holds."""
    engine = calibration.engine_for(weight_format)
    notes = []
    if engine.built:
        notes.append(f"speeds of {engine.title} rest on published runs of builds of {engine.built}")
    if on_host(layout):
        notes.append(
            f"{layout.host_options}: the host holds the rest of the "
            f"{architecture.num_hidden_layers} layers and their cache, in "
            f"{node.host_memory_bytes / GB:,.0f} GB of memory at "
            f"{node.host_memory_bandwidth_bytes_per_s / GB:,.4g} GB/s (host.memory_bytes, "
            "host.memory_bandwidth_bytes_per_s)"
        )
    if node.display_bytes:
        notes.append(
            f"{node.display_bytes / GB:.2g} GB of each card for screen and desktop "
            "(host.display_bytes)"
        )
    return tuple(notes)


def technique_notes(workload: Serving) -> tuple[str, ...]:
    """State what the estimate assumes of each technique that the case states."""
    notes = []
    if workload.prefix_hit_share:
        notes.append(
            f"{workload.prefix_hit_share:.0%} of each prompt is in the prefix cache (stated); the "
            "memory counts every request in full"
        )
    if workload.speculation is not None:
        facts, drafts = speculation_facts()[workload.speculation], speculated(workload)
        notes.append(
            f"{facts.title}: a step checks {drafts.verified:.0f} tokens of each sequence and "
            f"yields {drafts.accepted:.1f}; published gain of one stream {facts.gain.low:g} to "
            f"{facts.gain.high:g} times ({facts.source})"
        )
    return tuple(notes)


def limit_notes(accelerator: Accelerator, memory: MemoryBreakdown) -> tuple[str, ...]:
    """Say how to raise the limit of unified memory, where a served model needs more."""
    needed = memory.total_bytes.high
    if not accelerator.memory_reported_bytes < needed <= memory.usable_bytes:
        return ()
    raised = accelerator.memory_raised_bytes
    given = f"by default, the GPU gets {accelerator.memory_reported_bytes / GIB:,.0f} GiB"
    how = f"sudo sysctl iogpu.wired_limit_mb={raised / MIB:.0f}"
    if accelerator.vendor != "Apple":
        how = f"kernel option ttm.pages_limit={raised / PAGE_BYTES:.0f}"
    return (f"{given} of the shared memory; for more: {how}",)
