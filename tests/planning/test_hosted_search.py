"""Where nothing fits on the card alone, the search keeps states in the host's memory."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.foundation.units import GIB
from advisor.nouns.layout import Offload
from tests.cases import tune

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
    """All but the 16-bit weights go there (Ren et al. 2021, arXiv:2101.06840, section 4.1).

    That is 14 of 16 bytes a parameter (Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1).
    """
    owned = {"owned": [{"accelerator": "rtx-4090", "count": 1}]}
    found = best(owned, host={"memory_bytes": 128e9})
    assert found.memory.fits
    assert Offload.OPTIMIZER in found.layout.offload
    host = found.memory.host_bytes.expected
    assert host == pytest.approx(14 * PARAMETERS, rel=0.03)
    # A desktop computer has 64 GB unless its owner says more, and the answer names what would do.
    usual = advisor.recommend({**FULL, "limits": owned})
    assert not usual.rankings[0].plans
    assert usual.nearest
    ways = [way for way in usual.nearest.ways_out if way.host_bytes]
    assert ["128 GB" in way.change for way in ways] == [True]


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
    host = {"memory_bytes": 192e9}
    found = best(owned, model={"preset": "llama-3.1-70b"}, workload=workload, host=host)
    assert found.layout.offload[0] is Offload.PARAMETERS
    assert Offload.OPTIMIZER not in found.layout.offload


def test_4_bit_weights_on_the_card_are_told_beside_16_bits_on_the_host() -> None:
    """Unsloth's guide to gpt-oss: QLoRA of 20B takes 14 GB; 20.9 billion in 16 bits take 42 GB."""
    workload = {"kind": "fine_tuning", "method": "lora", "tokens": 10e6}
    case = {"model": {"preset": "gpt-oss-20b"}, "workload": workload}
    found = advisor.recommend({**case, "limits": {"owned": [{"accelerator": "rtx-5090"}]}})
    assert Offload.PARAMETERS in found.rankings[0].plans[0].estimate.layout.offload
    told = [item.message for item in found.advice if "--task qlora" in item.message]
    assert len(told) == 1
    assert "Unsloth" in told[0]


def test_4_bit_weights_go_to_the_host_over_two_ranks_or_more() -> None:
    """FSDP moves them (answer.ai, FSDP and QLoRA); one rank has no FSDP, and ZeRO takes 16 bits."""
    workload = {"kind": "fine_tuning", "method": "qlora", "tokens": 10e6, "sequence_length": 12288}
    case: dict[str, Any] = {"model": {"preset": "qwen2.5-32b"}, "workload": workload}
    one = {"owned": [{"accelerator": "rtx-4090", "count": 1}]}
    found = advisor.recommend({**case, "limits": one})
    assert not found.candidates
    assert "weights on the host" not in str(found.rejections)
    two = best({"owned": [{"accelerator": "rtx-4090", "count": 2}]}, **case)
    assert two.memory.fits
    assert two.layout.data == 2


def test_an_assumed_shape_tells_that_its_wider_range_asks_for_the_host() -> None:
    case = {
        "model": {"parameters": 7e9},
        "workload": {
            "kind": "fine_tuning",
            "method": "qlora",
            "sequence_length": 7936,
            "software": "huggingface",  # which keeps whole logits
        },
        "limits": {"owned": [{"accelerator": "rtx-3060-12gb"}]},
    }
    found = advisor.recommend(case)
    assert found.rankings[0].plans[0].estimate.layout.offload
    [shape] = [item.message for item in found.advice if item.code == "assumed-shape"]
    assert "Only because of these wider ranges, the plan uses the host's memory" in shape
    known = advisor.recommend({**case, "model": {"preset": "llama-2-7b"}})
    assert not known.rankings[0].plans[0].estimate.layout.offload


def test_buying_takes_the_plan_of_those_who_own_the_card() -> None:
    # Its weights leave too little room on the card.
    tuned = {"kind": "fine_tuning", "method": "lora", "tokens": 10e6, "software": "deepspeed"}
    work = {"workload": tuned}
    model = {"model": {"preset": "gemma-4-12b"}}
    owned = best({"owned": [{"accelerator": "rtx-4090"}]}, **model, **work)
    assert owned.layout.offload
    assert owned.time is not None
    bought = advisor.own({**model, **work, "hardware": {"accelerator": "rtx-4090", "count": 1}})
    first = next(item for item in bought.processors if item.accelerator == "rtx-4090")
    assert first.hours == owned.time.run_hours
    told = {
        "hardware": {"accelerator": "rtx-4090"},
        "limits": {"owned": [{"accelerator": "rtx-4090"}]},
    }
    assert advisor.estimate({**model, **work, **told}).layout == owned.layout


def test_what_works_in_its_hosts_memory_has_no_other() -> None:
    """30B parameters with states take 480 GB (16 bytes each); the processor has 256 GiB."""
    limits = {"owned": [{"accelerator": "epyc-9654"}]}
    found = advisor.recommend({**FULL, "model": {"parameters": 30e9}, "limits": limits})
    assert not found.rankings[0].plans


def test_a_card_beside_an_empty_slot_has_all_of_the_hosts_memory() -> None:
    """Weights, gradients and states of 8 billion parameters take 16 bytes each: 128 GB."""
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "method": "full", "tokens": 1e7},
        "host": {"memory_bytes": 192e9},
        "limits": {"owned": [{"accelerator": "rtx-4090", "count": 1}]},
    }
    assert advisor.recommend(case).plans
    assert not advisor.recommend({**case, "host": {"memory_bytes": 96e9}}).plans


def test_limits_that_leave_no_card_are_named() -> None:
    found = advisor.recommend(
        {
            "model": {"preset": "llama-3.1-8b"},
            "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 1e7},
            "limits": {"accelerators": ["h100-sxm"], "vendors": ["AMD"]},
        }
    )
    assert "is from NVIDIA; you allow AMD" in found.answer


def test_frameworks_neither_draft_nor_cache_prompts() -> None:
    found = advisor.recommend(
        {
            "model": {"preset": "lstm-4x1024"},
            "workload": {"kind": "serving", "concurrency": 1},
            "limits": {"owned": [{"accelerator": "core-i9-14900k", "count": 1}]},
        }
    )
    assert "PyTorch" in found.answer
    assert not [item for item in found.advice if item.code == "same-cards"]
    assert not [item for item in found.assumptions if "vLLM" in item]


def test_a_rented_card_whose_host_no_offer_states_has_a_computers_own_memory() -> None:
    """No price list of the RTX 3060 states the host: the verdict is that of a card of one's own."""
    case = tune("llama-3.1-8b", "rtx-3060-12gb", method="lora")
    rented = advisor.estimate(case)
    owned = advisor.estimate(
        case | {"limits": {"owned": [{"accelerator": "rtx-3060-12gb", "count": 1}]}}
    )
    assert rented.memory.fits
    assert rented.layout == owned.layout
    assert any("--host-memory" in text for text in rented.assumptions)
