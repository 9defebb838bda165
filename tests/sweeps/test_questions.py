"""Grids and tables become cases; whatever else they hold is refused in a sentence."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from advisor.errors import InputError
from advisor.sweeps.questions import MAX_ROWS, Questions, read_grid
from advisor.sweeps.sweep import questions_of

MODEL = {"preset": "llama-3.1-8b"}


def cases(questions: Questions) -> list[Any]:
    return [question.case for question in questions.read()]


def test_every_combination_is_a_case_and_the_last_axis_varies_fastest() -> None:
    grid = read_grid(
        {
            "model": MODEL,
            "workload": {"kind": "serving", "concurrency": [1, 8]},
            "hardware": {"accelerator": ["l40s", "h100-sxm"], "count": 2},
        }
    )

    assert grid.count == 4
    assert grid.columns == ("workload.concurrency", "hardware.accelerator")
    assert [
        (case["workload"]["concurrency"], case["hardware"]["accelerator"]) for case in cases(grid)
    ] == [(1, "l40s"), (1, "h100-sxm"), (8, "l40s"), (8, "h100-sxm")]
    assert cases(grid)[0]["hardware"]["count"] == 2


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"from": 1024, "to": 8192, "factor": 2}, (1024, 2048, 4096, 8192)),
        ({"from": 1, "to": 8, "step": 3}, (1, 4, 7)),
        ({"from": 0.1, "to": 0.3, "step": 0.1}, (0.1, 0.2, 0.3)),
        ({"from": "1e6", "to": 1e8, "factor": 10}, (1e6, 1e7, 1e8)),
        ({"from": 5, "to": 5, "step": 1}, (5,)),
    ],
)
def test_a_range_has_both_ends(given: dict[str, Any], values: tuple[float, ...]) -> None:
    grid = read_grid({"workload": {"tokens": given}})

    assert grid.axes["workload.tokens"] == pytest.approx(values)


def test_a_field_that_is_a_list_varies_as_a_list_of_lists() -> None:
    one = read_grid({"limits": {"providers": ["AWS", "Gcore"]}})
    two = read_grid({"limits": {"providers": [["AWS"], ["Gcore", "Lambda"]]}})

    assert one.count == 1
    assert cases(one)[0]["limits"]["providers"] == ["AWS", "Gcore"]
    assert [case["limits"]["providers"] for case in cases(two)] == [["AWS"], ["Gcore", "Lambda"]]


def test_a_whole_section_varies() -> None:
    grid = read_grid({"model": [MODEL, {"parameters": 7e9}], "objective": ["cheapest", "fastest"]})

    assert grid.columns == ("model.preset", "model.parameters", "objective")
    assert [case["model"] for case in cases(grid)] == [MODEL, MODEL] + [{"parameters": 7e9}] * 2


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"tokens": []}, "no values"),
        ({"tokens": {"from": 1, "to": 2}}, "exactly one of step and factor"),
        ({"tokens": {"from": 1, "to": 2, "step": 1, "factor": 2}}, "exactly one"),
        ({"tokens": {"from": 1, "to": 2, "step": 0}}, "step above 0"),
        ({"tokens": {"from": 0, "to": 2, "factor": 2}}, "from above 0"),
        ({"tokens": {"from": 1, "to": 2, "factor": 1}}, "factor above 1"),
        ({"tokens": {"from": 9, "to": 2, "step": 1}}, "from at most to"),
        ({"tokens": {"from": 1, "to": "inf", "step": 1}}, "finite number"),
        ({"tokens": {"from": True, "to": 2, "step": 1}}, "finite number"),
        ({"tokens": {"from": 1, "to": 10**400, "step": 1}}, "finite number"),
        ({"tokens": {"from": 1, "to": 1e12, "step": 1}}, "too many combinations"),
        ({"tokens": {"from": 1e-300, "to": 1e300, "factor": 1.0000000001}}, "too many"),
        ({"tokens": [1] * 2000, "samples": [1] * 2000}, "too many combinations"),
    ],
)
def test_what_is_no_grid_is_refused(section: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_grid({"workload": section})


TABLE = """\
id,model.preset,workload.kind,workload.concurrency,hardware.accelerator,limits.providers
a,llama-3.1-8b,serving,8,l40s,"[AWS, Gcore]"
b,llama-3.1-8b,serving,,l40s,
"""


def test_a_row_of_a_table_is_a_case_and_an_empty_cell_states_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(TABLE, encoding="utf-8")
    parquet = tmp_path / "cases.parquet"
    pd.read_csv(path).to_parquet(parquet)
    expected = [
        {
            "model": MODEL,
            "workload": {"kind": "serving", "concurrency": "8"},
            "hardware": {"accelerator": "l40s"},
            "limits": {"providers": ["AWS", "Gcore"]},
        },
        {"model": MODEL, "workload": {"kind": "serving"}, "hardware": {"accelerator": "l40s"}},
    ]

    assert cases(questions_of(path)) == expected
    assert questions_of(path).count == 2
    assert questions_of(path).columns[0] == "id"
    # pandas reads whole numbers beside an empty cell as floats
    assert cases(questions_of(parquet))[0]["workload"]["concurrency"] == 8.0
    assert cases(questions_of(pd.read_csv(path)))[1] == expected[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no columns"),
        ("model.preset,nonsense\nx,y\n", "no field of a case"),
        ("model.preset,workload.nope\nx,y\n", "no field of a case"),
        ("model.preset,model.preset\nx,y\n", "twice"),
        ("id\n" + "x" * 2_000_000, "not CSV"),
        ('id\n"open', "not CSV"),
        ("id," * 300 + "id\n", "too many columns"),
        ("id\n" + "x\n" * (MAX_ROWS + 1), "too many rows"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match=said):
        (questions_of(path).columns, questions_of(path).count)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    latin = tmp_path / "cases.csv"
    latin.write_bytes(b"id\n\xff\xfe\n")
    parquet = tmp_path / "cases.parquet"
    parquet.write_bytes(b"PAR1 not at all PAR1")
    for source in (latin, parquet, tmp_path / "absent.csv", tmp_path, "cases.xlsx"):
        with pytest.raises(InputError):
            assert questions_of(source).count > 1_000_000


def test_a_long_row_and_a_broken_cell_are_mistakes_of_their_row(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("id,model.preset\na,b,c\nd,[e\nf,g\n", encoding="utf-8")

    long, broken, fine = cases(questions_of(path))

    assert isinstance(long, InputError)
    assert isinstance(broken, InputError)
    assert fine == {"model": {"preset": "g"}}


def written(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, compression="zstd")
    return path


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([b"\xff\xfe"], pa.binary()).view(pa.string()), "is not Parquet"),
        (pa.array([2**55], pa.int64()).cast(pa.timestamp("ms")), "is not Parquet"),
        (["x" * 1_100_000] * 300, "a cell of the table is too large"),
        ([{"a": [{"b": "x" * 1_100_000}]}] * 300, "a cell of the table is too large"),
        (
            [f"{place}" + "x" * 999_000 for place in range(17)],
            "a row group of the table is too large",
        ),
    ],
)
def test_cells_that_python_cannot_hold_are_refused(tmp_path: Path, column: Any, said: str) -> None:
    questions = questions_of(written(tmp_path / "cases.parquet", note=column))

    with pytest.raises(InputError, match=said):
        cases(questions)


def test_a_table_whose_columns_end_early_is_refused(tmp_path: Path) -> None:
    """Parquet states the number of values (a Thrift i64, zigzag: one is 0x16 0x02) many times."""
    path = written(tmp_path / "cases.parquet", note=["a"])
    whole, refusals = path.read_bytes(), []
    places = [place for place in range(len(whole)) if whole[place : place + 2] == b"\x16\x02"]
    for place in places:
        path.write_bytes(whole[: place + 1] + b"\0" + whole[place + 2 :])
        try:
            questions = questions_of(path)
            assert len(cases(questions)) == questions.count
        except InputError as error:
            refusals.append(str(error))
    assert refusals
    assert all("is not Parquet" in text for text in refusals)


def test_a_grid_of_too_many_or_unprintable_fields_is_refused() -> None:
    with pytest.raises(InputError, match="varies too many fields"):
        read_grid({"hardware": [{f"a{place}": 1 for place in range(201)}]})
    with pytest.raises(InputError, match="cannot be printed"):
        read_grid({"hardware": {"a\0": 1}})


@pytest.mark.parametrize(
    ("value", "said"),
    [({"from": 1, "to": 1, "step": 1}, "varies too many fields"), (1, "states too many fields")],
)
def test_fields_are_counted_while_they_are_read(value: object, said: str) -> None:
    """18,000 ranges took a minute: each counted the rows of all before it."""
    counted: list[str] = []

    class Fields(dict[str, object]):
        def items(self) -> Any:
            for name, item in super().items():
                counted.append(name)
                yield name, item

    with pytest.raises(InputError, match=said):
        read_grid({"workload": Fields({f"k{place}": value for place in range(18_000)})})
    assert len(counted) < 2_000
