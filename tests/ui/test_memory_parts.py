"""The parts of the page about memory: how far batch and length go, and ways out of owned cards."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from advisor.architecture.table.model import Unit
from advisor.charts.curves import curve_alt, curve_chart
from advisor.charts.theme import LIGHT
from advisor.estimate.beside_results import Curve, CurvePoint
from advisor.foundation.quantities import Evidence, Range
from advisor.frames.turning import curve_frame, curve_table
from tests.ui.drawn import charts_of
from tests.ui.seen import seen
from tests.ui.test_one_case import opened

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_models")]

GIB = 2**30


def span(low: float, expected: float, high: float, unit: float = GIB) -> Range:
    return Range(
        low=low * unit, expected=expected * unit, high=high * unit, evidence=Evidence.CALIBRATED
    )


CURVE = Curve(
    variable="micro_batch",
    chosen=1,
    points=tuple(
        CurvePoint(
            value=value,
            memory_bytes=span(size - 1, size, size + 2),
            usable_bytes=24 * GIB,
            speed_per_s=span(speed, speed, speed, 1),
            fits=size + 2 <= 24,
        )
        for value, size, speed in ((1, 10, 900), (2, 14, 1000), (4, 22, 1010), (8, 38, 1020))
    ),
    usable_bytes=24 * GIB,
    limit=4,
    open_ended=False,
    knee=2,
)


def test_the_chart_shows_the_limit_the_range_and_what_does_not_fit() -> None:
    frame = curve_frame(CURVE)
    figure = curve_chart(frame, title="Micro-batch", sentence="", theme=LIGHT)
    by_name = {trace.name: trace for trace in figure.data}

    assert list(by_name["Memory on each card"].y) == [10, 14, 22, 38]
    assert list(by_name["Speed where it fits"].x) == [1, 2, 4]
    assert list(by_name["Speed where it does not"].x) == [8]
    assert list(by_name["Chosen"].x) == [1]
    assert figure.layout.shapes[0].y0 == 24
    assert figure.layout.annotations[0].text == "24.0 GiB usable"


@pytest.mark.parametrize(
    ("unit", "axis", "cell"),
    [(Unit.TOKEN, "Tokens/s", "900 tokens/s"), (Unit.IMAGE, "Images/s", "900 images/s")],
)
def test_speeds_have_the_unit_of_what_is_counted(unit: Unit, axis: str, cell: str) -> None:
    points = tuple(point.model_copy(update={"unit": unit}) for point in CURVE.points)
    curve = CURVE.model_copy(update={"points": points})
    figure = curve_chart(curve_frame(curve), title="Micro-batch", sentence="", theme=LIGHT)

    assert figure.layout.yaxis2.title.text == axis
    assert curve_table(curve)["Speed"].tolist()[0] == cell


def test_the_alt_text_holds_finding_axes_and_range() -> None:
    sentence = CURVE.sentence
    text = curve_alt(curve_frame(CURVE), title="Micro-batch", sentence=sentence)

    assert text.startswith("The largest micro-batch that fits is about 4. From 2 on,")
    assert "from 10.0 to 38.0" in text
    assert "from 900 to 1,020" in text
    assert "micro-batch from 1 to 8" in text


def test_the_table_says_what_fits() -> None:
    table = curve_table(CURVE)

    assert table["Micro-batch"].tolist() == ["1", "2", "4", "8"]
    assert table["Fits"].tolist() == ["yes", "yes", "yes", "no"]


def test_an_empty_chart_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one point"):
        curve_chart(curve_frame(CURVE).head(0), title="x", sentence="", theme=LIGHT)


@pytest.fixture
def page(root: Path) -> AppTest:
    """The page on the real engine, for one small card of one's own."""
    page = AppTest.from_file(str(root / "app.py"), default_timeout=60)
    page.run()
    page.selectbox(key="in_rent").set_value("own").run()
    return page


def test_a_card_that_is_too_small_gets_its_ways_out() -> None:
    page = opened("advisor", {"model": "llama-3.1-8b", "task": "full", "rent": "own"})

    assert not page.exception
    shown = seen("\n".join(item.value for item in page.markdown))
    assert "What would make it fit, smallest sacrifice first" in shown
    assert "train with QLoRA" in shown


def test_batch_and_length_are_drawn_when_asked_for(page: AppTest) -> None:
    page.selectbox(key="in_task").set_value("qlora").run()
    before = len(charts_of(page))
    page.session_state["curves"] = True
    page.run()

    assert not page.exception
    alts = [item.alt for item in charts_of(page)][before:]
    assert len(alts) == 2
    assert "The largest micro-batch that fits is about" in alts[0]
    assert "The longest sequence that fits has about" in alts[1]


def test_a_model_that_fits_shows_how_far_its_context_goes(root: Path) -> None:
    page = AppTest.from_file(str(root / "advisor/ui/pages/fits.py"), default_timeout=60).run()
    own = charts_of(page)[-1].alt  # the question's model without being asked
    # Q8_0 leaves 15.7 GiB for 32 layers x 8 heads x 128 x 2 x 2 bytes a token: 128,000 at most.
    assert "The longest context that fits has about 12" in own
    page.selectbox(key="fits_context_model").set_value("mistral-small-24b").run()

    assert not page.exception
    other = charts_of(page)[-1].alt
    assert "The longest context that fits has about" in other
    assert other != own
