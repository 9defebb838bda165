"""The table of names: explicit, complete for what gpuhunt itself lists, and never a guess."""

import pytest

from advisor.catalog.live.rows import check_names, find_name, names
from advisor.catalog.loader import load_snapshot
from advisor.errors import CatalogError

CATALOG = load_snapshot()


def test_every_line_leads_to_an_accelerator_of_the_catalog() -> None:
    check_names({card.key for card in CATALOG.accelerators})
    with pytest.raises(CatalogError, match="add the accelerator there first"):
        check_names({"h100-sxm"})


def test_no_line_is_hidden_by_an_earlier_one() -> None:
    seen = set()
    for name in names():
        key = (name.provider, name.instance, name.gpu_name, name.gpu_memory_gb)
        assert key not in seen, key
        seen.add(key)


# Form factors as the providers document them; instance names as gpuhunt lists them.
@pytest.mark.parametrize(
    ("provider", "instance", "gpu", "memory", "key"),
    [
        ("aws", "p3dn.24xlarge", "V100", 32, "v100-sxm2-32gb"),
        ("aws", "p4d.24xlarge", "A100", 40, "a100-sxm-40gb"),
        ("aws", "p4de.24xlarge", "A100", 80, "a100-sxm-80gb"),
        ("azure", "Standard_NC24ads_A100_v4", "A100", 80, "a100-pcie-80gb"),
        ("azure", "Standard_ND96amsr_A100_v4", "A100", 80, "a100-sxm-80gb"),
        ("azure", "Standard_NC40ads_H100_v5", "H100NVL", 94, "h100-nvl"),
        ("gcp", "a2-ultragpu-8g", "A100", 80, "a100-sxm-80gb"),
        ("gcp", "a3-megagpu-8g", "H100", 80, "h100-sxm"),
        ("lambdalabs", "gpu_1x_a100", "A100", 40, "a100-pcie-40gb"),
        ("lambdalabs", "gpu_8x_a100", "A100", 40, "a100-sxm-40gb"),
        ("lambdalabs", "gpu_1x_h100_pcie", "H100", 80, "h100-pcie"),
        ("oci", "BM.GPU4.8", "A100", 40, "a100-sxm-40gb"),
        ("oci", "BM.GPU.A100-v2.8", "A100", 80, "a100-sxm-80gb"),
        ("runpod", "NVIDIA A100 80GB PCIe", "A100", 80, "a100-pcie-80gb"),
        ("verda", "8H200.141S.176V", "H200", 141, "h200-sxm"),
        ("nebius", "gpu-b300-sxm 8gpu-192vcpu-2768gb", "B300", 270, "b300-sxm"),
    ],
)
def test_cards_of_one_name_are_told_apart(
    provider: str, instance: str, gpu: str, memory: float, key: str
) -> None:
    found = find_name(provider, instance, gpu, memory)

    assert found is not None
    assert found.accelerator == key


@pytest.mark.parametrize(
    ("provider", "instance", "gpu", "memory"),
    [
        ("azure", "Standard_NV6ads_A10_v5", "A10", 4),  # a sixth of a card
        ("gcp", "g4-standard-12", "RTXPRO6000", 24),  # a quarter
        ("vastai", "12345", "A100", 80),  # PCIe or SXM: not stated
        ("aws", "p9.48xlarge", "R100", 288),
        ("aws", "p3.16xlarge", "V100", 16),  # no longer for rent, though price files may name them
        ("azure", "Standard_NC6s_v3", "V100", 16),
    ],
)
def test_what_is_not_certain_is_unknown(
    provider: str, instance: str, gpu: str, memory: float
) -> None:
    assert find_name(provider, instance, gpu, memory) is None


@pytest.mark.parametrize(("slice_name", "memory", "chips"), [("v2-8", 64, 4), ("v6e-8", 256, 8)])
def test_a_tpu_slice_has_several_chips(slice_name: str, memory: float, chips: int) -> None:
    found = find_name("gcp", slice_name, slice_name, memory)

    assert found is not None
    assert found.devices == chips
    # 16 GB (v2) and 32 GB (v6e) a chip.
    chip = CATALOG.accelerator(found.accelerator)
    assert chip.memory_marketed_bytes * chips == memory * 1e9
