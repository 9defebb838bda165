"""Constants around the kernels: links between cards, memory of a process, denoising pipelines."""

from typing import Annotated

from pydantic import AfterValidator, Field

from advisor.foundation.noun import Noun
from advisor.nouns.software.engines import Bytes, Count, Fraction, NonNegative, Seconds
from advisor.nouns.software.kernels import FitQuality


class NetworkEfficiency(Noun):
    """Constants of collectives: share of the link rate, and latency per ring step."""

    intra_bandwidth: Fraction
    pcie_bandwidth: Fraction | None = None
    """Share inside a node without fast links. None takes ``intra_bandwidth``."""
    inter_bandwidth: Fraction
    intra_latency_s: Seconds
    inter_latency_s: Seconds
    rank_gain: NonNegative = 0.0
    """What each doubling of the ranks beyond two adds to the rate of a serving engine's all-reduce
    of long messages, relative to two ranks: switches sum on the way."""
    overlap: Fraction
    """Share of the backward (and forward) pass that can hide data-parallel traffic."""
    contention: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of hidden traffic through the host's memory that slows the computation beside it."""
    link_contention: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The same on links inside a machine, at their full rate."""
    jitter: NonNegative = 0.0
    """Standard deviation of a machine's time for a second of work: all wait for the slowest.
    [s/sqrt(s)]"""
    image_jitter: NonNegative = 0.0
    """The same for networks that take images, whose published runs captured their launches."""
    staged_bandwidth: Fraction = 0.25
    """Share of the PCIe rate between cards without peer-to-peer, through the host's memory."""
    staged_source: str = ""
    host_bytes_per_s: Annotated[Bytes, Field(gt=0)] = 100e9
    """Bandwidth that a host's memory sustains. Assumed: half of eight channels of
    DDR4-3200. [bytes/s]"""
    source: str
    """Source of the constants inside a node."""
    inter_source: str = ""
    """Source of the constants of the network between nodes, and of the overlap."""
    fit: FitQuality | None = None


def _rising(values: dict[str, float]) -> dict[str, float]:
    """Return a range after checking that it has low, expected and high, in this order."""
    if set(values) != {"low", "expected", "high"}:
        raise ValueError("give low, expected and high")
    if not values["low"] <= values["expected"] <= values["high"]:
        raise ValueError("order the three: low, expected, high")
    return values


class MemoryFacts(Noun):
    """Memory that a process needs besides tensors."""

    context_bytes: Annotated[dict[str, Bytes], AfterValidator(_rising)]
    """Driver context and loaded kernels: low, expected, high. [bytes]"""
    workspace_bytes: Bytes
    """Matmul library workspaces. [bytes]"""
    minimal_filter_workspace: NonNegative
    """Workspace of an fp32 convolution by minimal filtering, relative to its input and output."""
    gradient_bucket: Count
    """Gradients that wait together for their way to the host. [elements]"""
    communication_bytes: Bytes
    """Buffers of the collective library for each kind of parallelism in use. [bytes]"""
    fragmentation: Annotated[dict[str, NonNegative], AfterValidator(_rising)]
    """Reserved over allocated memory besides weights: low, expected, high. [fraction]"""
    peak_groups: dict[str, int] = Field(default_factory=dict)
    """Groups of published training peaks, by training software."""
    source: str


class PipelineFacts(Noun):
    """What a pipeline of a denoising network adds to the network's kernels."""

    launch_s: Seconds
    """Host time of eager code for each kernel of the network. [s]"""
    image_s: Seconds
    """Text encoder, scheduler and host around an image. [s]"""
    decoded_bytes_per_pixel: Bytes
    """Memory traffic of the decoder of latents. [bytes/pixel]"""
    source: str
