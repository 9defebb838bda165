"""What docs/sweeps.md shows runs."""

import re
from pathlib import Path

import pandas as pd
import pytest

from advisor import cli
from advisor.sweeps.rows import COLUMNS, Outcome


def blocks(root: Path, language: str) -> list[str]:
    text = (root / "docs" / "sweeps.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_grid_and_table_of_the_page_are_answered(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, language, rows in (("grid.yaml", "yaml", 72), ("cases.csv", "csv", 2)):
        [content] = blocks(root, language)
        source, output = tmp_path / name, tmp_path / f"{name}.parquet"
        source.write_text(content, encoding="utf-8")

        assert cli.main(["sweep", str(source), "--output", str(output)]) == 0

        result = pd.read_parquet(output)
        assert f"{rows} rows" in capsys.readouterr().out
        assert set(result["outcome"]) <= {"ok", "does_not_fit"}
        assert list(result["row"]) == list(range(rows))


def test_the_heat_map_of_the_page_is_drawn(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [code] = blocks(root, "python")
    found: dict[str, object] = {}

    exec(compile(code, "sweeps.md", "exec"), found)  # noqa: S102 - the page is ours

    prices = found["prices"]
    assert isinstance(prices, pd.DataFrame)
    assert prices.shape == (3, 4)
    assert (prices.loc["h100-sxm"].diff().dropna() < 0).all()  # a batch shares each read
    assert (tmp_path / "prices.html").stat().st_size > 1000


def test_the_page_names_every_outcome(root: Path) -> None:
    text = (root / "docs" / "sweeps.md").read_text(encoding="utf-8")
    assert {one for one in Outcome if f"`{one.value}`" not in text} == set()
    assert {"outcome", "problem", "problem_field"} <= set(COLUMNS)
