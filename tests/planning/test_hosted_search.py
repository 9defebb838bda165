"""Where nothing fits on the card alone, the search keeps states in the host's memory."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.layout import Offload
from advisor.units import GIB

PARAMETERS = 6_738_415_616
"""Llama 2 7B."""
FULL = {
    "model": {"preset": "llama-2-7b"},
    "workload": {"kind": "fine_tuning", "method": "full", "tokens": 10e6},
}


def best(limits: dict[str, Any], **case: Any) -> advisor.Estimate:
    found = advisor.recommend({**FULL, **case, "limits": limits})
    return found.rankings[0].plans[0].estimate


def test_one_card_of_24_gb_trains_all_of_7b_with_its_host() -> None:
    """16 bytes a parameter (Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1) go there."""
    found = best({"owned": [{"accelerator": "rtx-4090", "count": 1}]})
    assert found.memory.fits
    assert Offload.OPTIMIZER in found.layout.offload
    host = found.memory.host_bytes.expected
    assert host == pytest.approx(16 * PARAMETERS, rel=0.03)
    assert any("memory that the layout keeps on the host" in text for text in found.assumptions)


def test_a_rented_machine_has_the_host_memory() -> None:
    """Of AWS's machines with one A10G (16 to 256 GiB), only those of 128 and more have it."""
    limits = {"accelerators": ["a10g"], "providers": ["AWS"], "max_accelerators": 1}
    found = advisor.recommend({**FULL, "limits": limits})
    rented = {item.instance_type for item in found.candidates}
    offers = [item for item in advisor.load_catalog().offers if item.instance_type in rented]
    assert rented
    assert all((item.host_memory_bytes or 0) >= 128 * GIB for item in offers)


def test_a_host_too_small_is_no_way() -> None:
    """Scaleway's machine with one L4 has 48 GiB."""
    limits = {"accelerators": ["l4"], "max_accelerators": 1, "providers": ["Scaleway"]}
    found = advisor.recommend({**FULL, "limits": limits})
    assert not found.rankings[0].plans
    [lost] = [item for item in found.rejections if item.accelerator == "l4"]
    assert lost.code.value == "memory"


def test_what_fits_without_a_host_leaves_it_alone() -> None:
    limits = {"accelerators": ["rtx-4090", "h100-sxm"], "max_accelerators": 8}
    found = advisor.recommend({**FULL, "limits": limits})
    plans = [plan for ranking in found.rankings for plan in ranking.plans]
    assert all(not plan.estimate.layout.offload for plan in plans)


def test_adapters_keep_their_frozen_base_there() -> None:
    workload = {"kind": "fine_tuning", "method": "lora", "tokens": 10e6}
    owned = {"owned": [{"accelerator": "rtx-3090", "count": 1}]}
    found = best(owned, model={"preset": "llama-3.1-70b"}, workload=workload)
    assert found.layout.offload[0] is Offload.PARAMETERS
    assert Offload.OPTIMIZER not in found.layout.offload
