"""The report of a probe: frozen, versioned, and read by page, command line and API.

A report can come from anyone. It holds only data, bounded in size and in every field, and nothing
in it is executed.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError

from advisor.errors import refusal
from advisor.foundation import names
from advisor.foundation.files.reading import read_file, too_large
from advisor.foundation.formatting import duration, measured_rate, memory, percent
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Range
from advisor.foundation.units import plain

MAX_REPORT_BYTES: Final = 2_000_000
MAX_DEVICES: Final = 64
MAX_ROWS: Final = 2000
"""Most measurements of one kind on one device."""

Text = Annotated[names.Text, Field(max_length=300)]
Name = Annotated[names.Name, Field(min_length=1, max_length=100)]
NumberFormat = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8"]
Count = Annotated[int, Field(ge=0, le=100_000)]
Size = Annotated[int, Field(ge=1, le=1_000_000)]
Bytes = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=1e-9, le=1e6, allow_inf_nan=False)]


class Mode(StrEnum):
    """How much time the measurements may take."""

    SHORT = "short"
    NORMAL = "normal"
    THOROUGH = "thorough"


class DeviceKind(StrEnum):
    """The software that reaches a device."""

    CUDA = "cuda"
    ROCM = "rocm"
    MPS = "mps"
    CPU = "cpu"


class TransferKind(StrEnum):
    """What moves bytes."""

    COPY = "copy"
    TRIAD = "triad"
    HOST_TO_DEVICE = "host_to_device"
    DEVICE_TO_HOST = "device_to_host"
    DEVICE_TO_DEVICE = "device_to_device"


class Condition(Noun):
    """State of a device at one moment; None where nothing tells it."""

    temperature_c: Annotated[float, Field(ge=-50, le=200)] | None = None
    clock_hz: Annotated[float, Field(gt=0, le=1e11)] | None = None
    """Current clock of the processors. [Hz]"""
    power_w: Annotated[float, Field(ge=0, le=1e5)] | None = None
    busy_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the time during which a kernel ran."""
    throttling: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Reasons why the clocks are lowered."""


class Device(Noun):
    """One accelerator, or the processors of the machine."""

    kind: DeviceKind
    index: Count
    name: Name
    driver: Text = ""
    memory_bytes: Bytes
    """As the driver or the system reports it. [bytes]"""
    free_bytes: Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
    """Free memory when the probe began. [bytes]"""
    cores: Size | None = None
    """Processors that this process may use, or multiprocessors."""
    cache_bytes: Bytes | None = None
    """Size of the last-level cache. [bytes]"""
    compute_capability: Annotated[names.Name, Field(max_length=10)] | None = None
    power_limit_w: Annotated[float, Field(gt=0, le=1e5)] | None = None
    pcie_generation: Annotated[int, Field(ge=1, le=9)] | None = None
    pcie_lanes: Annotated[int, Field(ge=1, le=64)] | None = None
    nvlink_peers: Annotated[tuple[Count, ...], Field(max_length=MAX_DEVICES)] = ()
    """Indices of the devices on fast links; the device's own index if a switch is between."""
    mig_slices: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Instances into which the card is divided."""
    condition: Condition = Condition()


class Timing(Noun):
    """Time of one call: median over samples, and how far they spread."""

    median_s: Seconds
    spread: Annotated[float, Field(ge=0, le=1e6)]
    """Distance between the quartiles divided by the median. [fraction]"""
    samples: Size
    calls: Annotated[int, Field(ge=1, le=100_000_000)]
    """Calls in all samples together."""


class MatmulRate(Noun):
    """One matrix product: m x k times k x n."""

    format: NumberFormat
    m: Size
    n: Size
    k: Size
    timing: Timing

    @property
    def shape(self) -> str:
        """The two matrices in words."""
        return f"{self.m} x {self.k} by {self.k} x {self.n}"

    @property
    def flops(self) -> float:
        """Operations, a multiply-add counting 2. [FLOPs]"""
        return 2.0 * self.m * self.n * self.k

    @property
    def flops_per_s(self) -> float:
        """Rate. [FLOPs/s]"""
        return self.flops / self.timing.median_s

    @property
    def cells(self) -> dict[str, str]:
        """The product, its rate, time and spread, by column."""
        return {
            "Format": self.format,
            "Product": self.shape,
            "Rate": measured_rate(self.flops_per_s, "FLOPS"),
            "Time": f"{plain(self.timing.median_s * 1e6, 3)} µs",
            "Spread": percent(self.timing.spread),
        }


class TransferRate(Noun):
    """One way of moving bytes."""

    kind: TransferKind
    moved_bytes: Bytes
    """Bytes read plus written in one call; for a transfer between memories, its size. [bytes]"""
    timing: Timing
    peer: Count | None = None
    """Index of the other device."""

    @property
    def bytes_per_s(self) -> float:
        """Rate. [bytes/s]"""
        return self.moved_bytes / self.timing.median_s

    @property
    def cells(self) -> dict[str, str]:
        """What moves, its rate and the spread, by column."""
        return {
            "Movement": self.kind.value.replace("_", " "),
            "Rate": measured_rate(self.bytes_per_s, "B/s"),
            "Spread": percent(self.timing.spread),
        }


class DeviceReport(Noun):
    """What was measured on one device."""

    device: Device
    catalog_key: Name | None = None
    """Key of the catalog's card with this name; None if there is none."""
    matmuls: Annotated[tuple[MatmulRate, ...], Field(max_length=MAX_ROWS)] = ()
    transfers: Annotated[tuple[TransferRate, ...], Field(max_length=MAX_ROWS)] = ()
    launch: Timing | None = None
    """Host time to start one kernel (or to call one operation of the library)."""
    after: Condition = Condition()
    """Condition after the last measurement."""

    def best_matmuls(self) -> dict[str, MatmulRate]:
        """Return the fastest product of each format."""
        best: dict[str, MatmulRate] = {}
        for row in self.matmuls:
            if row.format not in best or row.flops_per_s > best[row.format].flops_per_s:
                best[row.format] = row
        return best

    def best_bandwidth(self) -> float | None:
        """Return the faster of copy and triad; None if neither was measured. [bytes/s]"""
        rates = [
            row.bytes_per_s
            for row in self.transfers
            if row.kind in (TransferKind.COPY, TransferKind.TRIAD)
        ]
        return max(rates, default=None)


class StepShape(Noun):
    """A small transformer and the batch it is trained on."""

    name: Name
    hidden_size: Size
    layers: Size
    heads: Size
    key_value_heads: Size
    intermediate_size: Size
    """Width of the feed-forward layer, or of one expert."""
    vocab_size: Size
    sequence_length: Size
    micro_batch: Size
    experts: Size = 1
    active_experts: Size = 1
    recompute: bool = False
    """Whether the backward pass recomputes the blocks (activation checkpointing)."""


class StepCheck(Noun):
    """A real training step beside its prediction."""

    shape: StepShape
    accelerator: Name
    precision: Name
    """Recipe; key into ``precision.RECIPES``."""
    parameters: Annotated[int, Field(ge=1, le=10**13)]
    measured: Timing
    predicted_s: Range
    measured_bytes: Bytes | None
    """Peak of PyTorch's memory for tensors; None if PyTorch does not count it. [bytes]"""
    predicted_bytes: Range

    @property
    def cells(self) -> dict[str, str]:
        """The model, and its measured and predicted time and tensors, by column."""
        shape, held = self.shape, self.measured_bytes
        return {
            "Model": f"{shape.name}{', recomputed' if shape.recompute else ''}",
            "Step": duration(self.measured.median_s),
            "Step, predicted": duration(self.predicted_s, with_range=True),
            "Tensors": "-" if held is None else memory(held),
            "Tensors, predicted": memory(self.predicted_bytes, with_range=True),
        }


class ProbeReport(Noun):
    """Everything that one probe found, partial where something stopped it."""

    schema_name: Literal["gpu-advisor-probe"] = "gpu-advisor-probe"
    schema_version: Literal[1] = 1
    created: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
    """ISO 8601, UTC."""
    mode: Mode
    backend: Name
    """Library that ran the measurements, with its version."""
    system: Text
    """Operating system and its version."""
    elapsed_s: Annotated[float, Field(ge=0, le=1e6)]
    complete: bool
    """False after a cancel, or if the time was over before the last measurement."""
    devices: Annotated[tuple[DeviceReport, ...], Field(min_length=1, max_length=MAX_DEVICES)]
    checks: Annotated[tuple[StepCheck, ...], Field(max_length=50)] = ()
    problems: Annotated[tuple[Text, ...], Field(max_length=200)] = ()
    """What could not be measured, one sentence each."""


def read_report(path: str | Path) -> ProbeReport:
    """Read a report from a file.

    Raises InputError if the file cannot be read, is too large, or is not a report of this version.
    """
    return parse_report(
        read_file(
            Path(path),
            most=MAX_REPORT_BYTES,
            name="the report",
            allowed="a file that 'gpu-advisor probe --output probe.json' wrote",
            remedy="Check the path.",
            field="report",
        )
    )


def parse_report(content: bytes) -> ProbeReport:
    """Read a report from the bytes of a file.

    Raises InputError if it is too large, or not a report of this version. The message names the
    first wrong field.
    """
    allowed = "a report of schema version 1, as 'gpu-advisor probe --output probe.json' writes it"
    if len(content) > MAX_REPORT_BYTES:
        remedy = "Give the file that the probe wrote."
        raise too_large("the report", MAX_REPORT_BYTES, remedy=remedy, field="report")
    try:
        return ProbeReport.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        wrong = f"{where}: {first['msg']}" if where else first["msg"]
        raise refusal(
            "no_report_of_probe",
            wrong=wrong,
            value=first["input"] if not isinstance(first["input"], dict | bytes) else "a file",
            allowed=allowed,
        ) from None


def describe_device(device: Device, catalog_key: str | None) -> str:
    """Return the known facts of a device in one sentence."""
    pcie = f"PCIe {device.pcie_generation} x{device.pcie_lanes}"
    parts = (
        f"{memory(device.memory_bytes)}, {memory(device.free_bytes)} free",
        f"{device.cores} cores" if device.cores else "",
        device.driver,
        f"power limit {device.power_limit_w:.0f} W" if device.power_limit_w else "",
        pcie if device.pcie_generation and device.pcie_lanes else "",
        f"fast links to {', '.join(map(str, device.nvlink_peers))}" if device.nvlink_peers else "",
        f"MIG slices: {', '.join(device.mig_slices)}" if device.mig_slices else "",
        f"throttled by {', '.join(device.condition.throttling)}"
        if device.condition.throttling
        else "",
        f"in the catalog as {catalog_key}" if catalog_key else "not in the catalog",
    )
    return "; ".join(part for part in parts if part) + "."
