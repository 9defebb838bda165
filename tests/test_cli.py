"""The command line: messages, exit codes, and the same answers as Python."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from advisor import api, cli
from advisor.errors import CatalogError, InputError
from advisor.nouns.case import Case
from tests.command_line import CASE, give_input, process

ESTIMATE = ["--accelerator", "h100-sxm", "--count", "8"]


@pytest.fixture(autouse=True)
def _narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def case_file(tmp_path: Path) -> str:
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump(CASE), encoding="utf-8")
    return str(path)


# --- The same answers as Python --------------------------------------------------------------


def test_recommend_gives_the_same_json_as_python(
    case_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["recommend", case_file, "--json"]) == 0

    expected = api.recommend(api.load_case(CASE)).to_json()
    assert json.loads(capsys.readouterr().out) == json.loads(expected)


def test_estimate_gives_the_same_json_as_python(
    case_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["estimate", case_file, *ESTIMATE, "--json"]) == 0

    case = {**CASE, "hardware": {"accelerator": "h100-sxm", "count": 8}}
    expected = api.estimate(api.load_case(case), curves=True).to_json()
    assert json.loads(capsys.readouterr().out) == json.loads(expected)


def test_a_case_comes_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_input(monkeypatch, json.dumps(CASE).encode())

    assert cli.main(["estimate", "-", *ESTIMATE, "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["parameters"]["total"] == 8_030_261_248


def test_the_schema_is_that_of_the_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema"]) == 0

    assert json.loads(capsys.readouterr().out) == Case.model_json_schema()


def test_presets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["presets"]) == 0
    lines = capsys.readouterr().out.split()
    assert cli.main(["presets", "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == lines
    assert {"llama-3.1-8b", "llama-3.1-70b", "deepseek-v3"} <= set(lines)
    assert cli.main(["presets", "--takes", "image"]) == 0
    images = set(capsys.readouterr().out.split())
    assert "resnet-50" in images
    assert "llama-3.1-8b" not in images
    for part in ("Llama 3.1 405B", "meta-llama/Llama-3.1-405B"):
        assert cli.main(["presets", part]) == 0
        assert capsys.readouterr().out.split()[0] == "llama-3.1-405b"
    assert cli.main(["presets", "bge", "--takes", "image"]) == 0
    assert not capsys.readouterr().out.split()
    assert cli.main(["presets", "lama-31-8b"]) == 2
    assert "llama-3.1-8b" in capsys.readouterr().err


def test_tasks_are_known_by_any_of_their_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    case = ["estimate", "--model", "llama-3.2-1b", "--accelerator", "h100-sxm", "--json"]
    assert cli.main([*case, "--task", "Fine-Tune"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"]["trainable"] == found["parameters"]["total"]


def test_compare_shows_the_datasheet(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "h100-sxm", "rtx-4090", "--all"]) == 0

    rows = {
        cells[0]: cells[1:]
        for line in capsys.readouterr().out.splitlines()
        if len(cells := re.split(r" {2,}", line.strip())) == 3
    }
    # NVIDIA H100 datasheet (SXM) and Ada GPU architecture whitepaper (RTX 4090), dense.
    assert rows["Bandwidth"] == ["3,350 GB/s", "1,008 GB/s"]
    assert rows["bf16 rate"] == ["989.4 TFLOPS", "165.2 TFLOPS"]
    assert rows["Memory, marketed"] == ["80 GB", "24 GB"]
    assert rows["Board power"] == ["700 W", "450 W"]


def test_compare_in_json_has_offer_and_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "h100-sxm", "rtx-4090", "--json"]) == 0

    h100, consumer = json.loads(capsys.readouterr().out)["cards"]
    offers = api.load_catalog().offers_for("h100-sxm")
    prices = [
        offer.on_demand_usd_per_hour / offer.accelerators
        for offer in offers
        if offer.on_demand_usd_per_hour
    ]
    assert h100["usd_per_hour"] in prices
    assert h100["offer"]["accelerator"] == "h100-sxm"
    assert h100["flops_per_s_per_usd_per_hour"] * h100["usd_per_hour"] == pytest.approx(989.4e12)
    assert consumer["bytes_per_s_per_usd"] == pytest.approx(1.008e12 / 2500)


def test_differences_hide_equal_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "h100-sxm", "h200-sxm", "--differences"]) == 0

    shown = capsys.readouterr().out
    assert "Bandwidth" in shown
    assert "Vendor" not in shown
    assert "bf16 rate" not in shown


# --- Mistakes --------------------------------------------------------------------------------

MODEL = "recommend --model llama-3.1-8b"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", r"required: COMMAND; see 'gpu-advisor --help'"),
        ("frobnicate", r"invalid choice: 'frobnicate' \(choose from"),
        ("recommend", r"the model is missing: .* Add --model llama-3\.1-8b\."),
        (MODEL, r"the task is missing: .* Add --task lora\."),
        (f"{MODEL} --task xyz", r"argument --task: invalid choice: 'xyz' \(choose from"),
        (f"{MODEL} --task dpo", r"choice: 'dpo' \(perhaps lora --preference dpo\)"),
        (f"{MODEL} --task Inference", r"choice: 'Inference' \(perhaps serve\)"),
        ("serving", r"invalid choice: 'serving' \(choose from"),
        (f"{MODEL} --task lora --tokens many", r"--tokens is not an amount: got 'many'; "),
        (f"{MODEL} --task lora --deadline 24", r"--deadline is not a time: .*like 24h or 24d\."),
        (f"{MODEL} --task lora --budget 5EUR", r"--budget is not a sum of money: "),
        (f"{MODEL} --task lora --owned a10:0", r"--owned is not an accelerator with a number"),
        (f"{MODEL} --task lora --top 0", r"--top is not a positive whole number: got '0'"),
        (f"{MODEL} --task lora --tokens 1e16", r"workload\.tokens is .*: at most 1e\+15\. "),
        (f"{MODEL} --task lora --lora-rank 9k", r"workload\.lora_rank is .*: at most 4,096\. "),
        (f"{MODEL} --task lora --dead 3h", r"unknown option --dead \(perhaps --deadline\); see"),
        (f"{MODEL} --task serve --users 9", r"option --users \(perhaps --concurrency\); see"),
        (f"{MODEL} --task serve --min-tokens-per-second 9", r"\(perhaps --max-tpot-ms\); see"),
        (f"{MODEL} --task lora --num-gpus 9", r"option --num-gpus \(perhaps --max-accelerators\)"),
        (f"{MODEL} --task serve --tensor_parallel_size=2", r"=2 \(perhaps --tensor\); see"),
        (f"{MODEL} --task serve --xyzzy", r"option --xyzzy; see 'gpu-advisor recommend --help'"),
        (f"{MODEL} --task lora --buy-budget 9", r"--buy-budget \(an option of own\); see"),
        (f"{MODEL} --task lora --params 7B", r"option --params \(perhaps --model\); see"),
        ("fits --card t4", r"option --card \(perhaps --accelerator\)"),
        ("fits t4", r"unknown argument t4 \(perhaps --accelerator\); see"),
        (f"{MODEL} --task serve --tokens 5M", r"--tokens does not belong to this task: .*qlora"),
        (f"{MODEL} --task pretrain --lora-rank 8", r"--lora-rank does not belong to this task"),
        (f"{MODEL} --task finetune --lora-rank 8", r"--lora-rank does not .*--task lora, qlora"),
        (
            f"{MODEL} --task lora --interruptions 0.2",
            r"--interruptions does nothing without --spot",
        ),
        (
            "own --model llama-3.1-8b --task lora --slots 4",
            r"--slots does nothing without --buy-budget: .* Add --buy-budget",
        ),
        (
            "own --model llama-3.1-8b --task serve --accelerator l40s --budget 9",
            r"--budget chooses hardware, and yours is given",
        ),
        (
            f"{MODEL} --task lora --owned a10 --provider AWS",
            r"limits\.providers does not apply with limits\.owned: .*got 'AWS'",
        ),
        (
            f"{MODEL} --task lora --owned a10 --spot",
            r"price_kind .* limits\.owned: nothing is rented",
        ),
        (
            "estimate --model llama-3.1-8b --task serve --accelerator l40s --recompute full",
            r"layout\.recompute does not apply to serving: got 'full'",
        ),
        (
            "recommend --model resnet-50 --task serve --input-tokens 2k",
            r"workload\.input_tokens does not apply to resnet-50, which takes images: got 2048",
        ),
        (
            "recommend --model resnet-50 --task serve --kv-cache fp8",
            r"workload\.kv_cache_format does not apply to resnet-50",
        ),
        (
            "estimate --model resnet-50 --task pretrain --accelerator l40s --attention eager",
            r"workload\.attention does not apply to resnet-50, which has none",
        ),
        (
            "estimate --model t5-small --task pretrain --accelerator l40s --image-size 99",
            r"image_size does not apply to t5-small, which takes whole samples: .*sequence_length",
        ),
        (
            "estimate --model lstm-4x1024 --task pretrain --accelerator l40s --tensor 2",
            r"tensor does not suit lstm-4x1024: .*1: it has no attention heads to divide",
        ),
        (f"{MODEL} --task lora --precision bf17", r"precision .*got 'bf17'; .*bf16_mixed"),
        (
            f"{MODEL} --task lora --tokens 1e30",
            r"tokens is not usable: got 1e\+30; allowed: at most 1e\+15",
        ),
        (
            f"{MODEL} --task serve --accelerator rtx-3090=2",
            r"got .rtx-3090=2.; .*--count 2 \(hardware.count\); of owned cards, rtx-3090:2",
        ),
        (f"{MODEL} --task lora --accelerator h1000", r"unknown accelerator: got 'h1000'; .*h100"),
        (f"{MODEL} --task lora --provider Nobody", r"provider: got 'Nobody'; allowed: .*AWS"),
        ("recommend --model nope --task lora", r"got 'nope'"),
        ("recommend --model nope.json --task lora", r"config file cannot be read"),
        ("recommend nowhere.yaml", r"the case file cannot be read .*got 'nowhere\.yaml'"),
        ("estimate --model 7B --task lora", r"the hardware is missing: .*--accelerator h100-sxm"),
        ("compare h100-sxm nothing-like-it", r"unknown accelerator: got 'nothing-like-it'"),
        ("compare a10 a10", r"got 'a10 twice'; allowed: 1 to 12 different cards"),
        ("web --port 99999", r"--port is too large: got 99999; allowed: 1 to 65535"),
        ("web --port http", r"--port is not a positive whole number: got 'http'"),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(shlex.split(arguments)) == 2

    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert re.match(f"gpu-advisor: error: .*{message}", shown.err), shown.err


@pytest.mark.parametrize("source", [-math.inf, None, 5, b"x", [1, 2]])
def test_python_refuses_a_case_that_is_neither_path_nor_mapping(source: object) -> None:
    with pytest.raises(InputError, match="the case is not a mapping"):
        api.load_case(source)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the case is not a mapping"),
        (b"- 1\n- 2\n", "the case is not a mapping"),
        (b"model: {preset: [", r"not valid YAML or JSON at line 2"),
        (
            b"model: !!python/object/apply:os.getcwd []",
            "holds the tag python/object/apply:os.getcwd at line 1",
        ),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"#" * 1_000_001, "too large: got 'more than 1,000,000 bytes'"),
        (b"[" * 100_000, "holds more than 60 levels of nesting at line 1"),
        (b"{}", "the model is missing: .* --model"),
        (b"{model: {preset: x}, workload: {kind: dance}}", "workload is not usable"),
        (b"{model: {preset: x, hub: a/b}, workload: {kind: serving}}", "exactly one of preset"),
        (b"{model: {}, workload: {kind: serving}}", "exactly one of preset"),
        (b"{model: {parameters: .nan}, workload: {kind: serving}}", "finite number"),
        (
            b"{model: {parameters: 7e9}, workload: {kind: serving, speed: 3}}",
            "speed is not a known",
        ),
        (
            b"{model: {parameters: 7e9}, workload: {kind: serving}, limits: {budget_usd: -1}}",
            "budget_usd is not usable: got -1; allowed: at least 0.01",
        ),
    ],
)
def test_a_broken_case_is_one_sentence(
    content: bytes,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    give_input(monkeypatch, content)

    assert cli.main(["recommend", "-"]) == 2

    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert len(shown.err) < 1000
    assert re.search(message, shown.err), shown.err


def fail_with(error: BaseException) -> object:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_broken_installation_has_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = CatalogError(file="x.yaml", entry="y", field="z", value=1, remedy="Restore it.")
    monkeypatch.setattr(api, "load_catalog", fail_with(broken))

    assert cli.main(["compare", "a10"]) == 1
    assert capsys.readouterr().err == (
        "gpu-advisor: error: x.yaml: entry 'y', field 'z': got 1. Restore it.\n"
    )


def test_an_interrupt_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api, "load_catalog", fail_with(KeyboardInterrupt()))

    assert cli.main(["compare", "a10"]) == 130
    assert capsys.readouterr().err == ""


def test_a_rejected_noun_inside_the_engine_is_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch, case_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = {"model": {"preset": "x"}}
    monkeypatch.setattr(api, "recommend", lambda _, **how: Case.model_validate(unfinished))

    assert cli.main(["recommend", case_file]) == 2
    assert capsys.readouterr().err.startswith("gpu-advisor: error: workload is missing: ")


def test_a_defect_of_the_program_is_a_sentence_and_its_traceback_on_demand(
    monkeypatch: pytest.MonkeyPatch, case_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api, "recommend", fail_with(ValueError("lost the thread")))
    monkeypatch.delenv(cli.DEBUG, raising=False)

    assert cli.main(["recommend", case_file]) == cli.BROKEN
    shown = capsys.readouterr()
    assert "lost the thread" in shown.err
    assert cli.DEBUG in shown.err
    assert "Traceback" not in shown.err

    monkeypatch.setenv(cli.DEBUG, "1")
    with pytest.raises(ValueError, match="lost the thread"):
        cli.main(["recommend", case_file])


@pytest.mark.parametrize("command", [["schema"], ["compare", "t4", "l4"]])
def test_a_reader_that_leaves_is_no_error(command: list[str]) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "advisor", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    complaint = writer.stderr.read()
    writer.stderr.close()

    assert (writer.wait(timeout=60), complaint) == (141, "")


def test_a_narrow_encoding_loses_characters_not_the_answer() -> None:
    done = process(
        "recommend", "--model", "llama-3.1-8b", "--task", "lora", PYTHONIOENCODING="ascii"
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\(\d+\?\d+\)", done.stdout)


def test_web_becomes_streamlit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[str, Sequence[str]]] = []
    monkeypatch.setattr(os, "execv", lambda path, words: started.append((path, words)))
    monkeypatch.setattr("advisor.foundation.resources.app_path", lambda: tmp_path / "app.py")

    assert cli.main(["web", "--port", "9000", "--no-browser"]) == 0

    words = [sys.executable, "-m", "streamlit", "run", str(tmp_path / "app.py")]
    words += ["--server.port", "9000", "--server.headless", "true"]
    assert started == [(sys.executable, words)]


def test_pruning_and_a_stack_of_layers(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3.1 8B without three tenths, and a perceptron of one's own: counted by hand."""
    case = ["--task", "pretrain", "--accelerator", "h100-sxm", "--count", "8", "--json"]
    assert cli.main(["estimate", "--model", "llama-3.1-8b", "--pruning", "0.3", *case]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["total"] == 6_002_315_264
    path = Path(__file__).parent / "data" / "stacks" / "perceptron.yaml"
    assert cli.main(["estimate", "--model", str(path), *case]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["total"] == 535_818


def test_differences_in_json_have_the_differing_rows_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["compare", "h100-sxm", "h200-sxm", "--differences", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["accelerators"] == ["h100-sxm", "h200-sxm"]
    rows = {row["title"]: row["values"] for row in found["rows"]}
    assert rows["Bandwidth"] == ["3,350 GB/s", "4,800 GB/s"]
    assert not {"Vendor", "bf16 rate"} & set(rows)


def test_lengths_in_k_are_powers_of_two_and_amounts_of_data_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = "--model llama-3.1-8b --task lora --tokens 512K --sequence 32K"
    assert cli.main(["recommend", *work.split(), "--accelerator", "h100-sxm"]) == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert "on 512,000 tokens in sequences of 32,768" in shown
