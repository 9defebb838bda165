"""A report travels as JSON and is trusted in nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.errors import InputError
from advisor.probe.report import MAX_REPORT_BYTES, ProbeReport, parse_report, read_report
from tests.probe.fakes import FakeBackend, h200, probed


@pytest.fixture(scope="module")
def report() -> ProbeReport:
    return probed(FakeBackend(h200()), sizes=((8, 64, 64), (64, 64, 64)), time_limit_s=2.0)


def test_it_comes_back_as_it_went(report: ProbeReport, tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    path.write_text(report.to_json())

    assert read_report(path) == report


def changed(report: ProbeReport, **fields: Any) -> bytes:
    return json.dumps(json.loads(report.to_json()) | fields).encode()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"command": "rm -rf /"}, "command"),
        ({"devices": []}, "devices"),
        ({"created": "yesterday"}, "created"),
        ({"problems": ["x" * 301]}, "problems"),
        ({"elapsed_s": -1}, "elapsed_s"),
    ],
)
def test_a_wrong_field_is_named(report: ProbeReport, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        parse_report(changed(report, **fields))


@pytest.mark.parametrize(
    "content",
    [b"", b"not json", b"[1, 2]", b"\xff\xfe", b"{" * 100_000, b" " * (MAX_REPORT_BYTES + 1)],
)
def test_what_is_no_report_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="report"):
        parse_report(content)


@pytest.mark.parametrize(
    ("honest", "hostile", "named"),
    [
        ('"format":"bf16"', '"format":"bf17"', "format"),
        ('"name":"NVIDIA H200"', '"name":"\\u001b[2J"', "name"),
        ('"m":8', '"m":8000000000', "m"),
        ('"kind":"copy"', '"kind":"exec"', "kind"),
    ],
)
def test_a_hostile_value_is_refused(
    report: ProbeReport, honest: str, hostile: str, named: str
) -> None:
    text = report.to_json(indent=None)
    assert honest in text

    with pytest.raises(InputError, match=rf"\.{named}: "):
        parse_report(text.replace(honest, hostile).encode())


@pytest.mark.parametrize("rate", ["NaN", "Infinity", "0", "-1", "1e-300"])
def test_a_time_is_a_positive_number(report: ProbeReport, rate: str) -> None:
    text = report.to_json(indent=None)
    at = text.index('"median_s":') + len('"median_s":')
    end = text.index(",", at)

    with pytest.raises(InputError, match="median_s"):
        parse_report((text[:at] + rate + text[end:]).encode())


def test_a_missing_file_is_a_mistake_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_report(tmp_path / "none.json")
