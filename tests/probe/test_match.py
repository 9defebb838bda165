"""Names that drivers give, and the catalog's cards that they mean."""

import pytest

from advisor.catalog import load_catalog
from advisor.foundation.units import GIB
from advisor.probe.devices.match import catalog_key
from advisor.probe.report import Device, DeviceKind


@pytest.mark.parametrize(
    ("name", "gib", "key"),
    [
        ("NVIDIA H200", 140.4, "h200-sxm"),
        ("NVIDIA H200 NVL", 140.4, "h200-nvl"),
        ("NVIDIA H100 80GB HBM3", 79.6, "h100-sxm"),
        ("NVIDIA H100 PCIe", 79.6, "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", 79.3, "a100-sxm-80gb"),
        ("NVIDIA A100-PCIE-40GB", 39.4, "a100-pcie-40gb"),
        ("NVIDIA GeForce RTX 4090", 23.5, "rtx-4090"),
        ("NVIDIA GeForce RTX 3060", 11.6, "rtx-3060-12gb"),
        ("Tesla T4", 14.7, "t4"),
        ("AMD Instinct MI300X", 191.5, "mi300x"),
        ("NVIDIA H200", 70.0, None),
        ("NVIDIA Unheard-of 9", 80.0, None),
    ],
)
def test_a_driver_s_name(name: str, gib: float, key: str | None) -> None:
    device = Device(kind=DeviceKind.CUDA, index=0, name=name, memory_bytes=gib * GIB, free_bytes=0)

    assert catalog_key(device, load_catalog()) == key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("AMD EPYC 9654 96-Core Processor", "epyc-9654"),
        ("Intel(R) Core(TM) i9-14900K", "core-i9-14900k"),
        ("Intel(R) Core(TM) i5-9400 CPU @ 2.90GHz", "core-i5-9400"),
        ("AMD EPYC", None),
    ],
)
def test_a_processor_s_name(name: str, key: str | None) -> None:
    device = Device(kind=DeviceKind.CPU, index=0, name=name, memory_bytes=GIB, free_bytes=0)

    assert catalog_key(device, load_catalog()) == key
