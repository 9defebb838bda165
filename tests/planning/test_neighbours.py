"""What the layouts next to a chosen one cost."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.nouns.case import ModelSource
from tests.cases import every_field, serve
from tests.planning.ties import loses_nothing

CARDS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "llama-3.1-405b on 1,024": ("llama-3.1-405b", "h100-sxm", 1024, {"sequence_length": 8192}),
    "llama-3.1-70b on 64": ("llama-3.1-70b", "h100-sxm", 64, {}),
    "gpt-3 on 1,024": ("gpt-3-175b", "a100-sxm-80gb", 1024, {}),
    "mixtral on 128": ("mixtral-8x7b", "h100-sxm", 128, {}),
    "deepseek-v3 on 2,048": ("deepseek-v3", "h100-sxm", 2048, {}),
    "8b full, more ranks than batches feed": (
        "llama-3.1-8b",
        "h100-sxm",
        512,
        {"kind": "fine_tuning", "method": "full", "software": "megatron"},
    ),
    "8b in a workstation": ("llama-3.1-8b", "l40s", 8, {"sequence_length": 32_768}),
}


def estimated(
    preset: str, accelerator: str, count: int, work: dict[str, Any], **case: Any
) -> advisor.Estimate:
    return advisor.estimate(
        {
            "model": {"preset": preset},
            "workload": {"kind": "pretraining", "tokens": 1e12, **work},
            "hardware": {"accelerator": accelerator, "count": count},
            **case,
        }
    )


@pytest.mark.parametrize("name", CARDS)
def test_no_neighbour_of_the_searched_layout_is_faster_and_fits(name: str) -> None:
    """Near ties go to the simpler layout. ZeRO-2 is among the neighbours: leaving it out of the
    search loses nothing."""
    found = estimated(*CARDS[name])
    assert found.memory.fits
    assert {item.layout.sharding.value for item in found.neighbours} >= {"zero2"}
    layers = advisor.resolve_model(ModelSource(preset=CARDS[name][0])).num_hidden_layers
    for item in found.neighbours:
        assert not item.fits or loses_nothing(
            found.layout, item.layout, ratio=item.time_ratio, layers=layers
        )


def test_a_neighbour_costs_what_its_own_estimate_says() -> None:
    layout = every_field(data=8, tensor=8, pipeline=16, sharding="zero1")
    case = CARDS["llama-3.1-405b on 1,024"]
    found = estimated(*case, layout=layout)
    assert found.time is not None
    by_change = {item.change: item for item in found.neighbours}
    changes: dict[str, dict[str, Any]] = {
        "recompute none to full": {"recompute": "full"},
        "micro-batch 1 to 2": {"micro_batch": 2},
        "tensor 8 to 16, data 8 to 4": {"tensor": 16, "data": 4},
        "sharding zero1 to zero3": {"sharding": "zero3"},
    }
    for change, update in changes.items():
        alone = estimated(*case, layout={**layout, **update})
        assert alone.time is not None
        near = by_change[change]
        assert near.time_s == pytest.approx(alone.time.step_s.expected)
        assert near.memory_bytes == pytest.approx(alone.memory.needed_bytes)
        assert near.fits == alone.memory.fits
    assert "between machines" in by_change["tensor 8 to 16, data 8 to 4"].note


def test_neighbours_of_a_server_divide_its_replicas() -> None:
    found = advisor.estimate(
        serve("llama-3.1-70b", "h100-sxm", 8, concurrency=32, layout={"tensor": 8})
    )
    by_change = {item.change: item for item in found.neighbours}
    assert set(by_change) == {"data 1 to 2, tensor 8 to 4", "pipeline 1 to 2, tensor 8 to 4"}
    assert all(item.layout.accelerators == 8 for item in found.neighbours)


def test_the_first_plan_of_each_ranking_has_its_neighbours() -> None:
    result = advisor.recommend(
        {"model": {"preset": "llama-3.1-8b"}, "workload": {"kind": "fine_tuning", "method": "lora"}}
    )
    assert all(item.plans[0].estimate.neighbours for item in result.rankings)


def test_parameters_stay_on_the_host_only_where_they_are_sharded() -> None:
    layout = {"data": 8, "sharding": "zero3", "offload": ["parameters"]}
    found = estimated("llama-3.1-8b", "h100-sxm", 8, {}, layout=layout)
    assert found.neighbours
    assert {item.layout.sharding.value for item in found.neighbours if item.layout.data > 1} == {
        "zero3"
    }
