"""What a case states of its layout is kept; the search chooses the rest."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import advisor
from advisor.errors import InputError
from advisor.terminal.estimate import arrangement
from tests.cases import every_field, serve, tune

LORA: dict[str, Any] = tune("llama-3.1-8b", method="qlora", sequence_length=4096, global_batch=64)
LARGE: dict[str, Any] = {
    "model": {"preset": "llama-3.1-70b"},
    "workload": {"kind": "pretraining", "tokens": 1e11, "sequence_length": 4096},
}
SERVE: dict[str, Any] = {"model": {"preset": "llama-3.1-70b"}, "workload": {"kind": "serving"}}


def estimated(case: dict[str, Any], card: str, count: int, **layout: object) -> advisor.Estimate:
    hardware = {"accelerator": card, "count": count}
    return advisor.estimate({**case, "hardware": hardware, "layout": layout})


def test_a_stated_micro_batch_leaves_recomputation_to_the_search() -> None:
    """QLoRA of 8B on a 24 GB card is published with gradient checkpointing (Dettmers et al. 2023,
    arXiv:2305.14314, section 5): without it, 4,096 tokens need the host's memory."""
    found = estimated(LORA, "rtx-4090", 1, micro_batch=1)
    assert found.memory.fits
    assert found.layout.recompute.value != "none"
    assert found.layout.offload == ()
    kept = estimated(LORA, "rtx-4090", 1, micro_batch=1, recompute="none")
    assert [item.value for item in kept.layout.offload] == ["activations"]
    assert "you stated micro batch" in arrangement(found)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tensor", 4),
        ("pipeline", 4),
        ("sharding", "zero1"),
        ("sharding", "zero2"),
        ("recompute", "selective"),
        ("micro_batch", 2),
        ("virtual_stages", 2),
        ("data", 16),
    ],
)
def test_one_stated_field_is_kept_and_the_rest_fits(field: str, value: object) -> None:
    found = estimated(LARGE, "h200-sxm", 128, **{field: value})
    assert getattr(found.layout, field) == value
    assert found.layout.accelerators == 128
    assert found.memory.fits
    assert found.time is not None
    # Leaving everything to the search is not slower, but for ties (3 %).
    free = estimated(LARGE, "h200-sxm", 128)
    assert free.time is not None
    assert free.time.step_s.expected <= 1.03 * found.time.step_s.expected


def test_a_schedule_that_is_not_searched_can_be_stated() -> None:
    """DeepSeek-V3's report (arXiv:2412.19437, 3.2): 16 stages, experts over 64 ranks, DualPipe."""
    case = {"model": {"preset": "deepseek-v3"}, "workload": {"kind": "pretraining", "tokens": 1e12}}
    found = estimated(case, "h800-sxm", 2048, schedule="dualpipe", expert=64)
    assert (found.layout.schedule.value, found.layout.expert) == ("dualpipe", 64)
    assert found.layout.pipeline % 2 == 0
    assert found.memory.fits


def test_fields_that_contradict_each_other_or_the_model_are_refused() -> None:
    with pytest.raises(advisor.InputError, match="virtual_stages > 1 needs pipeline > 1"):
        estimated(LARGE, "h200-sxm", 128, virtual_stages=2, pipeline=1)
    # A dense model has no experts whose exchanges could overlap.
    with pytest.raises(advisor.InputError, match="1f1b_overlapped needs expert > 1"):
        estimated(LARGE, "h200-sxm", 128, schedule="1f1b_overlapped")


def test_a_layout_that_contradicts_itself_is_not_evaluated() -> None:
    """DualPipe on one stage would idle for minus a third of a micro-batch; a card without links
    waits for ever. Their sum is not a number."""
    case = {"model": {"preset": "deepseek-v3"}, "workload": {"kind": "fine_tuning"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(advisor.InputError, match="expert=16 must divide data x context = 1"):
            estimated(case, "radeon-pro-v710", 1, schedule="dualpipe", expert=16)


def test_a_whole_layout_is_taken_as_it_is() -> None:
    layout = every_field(data=8, tensor=8, sharding="zero1", micro_batch=4)
    found = estimated(LARGE, "h100-sxm", 64, **layout)
    assert not found.memory.fits
    assert found.layout.model_dump() == layout
    assert "you stated" not in arrangement(found)


def test_recommend_keeps_stated_fields_in_every_plan() -> None:
    answer = advisor.recommend({**LARGE, "layout": {"tensor": 4, "sharding": "zero1"}})
    plans = [plan.estimate for ranking in answer.rankings for plan in ranking.plans]
    assert plans
    assert {(item.layout.tensor, item.layout.sharding.value) for item in plans} == {(4, "zero1")}
    again = advisor.load_case(answer.case.model_dump())
    assert again.layout is not None
    assert again.layout.model_fields_set == {"tensor", "sharding"}


def test_a_server_keeps_its_tensor_degree_and_fills_the_cards_with_replicas() -> None:
    found = estimated(SERVE, "h200-sxm", 8, tensor=4)
    assert (found.layout.tensor, found.layout.accelerators) == (4, 8)


def test_offload_that_is_stated_is_used_though_the_work_fits_without() -> None:
    case = {**LORA, "limits": {"owned": [{"accelerator": "h100-sxm", "count": 1}]}}
    found = estimated(case, "h100-sxm", 1, offload=["activations"])
    assert [item.value for item in found.layout.offload] == ["activations"]
    assert found.memory.fits


@pytest.mark.parametrize("layout", [{"pipeline": 3}, {"pipeline": 16384}, {"context": 5}])
def test_degrees_that_do_not_divide_the_cards_are_refused(layout: dict[str, int]) -> None:
    with pytest.raises(InputError, match="does not use the accelerators"):
        estimated(LARGE, "h100-sxm", 4, **layout)


def test_layers_in_the_host_need_an_engine_that_keeps_them_there() -> None:
    """No engine for TPUs has llama.cpp's option -ngl."""
    with pytest.raises(InputError, match="keeps no layers in the host's memory"):
        estimated(SERVE, "tpu-v6e", 8, gpu_layers=10)


def test_a_host_that_is_too_small_is_not_a_card_that_is_short() -> None:
    """One layer of 671 billion parameters fits a card; the other 60 do not fit its host."""
    case = {"model": {"preset": "deepseek-v3"}, "workload": {"kind": "serving"}}
    found = advisor.recommend({**case, "layout": {"tensor": 1, "gpu_layers": 1}})
    messages = [item.message for item in found.rejections]
    assert not any("is -" in message for message in messages)
    assert any("host's memory is too small" in message for message in messages)


def test_a_load_beyond_a_card_does_not_change_the_engine() -> None:
    """A server's engine holds 70B in four bits on 80 GB; for more load, it takes more cards."""
    found = advisor.estimate(serve("llama-3.1-70b", "h100-sxm", 1, requests_per_s=5))
    assert found.software is not None
    assert (found.software.name, found.precision) == ("vllm", "w4a16")
    assert found.memory.fits
    assert found.serving is not None
    assert found.serving.arrivals is not None
    assert found.serving.arrivals.load > 1


def test_tensor_groups_of_an_estimate_stay_in_one_machine_where_one_is_offered() -> None:
    # Two machines of one card cost less than one of two, whose cards need no network.
    found = advisor.estimate(
        {
            "model": {"preset": "llama-3.3-70b"},
            "workload": {"kind": "serving", "weight_format": "fp8", "concurrency": 16},
            "hardware": {"accelerator": "rtx-pro-6000-blackwell-server", "count": 2},
            "layout": {"tensor": 2},
        }
    )

    assert found.cost is not None
    assert found.cost.instances == 1
