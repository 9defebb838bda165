"""Ways out: each change makes the case fit when it is asked for by itself."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import advisor
from advisor.catalog.constants import load_calibration
from advisor.cli import main
from advisor.foundation.formatting import duration
from advisor.foundation.units import HOUR_S
from advisor.planning.explain.sentences import way_out_sentence
from advisor.planning.explain.ways_out import SACRIFICES
from advisor.terminal.console import new_console
from advisor.terminal.estimate import show_estimate
from tests.cases import every_field, serve, tune

LORA: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {
        "kind": "fine_tuning",
        "method": "lora",
        "sequence_length": 4096,
        "software": "huggingface",  # which keeps whole logits
    },
    "hardware": {"accelerator": "rtx-4090", "count": 1},
    "host": {"memory_bytes": 8e9},  # too little for the weights
}
WAITING: dict[str, Any] = tune(
    "llama-3.1-8b",
    "a100-sxm-40gb",
    8,
    method="full",
    sequence_length=2048,
    global_batch=64,
    precision="bf16_mixed",
    gradient_sync="last",
    layout=every_field(data=8, sharding="zero3", recompute="full"),
)
LARGE_SERVING: dict[str, Any] = serve("llama-3.3-70b", "h100-sxm", 1, weight_format="bf16")


def changed(case: dict[str, Any], **sections: dict[str, Any]) -> advisor.Estimate:
    merged = {**case, **{name: {**case.get(name, {}), **new} for name, new in sections.items()}}
    return advisor.estimate(merged)


def way(estimate: advisor.Estimate, start: str) -> Any:
    found = [item for item in estimate.ways_out if item.change.startswith(start)]
    assert len(found) == 1, [item.change for item in estimate.ways_out]
    return found[0]


def test_what_fits_needs_no_way_out() -> None:
    estimate = changed(LORA, hardware={"accelerator": "h100-sxm"})
    assert estimate.memory.fits
    assert estimate.ways_out == ()


@pytest.mark.parametrize(
    ("case", "start", "sections"),
    [
        (LORA, "train with QLoRA", {"workload": {"method": "qlora"}}),
        (WAITING, "sum gradients after each", {"workload": {"gradient_sync": "each"}}),
        (LORA, "more cards: 2x", {"hardware": {"count": 2}}),
        (LARGE_SERVING, "weights in w4a16", {"workload": {"weight_format": "w4a16"}}),
        (LARGE_SERVING, "more cards: 2x", {"hardware": {"count": 2}}),
    ],
)
def test_a_change_gives_what_estimate_gives_for_the_changed_case(
    case: dict[str, Any], start: str, sections: dict[str, dict[str, Any]]
) -> None:
    before, after = advisor.estimate(case), changed(case, **sections)
    assert not before.memory.fits
    assert after.memory.fits
    found = way(before, start)
    assert found.saved_bytes == pytest.approx(
        before.memory.needed_bytes - found.needed_bytes, rel=1e-9
    )
    if not start.startswith("train"):
        # The advisor may recompute less for QLoRA; the way out keeps the layout.
        assert found.needed_bytes == pytest.approx(after.memory.needed_bytes, rel=1e-9)


def test_the_smallest_sacrifice_comes_first() -> None:
    estimate = changed(
        {**LORA, "workload": {"kind": "fine_tuning", "method": "full"}},
        hardware={"accelerator": "h100-sxm", "count": 8},
        layout=every_field(data=8, micro_batch=4),
    )
    ranks = [SACRIFICES.index(item.sacrifice) for item in estimate.ways_out]
    assert ranks == sorted(ranks)
    assert ranks[0] == 0
    assert all(item.needed_bytes <= item.usable_bytes for item in estimate.ways_out)


def test_recomputation_alone_saves_memory_and_costs_up_to_half_the_time() -> None:
    estimate = changed(
        LORA, workload={"sequence_length": 1280}, layout={"micro_batch": 1, "recompute": "none"}
    )
    found = way(estimate, "recompute activations (full)")
    # Frozen weights: one pass forward, one backward, and at most one more forward.
    assert 1.0 < found.time_ratio <= 1.5


def test_the_terminal_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    show_estimate(new_console(width=100), advisor.estimate(LORA))
    text = capsys.readouterr().out
    assert "What would make it fit" in text
    assert "train with QLoRA: needs up to" in text


def test_the_host_can_hold_what_two_small_cards_cannot() -> None:
    """Weights 2, master 4, two moments of 4 and gradients of 2 bytes for half of the parameters,
    and 30 of 32 layers' 16-bit vectors of half a sequence; two layers' weights, embedding and head
    stay. At the high end of the range."""
    case = changed(
        LORA,
        workload={"method": "full"},
        hardware={"accelerator": "rtx-4090", "count": 2},
        layout=every_field(tensor=2, recompute="full"),
        host={"memory_bytes": 192e9},
    )
    high = load_calibration().intervals["training_memory"].high

    hosted = way(case, "keep optimizer states and weights and activations on the host")

    states, vectors = 16 * 8_030_261_248 / 2, 30 * 2 * 4096 * 4096 / 2
    stay = 2 * (2 * 218_112_000 + 2 * 128_256 * 4096) / 2
    assert hosted.host_bytes == pytest.approx(high * (states + vectors - stay), rel=0.01)
    assert hosted.needed_bytes <= hosted.usable_bytes


def test_a_change_says_how_long_the_run_takes_then() -> None:
    """A multiple of what does not run says nothing to a reader: "takes 0.036 times as long"."""
    found = changed(LORA)
    (qlora,) = [item for item in found.ways_out if item.change == "train with QLoRA"]
    work = {**LORA["workload"], "method": "qlora"}
    there = changed(LORA, workload=work)

    assert there.time is not None
    hours = duration(there.time.run_hours.expected * HOUR_S)
    assert way_out_sentence(qlora, found).endswith(f"; takes {hours}")


def test_fewer_requests_are_called_fewer_not_faster() -> None:
    many = {**LARGE_SERVING, "hardware": {"accelerator": "h100-sxm", "count": 4}}
    long = {**many["workload"], "input_tokens": 30_000, "concurrency": 64}
    case = {**many, "workload": long}
    estimate = advisor.estimate(case)
    [fewer] = [item for item in estimate.ways_out if item.sacrifice == "load"]

    sentence = way_out_sentence(fewer, estimate)
    assert sentence.endswith(" ms a token, and fewer run at once")


def test_limits_that_a_configuration_misses_are_told() -> None:
    serving = {**LARGE_SERVING, "hardware": {"accelerator": "h100-sxm", "count": 4}}
    limits = {"max_tpot_ms": 1, "max_ttft_ms": 1e6, "budget_usd": 100}
    missed = advisor.estimate({**serving, "limits": limits}).missed_limits

    assert len(missed) == 2
    assert missed[0].startswith("Misses the target for the time per token: ")
    assert missed[1].startswith("Over the budget: $")
    assert missed[1].endswith("a month, limit $100 a month.")
    assert advisor.estimate(serving).missed_limits == ()


def test_a_large_mixture_on_one_desktop_card_needs_memory_in_the_host_first() -> None:
    estimate = advisor.estimate(serve("deepseek-r1", "rtx-4090", concurrency=1))

    first = estimate.ways_out[0]
    assert first.change == "more host memory: 256 GB (--host-memory 256G)"
    # 671 billion parameters in 2 to 3 bits.
    assert 671e9 * 2 / 8 <= first.host_bytes <= 671e9 * 3 / 8
    # More of these cards, or one that holds it (GB300, 288 GB).
    assert [item.sacrifice for item in estimate.ways_out] == ["host", "cards", "cards"]


def test_instances_of_a_divided_card_serve_apart_and_never_train_together() -> None:
    """NVIDIA's MIG guide: no peer-to-peer between GPU instances."""
    case: dict[str, Any] = serve("llama-3.1-8b", "h100-sxm-mig-1g-20gb", 4)
    assert advisor.estimate(case).layout.data == 4

    case["workload"] = {"kind": "fine_tuning", "method": "qlora", "tokens": 1e6}
    with pytest.raises(advisor.InputError, match="no network connects"):
        advisor.estimate(case)


def test_changes_of_adapters_are_named_together_and_as_few_as_it_takes() -> None:
    free = tune("qwen2.5-32b", "rtx-4090", 1, method="qlora", sequence_length=12288)
    sure = way(advisor.estimate(free), "adapt attention alone")  # under the next usual tool
    assert sure.change.endswith("with Unsloth")
    assert sure.likely_bytes is None
    long = {"method": "qlora", "sequence_length": 9216}
    asked = tune("qwen2.5-32b", "rtx-4090", 1, software="trl", **long)
    tight = advisor.estimate(asked)
    assert not tight.memory.fits
    several = way(tight, "adapt attention alone")
    assert "--lora-rank 8" in several.change
    fewer = {"lora_targets": ["q", "k", "v", "o"], "lora_rank": 8}
    hosted = {"layout": (tight.layout.model_dump(mode="json") | {"offload": ["activations"]})}
    again = changed(asked, workload=fewer, **hosted)
    assert again.memory.fits
    assert again.memory.needed_bytes == pytest.approx(several.needed_bytes)
    likely = several.changed(likely_bytes=again.memory.total_bytes.expected)
    assert "may fit, with " in way_out_sentence(likely, tight)

    roomy = advisor.estimate(tune("qwen3-30b-a3b", "rtx-5090", 1, method="qlora"))
    alone = way(roomy, "adapt attention alone")
    assert alone.change == "adapt attention alone (--lora-targets q,k,v,o)"
    assert alone.likely_bytes is None


def test_more_cards_hold_many_requests_themselves_and_name_the_other_software() -> None:
    """5.1 million tokens of 70B (80 layers, 8 groups of 128, 16 bits) take 1.7 TB: 32 cards."""
    many = serve("llama-3.1-70b", "h100-sxm", 1, concurrency=4000)
    estimate = advisor.estimate(many)
    assert estimate.software is not None
    assert estimate.software.name == "llama-cpp"
    found = way(estimate, "more cards")
    assert found.change == "more cards: 32x NVIDIA H100 SXM5 80GB with vLLM"
    assert found.host_bytes == 0


def test_gpt_oss_fits_16_gb_as_its_trainer_publishes() -> None:
    """Unsloth publishes 14 GB for QLoRA of gpt-oss-20b (13.0 GiB), on attention alone: its notebook
    counts 3,981,312 trained parameters at rank 8 (unsloth.ai/blog/gpt-oss, issue 4193)."""
    short = {"sequence_length": 1024, "lora_rank": 8, "software": "unsloth"}
    found = advisor.estimate(tune("gpt-oss-20b", "rtx-4060-ti-16gb", 1, method="qlora", **short))
    assert found.memory.fits
    assert found.parameters.trainable == 3_981_312
    assert found.memory.total_bytes.expected == pytest.approx(14e9, rel=0.05)
    small = advisor.estimate(tune("gpt-oss-20b", "t4", 1, method="qlora", **short))
    assert all("adapt attention alone" not in each.change for each in small.ways_out)


@pytest.mark.parametrize(
    "asked",
    [
        "--model flux.1-dev --accelerator rtx-3060-12gb --weights bf16",
        "--model llama-3.3-70b --accelerator rtx-3060-12gb --host-memory 16GB",
        "--model llama-3.1-8b --accelerator rtx-3060-12gb --weights bf16 --gpu-layers 33",
        "--model qwen3-32b --accelerator rtx-4090 --weights q8_0 --gpu-layers 64 --concurrency 1",
        "--model qwen3-32b --accelerator rtx-4090 --gpu-layers 64 --input-tokens 30k",
        "--model llama-3.1-8b --accelerator jetson-orin-nano-super --weights q8_0",
    ],
)
def test_options_that_a_change_names_make_it_fit_when_they_are_typed(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*typed: str) -> dict[str, Any]:
        command = ["estimate", "--task", "serve", *asked.split(), *typed, "--json"]
        assert main(command) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    before = answer()
    changes = [item["change"] for item in before["ways_out"]]
    options = [re.findall(r"\((--[^)]+)\)", change) for change in changes]
    typed = [" ".join(found).split() for found in options if found]

    assert not before["memory"]["fits"]
    assert typed
    assert [words for words in typed if not answer(*words)["memory"]["fits"]] == []


def test_a_computer_that_nobody_rents_is_told_a_larger_one_of_its_maker() -> None:
    found = advisor.estimate(serve("llama-3.3-70b", "apple-m4", concurrency=1))

    assert any(item.change.startswith("a larger card: 1x Apple") for item in found.ways_out)


def test_no_board_is_the_larger_card_of_a_workstation() -> None:
    """A Jetson AGX Orin, a computer of its own, was told in place of an RTX A6000."""
    work = {"method": "qlora", "software": "unsloth", "sequence_length": 32768}
    found = advisor.estimate(tune("llama-3.3-70b", "rtx-a6000", 1, **work))
    [larger] = [each.change for each in found.ways_out if each.change.startswith("a larger card")]
    assert larger == "a larger card: 1x NVIDIA H100 PCIe 80GB"
