"""The rows of the data files, in their human units; checked here and converted in the loader."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic import model_validator as model_check

from advisor.hardware import Confidence, Segment

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Format = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4"]
Key = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Date = Annotated[str, StringConstraints(pattern=r"^20\d\d(-(0[1-9]|1[0-2])(-\d\d)?)?$")]
SourceAndConfidence = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9-]+/(datasheet-read|secondary|derived|memory)$"),
]
Field_ = Literal[
    "default",
    "form_factor",
    "memory",
    "memory_reported",
    "bandwidth",
    "power",
    "interconnect",
    "purchase",
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "fp4",
    "int8",
    "int4",
]

MOST_PER_BYTE_HALVED = 2.1
"""Halving the width of a number at most doubles the dense rate; more smells of sparsity."""
MOST_INT8_OVER_16_BIT = 4.1
"""GeForce halves fp16 with fp32 accumulation, but not int8."""
MOST_FP4_OVER_FP8 = 4.1
"""GeForce halves fp8 with fp32 accumulation, but not fp4; Blackwell Ultra triples fp4."""


class Record(BaseModel):
    """A frozen row that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceRecord(Record):
    """A published source, or the statement that there is none."""

    title: Text
    locator: Text
    date: Date
    licence: Text


class MemoryRule(Record):
    """How much the driver shows where its figure is not published."""

    gib_per_marketed_gb: Annotated[float, Field(gt=0.5, le=1.0)]
    confidence: Confidence
    reason: Text


class InterconnectRecord(Record):
    """Fast links, as published: both directions together."""

    name: Text
    bidirectional_gb_per_s: Positive
    domain: Annotated[int, Field(ge=1)]


class PurchaseRecord(Record):
    """What one accelerator costs to buy."""

    usd: Positive
    date: Date
    kind: Literal["msrp", "street", "estimate"]


class AcceleratorRecord(Record):
    """One accelerator of ``gpu_catalog.yaml``."""

    key: Key
    name: Text
    vendor: Text
    architecture: Text
    year: Annotated[int, Field(ge=2010, le=2030)]
    segment: Segment
    form_factor: Text
    memory_gb: Positive
    memory_type: Text
    memory_reported_mib: Annotated[int, Field(gt=0)] | None = None
    memory_reported_rule: Key | None = None
    bandwidth_gb_per_s: Positive
    dense_tflops: Annotated[dict[Format, Positive], Field(min_length=1)]
    dense_tflops_fp16_accumulate: dict[Literal["fp16", "fp8"], Positive] = {}
    ratio_exception: Text | None = None
    """Why the rates of two formats may be further apart than dense rates usually are."""
    interconnect: InterconnectRecord | None = None
    power_w: Positive | None = None
    pcie_generation: Annotated[int, Field(ge=3, le=7)] | None = None
    compute_capability: Text | None = None
    purchase: PurchaseRecord | None = None
    notes: str = ""
    provenance: dict[Field_, SourceAndConfidence]

    @model_check(mode="after")
    def _consistent(self) -> Self:
        if (self.memory_reported_mib is None) == (self.memory_reported_rule is None):
            msg = "give exactly one of memory_reported_mib and memory_reported_rule"
            raise ValueError(msg)
        if "default" not in self.provenance:
            msg = "provenance needs the key 'default', as source/confidence"
            raise ValueError(msg)
        if not self.dense_tflops.keys() & {"fp32", "bf16", "fp16"}:
            msg = "dense_tflops needs fp32 or a 16-bit format"
            raise ValueError(msg)
        if self.ratio_exception is None:
            self._check_dense()
        return self

    def _check_dense(self) -> None:
        rates = self.dense_tflops
        sixteen = rates.get("bf16") or rates.get("fp16")
        pairs = (
            ("fp8", rates.get("fp8"), sixteen, MOST_PER_BYTE_HALVED),
            ("int8", rates.get("int8"), sixteen, MOST_INT8_OVER_16_BIT),
            ("fp4", rates.get("fp4"), rates.get("fp8"), MOST_FP4_OVER_FP8),
            ("int4", rates.get("int4"), rates.get("int8"), MOST_PER_BYTE_HALVED),
        )
        for name, rate, wider, most in pairs:
            if rate and wider and rate > most * wider:
                msg = (
                    f"{name} is {rate / wider:.1f} times the wider format, which looks sparse; "
                    "give the dense rate, or the reason in ratio_exception"
                )
                raise ValueError(msg)


class GpuCatalogFile(Record):
    """The whole of ``gpu_catalog.yaml``."""

    sources: dict[Key, SourceRecord]
    memory_rules: dict[Key, MemoryRule]
    accelerators: list[AcceleratorRecord]


def _blank_is_absent(value: object) -> object:
    return None if value == "" else value


Optional = Annotated[Positive | None, BeforeValidator(_blank_is_absent)]


class OfferRecord(Record):
    """One row of ``cloud_offers.csv``. An empty cell is unknown."""

    provider: Text
    tier: Text
    instance_type: Text
    region: Text
    accelerator: Key
    accelerators: Annotated[int, Field(ge=1)]
    vcpus: Optional
    host_memory_gib: Optional
    on_demand_usd_per_hour: Optional
    spot_usd_per_hour: Optional
    price_date: Date
    intra_node: str
    network_gbit_per_s: Optional
    source: Key
    confidence: Confidence
    notes: str

    @model_check(mode="after")
    def _priced(self) -> Self:
        if self.on_demand_usd_per_hour is None and self.spot_usd_per_hour is None:
            msg = "an offer needs on_demand_usd_per_hour or spot_usd_per_hour"
            raise ValueError(msg)
        return self
