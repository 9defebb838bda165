"""The page *What fits my GPU*: the engine's numbers, in three groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import advisor
import advisor.ui.pages
from advisor.architecture.titles import model_title
from advisor.charts.memory import fits_alt, fits_chart
from advisor.charts.theme import LIGHT
from advisor.frames.machine import fits_memory_frame, fits_table
from advisor.planning.fits.results import Fits, Verdict

pytestmark = pytest.mark.slow
PAGE = Path(advisor.ui.pages.__file__).parent / "fits.py"


@pytest.fixture(scope="module")
def desktop() -> Fits:
    return advisor.fits("rtx-4090")


def test_the_page_shows_the_groups_of_the_engine(desktop: Fits) -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60).run()
    assert not page.exception
    assert not page.error
    shown = [set(table.value["Model"]) for table in page.dataframe][: len(Verdict)]
    assert shown == [
        {model_title(model.preset) for model in desktop.having(each)} for each in Verdict
    ]


def test_another_card_gives_another_answer(few_models: None) -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60).run()
    page.selectbox(key="in_own_accelerator").set_value("h100-sxm").run()
    assert not page.exception
    # 32.8 billion parameters in 16 bits are 61 GiB: within 80, not within 24.
    assert "Qwen3 32B" in set(page.dataframe[0].value["Model"])


def test_bars_are_the_weights_of_the_checkpoint(desktop: Fits) -> None:
    frame = fits_memory_frame(desktop)
    weights = frame[(frame["model"] == "Llama 3.1 8B (q8_0)") & (frame["group"] == "Weights")]
    # The file in Q8_0 has 7.96 GiB (llama.cpp, perplexity README); the embedding of 128,256 x 4,096
    # values of 34 / 32 bytes stays in the host's memory.
    assert weights["gib"].item() == pytest.approx(7.96 - 0.52, abs=0.02)
    chart = fits_chart(frame, theme=LIGHT)
    assert len(chart.data) == 4
    assert chart.layout.shapes[0].x0 == pytest.approx(frame["usable_gib"].min())
    assert f"{len(desktop.models)} models" in fits_alt(frame)


def test_a_group_without_models_is_an_empty_table() -> None:
    large = advisor.fits("rtx-4090", count=64)
    assert fits_table(large, Verdict.DOES_NOT_FIT).empty


def test_one_user_at_once_is_a_question_too(few_models: None) -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60).run()
    page.text_input(key="in_users").set_value("1").run()
    assert not page.exception
    assert not page.error
    columns = page.dataframe[0].value.columns
    assert [name for name in columns if name.startswith("Longest")] == ["Longest context"]


def test_unlike_cards_are_typed_into_the_box(few_models: None) -> None:
    page = AppTest.from_file(str(PAGE), default_timeout=60)
    page.query_params["card"] = "rtx-3090+rtx-3060-12gb"
    page.run()
    assert not page.exception
    assert page.selectbox(key="in_own_accelerator").value == "rtx-3090+rtx-3060-12gb"
    # 32.6 GiB in Q8_0: more than 24 GiB, less than 24 and 12.
    assert "Qwen3 32B" in set(page.dataframe[0].value["Model"])


def test_cards_of_several_vendors_are_refused_in_a_sentence() -> None:
    page = AppTest.from_function(_as_the_app_runs_it, default_timeout=60)
    page.query_params["card"] = "rtx-3090+rx-7900-xtx"
    page.run()
    assert not page.exception
    assert "several vendors" in page.error[0].value


def _as_the_app_runs_it() -> None:
    from advisor.ui.parts import fits
    from advisor.ui.session import state

    with state.boundary():
        fits.show(*fits.ask())
