"""What options and files say becomes one case."""

import shlex
from pathlib import Path

import pytest

from advisor import api
from advisor.arguments.options import TASKS
from advisor.arguments.parser import build_parser
from advisor.commands.answering import case_mapping, model_source
from advisor.errors import InputError
from advisor.foundation.parsing import parse_latency
from advisor.nouns.case import Case, Hardware
from advisor.nouns.layout import ParallelLayout
from tests.command_line import CASE

ESTIMATE = ["--accelerator", "h100-sxm", "--count", "8"]


def spelled(arguments: str, base: dict[str, object] | None = None) -> dict[str, object]:
    return case_mapping(build_parser("0").parse_args(shlex.split(arguments)), base)


def test_training_arguments_spell_the_case() -> None:
    assert spelled(
        "recommend --model llama-3.1-8b --task qlora --tokens 50M --sequence 4k "
        "--global-batch 64 --precision bf16-mixed --optimizer adamw-8bit --software liger "
        "--lora-rank 32 --lora-targets q,v "
        "--deadline 1d12h --budget $1.5k --provider AWS --provider Gcore "
        "--region us-east-1 --accelerator l40s --owned rtx-4090:2 --owned a10 --spot "
        "--max-accelerators 64 --objective best-value"
    ) == {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {
            "kind": "fine_tuning",
            "method": "qlora",
            "tokens": 50e6,
            "sequence_length": 4096,
            "global_batch": 64,
            "precision": "bf16_mixed",
            "optimizer": "adamw_8bit",
            "software": "liger",
            "lora_rank": 32,
            "lora_targets": ["q,v"],
        },
        "limits": {
            "deadline_hours": 36.0,
            "budget_usd": 1500.0,
            "providers": ["AWS", "Gcore"],
            "regions": ["us-east-1"],
            "accelerators": ["l40s"],
            "owned": [{"accelerator": "rtx-4090", "count": 2}, {"accelerator": "a10", "count": 1}],
            "max_accelerators": 64,
            "price_kind": "spot",
        },
        "objective": "best_value",
    }


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("80", 80), ("80ms", 80), ("0.08s", 80), ("1 min", 60_000), ("12.5 tokens/s", 80)],
)
def test_a_latency_is_a_time_or_a_speed(text: str, milliseconds: float) -> None:
    assert parse_latency(text, field="--max-tpot-ms") == pytest.approx(milliseconds)


def test_serving_arguments_spell_the_case() -> None:
    assert spelled(
        "estimate --model 70e9 --task serve --input-tokens 2k --output-tokens 500 "
        "--concurrency 32 --weights fp8 --kv-cache fp8 --max-ttft-ms 500 --max-tpot-ms 50.5 "
        "--accelerator h100-sxm --count 8 --tensor 4"
    ) == {
        "model": {"parameters": 70e9},
        "workload": {
            "kind": "serving",
            "input_tokens": 2048,
            "output_tokens": 500,
            "concurrency": 32,
            "weight_format": "fp8",
            "kv_cache_format": "fp8",
        },
        "limits": {"max_ttft_ms": 500.0, "max_tpot_ms": 50.5},
        "hardware": {"accelerator": "h100-sxm", "count": 8},
        "layout": {"tensor": 4},
    }


@pytest.mark.parametrize(
    ("arguments", "hardware", "layout"),
    [
        # Fields that nobody stated are left to the search.
        ("--count 16 --tensor 2 --pipeline 4", 16, {"tensor": 2, "pipeline": 4}),
        ("--tensor 2 --data 4", 8, {"tensor": 2, "data": 4}),
        ("--context 2 --sharding zero3", 2, {"context": 2, "sharding": "zero3"}),
        ("--tensor 8", 8, {"tensor": 8}),
        # Nothing is guessed where it does not come out even: the engine explains it.
        ("--count 8 --tensor 3", 8, {"tensor": 3}),
    ],
)
def test_a_layout_without_a_count_implies_one(
    arguments: str, hardware: int, layout: dict[str, object]
) -> None:
    spelt = spelled(f"estimate --model 7B --task pretrain --accelerator a100 {arguments}")
    case = api.load_case(spelt)

    assert case.hardware == Hardware(accelerator="a100", count=hardware)
    assert case.layout == ParallelLayout.model_validate(layout)
    assert case.layout.model_fields_set == layout.keys()
    assert case.model_dump()["layout"] == case.layout.model_dump(exclude_unset=True)
    # Nouns built in Python are completed as mappings are.
    hardware_given = Hardware.model_validate(spelt["hardware"])
    layout_given = ParallelLayout.model_validate(spelt["layout"])
    again = Case(
        model=case.model, workload=case.workload, hardware=hardware_given, layout=layout_given
    )
    assert again == case


def test_flags_change_only_their_fields_of_a_file() -> None:
    case = spelled("recommend case.yaml --tokens 10M --budget 20", CASE)

    assert case == {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 10e6},
        "limits": {"deadline_hours": 24, "budget_usd": 20.0},
    }


def test_another_kind_of_task_starts_the_workload_anew() -> None:
    assert spelled("recommend case.yaml --task finetune", CASE)["workload"] == {
        "kind": "fine_tuning",
        "method": "full",
        "tokens": 50e6,
    }
    assert spelled("recommend case.yaml --task serve", CASE)["workload"] == {"kind": "serving"}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("llama-3.1-8b", {"preset": "llama-3.1-8b"}),
        ("mistralai/Mistral-7B-v0.1", {"hub": "mistralai/Mistral-7B-v0.1"}),
        ("01-ai/Yi-34B", {"hub": "01-ai/Yi-34B"}),
        ("7e9", {"parameters": 7e9}),
        ("7B", {"parameters": 7e9}),
        ("0.5b", {"parameters": 0.5e9}),
        ("some/config.json", {"config": "some/config.json"}),
    ],
)
def test_a_model_is_named_in_many_ways(text: str, source: dict[str, object]) -> None:
    assert model_source(text) == source


def test_a_folder_with_a_config_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")

    assert model_source(str(tmp_path)) == {"config": str(tmp_path / "config.json")}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_a_workload(task: str) -> None:
    case = api.load_case(spelled(f"recommend --model 7B --task {task}"))

    assert case.workload.kind == TASKS[task].workload["kind"]


def test_a_missing_option_value_is_named() -> None:
    with pytest.raises(InputError, match="hardware is missing") as caught:
        spelled("estimate case.yaml", CASE)
    assert caught.value.field == "hardware.accelerator"
