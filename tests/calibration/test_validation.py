"""Recognising tables, bad cells, resolving models, and the arithmetic of the summary."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor import cli
from advisor.architecture.weights.tensor_table import read_start
from advisor.calibration.scoring.report import ValidationRow, summarise
from advisor.calibration.scoring.validation import KINDS, recognise, validate
from advisor.errors import InputError

PEAK = {
    "id": "a",
    "model": "Llama-3.1-8B",
    "seq_len": "2048",
    "micro_batch": "1",
    "mode": "pure_bf16",
    "ckpt": "1",
    "optimizer": "adamw_fused",
    "peak_total": "64e9",
}
RUN = {
    "id": "r",
    "workload": "pretraining",
    "architecture_key": "meta-llama__Llama-3.1-8B",
    "accelerator": "h100-sxm",
    "num_accelerators": "8",
    "precision": "bf16_mixed",
    "optimizer": "adamw",
    "micro_batch": "1",
    "global_batch": "64",
    "sequence_length": "4096",
    "data_sharding": "zero3",
    "recompute": "full",
    "framework": "torchtitan",
    "tokens_per_s_per_accelerator": "6000",
    "primary_quantity": "tokens_per_s_per_accelerator",
}


def write(path: Path, *rows: dict[str, str]) -> Path:
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def row(id: str, group: str, measured: float, expected: float, width: float = 0.1) -> ValidationRow:
    return ValidationRow(
        id=id,
        quantity="x",
        regime="r",
        group=group,
        source="",
        measured=measured,
        low=expected * (1 - width),
        expected=expected,
        high=expected * (1 + width),
    )


def test_errors_are_averaged_within_groups_first() -> None:
    """Group one: +10 and +30 % (20 %); group two: -50 %. By hand."""
    rows = [row("a", "one", 100, 110), row("b", "one", 100, 130), row("c", "two", 100, 50)]

    of_regime, of_all = sorted(summarise(rows), key=lambda each: each.regime == "all")

    assert (of_regime.n, of_regime.groups) == (3, 2)
    assert of_regime.median_abs_pct == pytest.approx(35)
    assert of_regime.bias_pct == pytest.approx(-15)
    # Ranges reach 10 % to each side: 99 to 121 holds 100, the others do not. (1/2 + 0) / 2.
    assert of_regime.coverage_pct == pytest.approx(25)
    assert of_regime.each_row.median_abs_pct == pytest.approx(30)
    assert of_all.median_abs_pct == of_regime.median_abs_pct


def test_json_has_what_the_contract_names(tmp_path: Path) -> None:
    report = validate(write(tmp_path / "t.csv", PEAK, {**PEAK, "id": "b", "mode": "fp7"}))

    content = json.loads(report.to_json())

    assert {"id", "quantity", "measured", "low", "expected", "high", "error_pct", "covered"} <= set(
        content["rows"][0]
    )
    assert {"n", "median_abs_pct", "p90_abs_pct", "bias_pct", "coverage_pct"} <= set(
        content["summary"][0]
    )
    assert content["rows"][0]["error_pct"] == pytest.approx(
        100 * (content["rows"][0]["expected"] / 64e9 - 1)
    )
    assert content["skipped"][0]["id"] == "b"
    assert "mode" in content["skipped"][0]["reason"]


def test_kinds_do_not_hide_each_other() -> None:
    for kind in KINDS:
        assert recognise(kind.columns) is kind


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("num_accelerators", "eight"),
        ("num_accelerators", "nan"),
        ("num_accelerators", "-8"),
        ("num_accelerators", "0"),
        ("num_accelerators", "1e300"),
        ("num_accelerators", "999999"),
        ("global_batch", "1.5"),
        ("sequence_length", ""),
        ("micro_batch", "inf"),
        ("tensor_parallel", "3"),
        ("accelerator", "h1000"),
        ("architecture_key", "../../secret"),
        ("precision", "bf17"),
        ("optimizer", "magic"),
        ("data_sharding", "zero4"),
        ("recompute", "some"),
        ("workload", "dreaming"),
        ("tokens_per_s_per_accelerator", ""),
        ("tokens_per_s_per_accelerator", "0"),
    ],
)
def test_a_bad_cell_is_told_and_harms_no_other_row(column: str, text: str, tmp_path: Path) -> None:
    good = {"tensor_parallel": "1", **RUN}
    report = validate(write(tmp_path / "t.csv", good, {**good, "id": "bad", column: text}))

    assert [each.id for each in report.rows] == ["r"]
    assert [each.id for each in report.skipped] == ["bad"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"id\n1\n", b"a,b\n1,2\n", b"\xff\xfe\x00", b"id,model\n" + b"\x00" * 9, b'"' * 3],
)
def test_a_hostile_file_gets_a_sentence(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)

    assert cli.main(["validate", str(path)]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gpu-advisor: error: the table ")
    assert captured.err.count("\n") == 1


def test_a_name_in_a_table_controls_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of its rows printed marks that turn the direction of writing, and escapes."""
    path = write(
        tmp_path / "t.csv", RUN | {"id": "x\x1b[2J\u202e\x9b2Jy"}, RUN | {"id": "z", "tokens": ""}
    )

    for arguments in ([], ["--json"]):
        assert cli.main(["validate", str(path), *arguments]) == 0
        assert not {"\x1b", "\u202e", "\x9b"} & set(capsys.readouterr().out)


def test_missing_file_and_missing_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        validate(tmp_path / "none.csv")
    with pytest.raises(InputError, match="not a folder"):
        validate(write(tmp_path / "t.csv", RUN), tmp_path / "none")


def test_a_model_is_found_in_the_folder_of_configurations(tmp_path: Path) -> None:
    """Half of Llama 3.1 8B's layers: twice the tokens per second, about."""
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
    }
    (tmp_path / "some__half.json").write_text(json.dumps(config), encoding="utf-8")
    half = {**RUN, "id": "half", "architecture_key": "some__half"}
    table = write(tmp_path / "t.csv", RUN, half)

    whole_row, half_row = advisor.validate(table, tmp_path).rows

    assert half_row.expected / whole_row.expected == pytest.approx(1.9, abs=0.15)
    assert [each.id for each in advisor.validate(table).skipped] == ["half"]


def test_a_folder_of_configurations_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was listed for every row: 20,000 files and 300 rows took 50 s."""
    listed: list[Path] = []
    scandir = os.scandir

    def counted(folder: Path) -> Any:
        listed.append(folder)
        return scandir(folder)

    configs = tmp_path / "configs"
    configs.mkdir()
    monkeypatch.setattr(os, "scandir", counted)
    rows = [PEAK | {"id": f"row {number}", "model": f"unknown-{number}"} for number in range(5)]
    report = validate(write(tmp_path / "t.csv", *rows), configs)

    assert len(report.skipped) == 5
    assert listed.count(configs) == 1


def test_a_configuration_is_read_once_for_all_rows_of_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken one as well; a changed file is read again."""
    taken: list[Path] = []

    def counted(path: Path) -> bytes:
        taken.append(path)
        return read_start(path)

    monkeypatch.setattr("advisor.calibration.tables.context.read_start", counted)
    good, broken = tmp_path / "org__good.json", tmp_path / "org__broken.json"
    shape = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 4096}
    good.write_text(json.dumps(shape | {"vocab_size": 1000}))
    broken.write_text(json.dumps(shape | {"n_embd": -1}))
    rows = [
        PEAK | {"id": f"{name} {number}", "model": name, "architecture_key": f"org__{name}"}
        for number in range(5)
        for name in ("good", "broken")
    ]
    table = write(tmp_path / "t.csv", *rows)
    first = validate(table, tmp_path)
    assert sorted(taken) == [broken, good]
    assert {item.id.split()[0] for item in first.rows} == {"good"}
    assert {item.id.split()[0] for item in first.skipped} == {"broken"}

    broken.write_text(json.dumps(shape | {"vocab_size": 2000}))
    assert not validate(table, tmp_path).skipped
    assert taken.count(broken) == 2
    assert taken.count(good) == 1


def test_a_folder_of_endless_configurations_is_refused(tmp_path: Path) -> None:
    for number in range(10_001):
        (tmp_path / f"org__{number}.json").touch()

    with pytest.raises(InputError, match="more than 10,000 files"):
        validate(write(tmp_path / "t.csv", PEAK), tmp_path)


def test_shape_columns_stand_in_for_a_model(tmp_path: Path) -> None:
    """The row's own columns describe Llama 3.1 8B: same prediction as by its name."""
    shape = {
        "architecture_key": "",
        "family": "transformer",
        "num_hidden_layers": "32",
        "hidden_size": "4096",
        "num_attention_heads": "32",
        "num_key_value_heads": "8",
        "head_dim": "128",
        "intermediate_size": "14336",
        "gated_mlp": "1",
        "vocab_size": "128256",
    }
    named = {**RUN, **dict.fromkeys(shape, ""), "architecture_key": RUN["architecture_key"]}
    first, second = validate(write(tmp_path / "t.csv", named, {**RUN, **shape})).rows

    assert first.expected == pytest.approx(second.expected, rel=1e-6)


def test_the_terminal_tells_errors_and_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    table = write(tmp_path / "t.csv", PEAK, {**PEAK, "id": "odd", "model": "Nobody-1B"})

    assert cli.main(["validate", str(table)]) == 0

    shown = capsys.readouterr().out
    assert "1 rows predicted, 1 not" in shown
    assert "peak_total" in shown
    assert "odd" in shown
