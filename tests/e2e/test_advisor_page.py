"""The page *Advisor* as a person uses it, in a browser, against the engine's own answers."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

import advisor
from tests.cases import serve, tune
from tests.e2e.browsing import (
    ANSWER,
    CHART,
    LOOK_MS,
    NARROW,
    PHONE,
    a_run,
    choose,
    fill,
    open_answer,
    settle,
    unbroken,
    unfold,
    width_beyond_the_window,
)

CHARTS = "[...document.querySelectorAll('.js-plotly-plot')]"
DATA = "chart => JSON.stringify([chart.data, chart.ariaLabel])"
COUNT_ANSWERS = """
window.mostAnswers = 0
new MutationObserver(() => {
    const answers = document.querySelectorAll('p[role=status] .answer').length
    window.mostAnswers = Math.max(window.mostAnswers, answers)
}).observe(document.body, {childList: true, subtree: true, characterData: true})
"""

FINGER_WIDE = """
() => {
    const button = document.querySelector('[data-title="Download plot"]')
    const {width, height} = button?.getBoundingClientRect() ?? {width: 0, height: 0}
    return Math.min(width, height) >= 44
}
"""
SAVES_AS = """form => document.querySelector('.js-plotly-plot')
    ._context.toImageButtonOptions.format === form"""
"""Plotly draws the button anew for another form."""


def fine_tune(*, tokens: float = 10e6, **limits: object) -> advisor.Recommendation:
    return advisor.recommend(
        tune("llama-3.1-8b", method="lora", tokens=tokens, limits={"deadline_hours": 24, **limits})
    )


def test_the_first_screen_holds_controls_and_numbers_why_not_and_a_mistake_below_its_field(
    page: Page, app_url: str
) -> None:
    open_answer(page, app_url)
    found = fine_tune()

    expect(page.locator(ANSWER)).to_have_text(unbroken(found.answer))
    expect(page.locator(CHART).first).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    for label in ("Tokens", "Deadline", "Budget (USD)"):
        expect(page.get_by_label(label, exact=True)).to_be_in_viewport()
    expect(page.locator(ANSWER)).to_be_in_viewport(ratio=1)
    for metric in page.get_by_test_id("stMetricValue").all():
        expect(metric).to_be_in_viewport(ratio=1)
    expect(page.get_by_text("Assumed:")).to_be_in_viewport(ratio=1)

    [rejection] = [item for item in found.rejections if item.accelerator == "a40"]
    choose(page, "Why not", "A40", rejection.accelerator_name)
    expect(page.get_by_text(rejection.message)).to_be_visible()
    expect(page.get_by_text(rejection.remedy)).to_be_visible()

    fill(page, "Deadline", "soon")
    error = page.get_by_role("alert").filter(has_text="Deadline must be a time")
    expect(error).to_be_visible()
    settle(page)
    field = page.get_by_label("Deadline", exact=True).bounding_box()
    sentence = error.bounding_box()
    assert field is not None
    assert sentence is not None
    assert field["y"] + field["height"] <= sentence["y"] <= field["y"] + field["height"] + 40
    assert sentence["x"] <= field["x"] + field["width"] / 2 <= sentence["x"] + sentence["width"]
    expect(page.locator(ANSWER)).to_have_text(unbroken(found.answer))
    expect(page.get_by_label("Tokens", exact=True)).to_have_value("10M")


def test_three_inputs_change_the_answer_and_its_link_and_file_hold_them(
    page: Page, app_url: str
) -> None:
    sender = page
    open_answer(sender, app_url)
    sender.evaluate(COUNT_ANSWERS)
    fill(sender, "Tokens", "200M")
    expect(sender.locator(ANSWER)).to_have_text(unbroken(fine_tune(tokens=200e6).answer))

    fill(sender, "Deadline", "10h")
    found = fine_tune(tokens=200e6, deadline_hours=10)
    expect(sender.locator(ANSWER)).to_have_text(unbroken(found.answer))

    unfold(sender, "Share")
    with sender.expect_download() as download:
        sender.get_by_role("button", name="Case file").click()
    case = advisor.load_case(download.value.path())
    assert advisor.recommend(case).answer == found.answer
    link = sender.locator("pre").inner_text().replace("\n", "")
    choose(sender, "Task", "Serve")
    serving = advisor.recommend(serve("llama-3.1-8b", concurrency=8, limits={"max_tpot_ms": 50}))
    expect(sender.locator(ANSWER)).to_have_text(unbroken(serving.answer))
    assert sender.evaluate("window.mostAnswers") == 1, "an old answer stood beside the new one"

    receiver = sender  # in a tab that remembers nothing
    receiver.evaluate("localStorage.clear(); sessionStorage.clear()")
    receiver.goto("about:blank")
    receiver.context.clear_cookies()
    open_answer(receiver, link)
    expect(receiver.get_by_label("Tokens", exact=True)).to_have_value("200M")
    expect(receiver.locator(ANSWER)).to_have_text(unbroken(found.answer))
    expect(receiver.get_by_text("The link had values")).to_have_count(0)


def test_a_slider_moves_the_answer_and_advanced_stays_open_while_its_fields_change(
    page: Page, app_url: str
) -> None:
    open_answer(page, app_url)
    slider = page.get_by_role("slider", name="Slide: Tokens")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("Tokens", exact=True).first).to_have_value("12M")
    expect(page).to_have_url(re.compile("tokens=12M"))
    expect(slider).to_be_focused()
    settle(page)

    unfold(page, "Advanced")
    fill(page, "Sequence length", "8192")
    expect(page.get_by_text("Advanced (1 changed): Sequence length")).to_be_visible()
    expect(page.get_by_label("Sequence length", exact=True)).to_be_visible()


def test_the_shape_behind_a_count_is_edited_beside_published_models(
    page: Page, app_url: str
) -> None:
    open_answer(page, f"{app_url}/?model=7.2B")
    page.get_by_text("Assumed shape").first.click()

    # Jiang et al. 2023, arXiv:2310.06825, table 1: Mistral 7B has 8 heads for keys and values.
    fill(page, "Key-value heads", "8")

    expect(page.get_by_text("scaled with the given num_key_value_heads")).to_be_visible()
    expect(page.get_by_label("Key-value heads", exact=True)).to_be_visible()


def test_a_broken_link_names_each_correction(page: Page, app_url: str) -> None:
    open_answer(page, f"{app_url}/?task=serve&users=5M&model=no-such-model")

    expect(page.get_by_text("Users at once must be 1 to 1,000,000, not '5M'")).to_be_visible()
    expect(page.get_by_text("not 'no-such-model'. Now: Llama 3.1 8B.")).to_be_visible()


def test_a_phone_needs_no_sideways_scroll(new_page: Callable[..., Page], app_url: str) -> None:
    page = new_page(viewport=NARROW, user_agent=PHONE, is_mobile=True, has_touch=True)
    open_answer(page, app_url)
    unfold(page, "Advanced", "How the numbers are computed", "Report and launch files")
    page.get_by_text("Accelerators not recommended").click()
    expect(page.get_by_label("Filter by name")).to_be_visible()
    unfold(page, "Share")
    expect(page.get_by_text("Link with every input")).to_be_visible()

    assert width_beyond_the_window(page) <= 0


def test_a_chart_is_saved_as_svg_or_png(page: Page, app_url: str) -> None:
    page.set_viewport_size(NARROW)
    open_answer(page, app_url)
    button = page.get_by_role("button", name="Download plot").first
    # The chart is drawn anew for the narrow window.
    page.wait_for_function(FINGER_WIDE, polling=LOOK_MS)
    for ending, begins in (("svg", b"<svg"), ("png", b"\x89PNG")):
        if ending == "png":
            unfold(page, "Share")
            with a_run(page):
                page.get_by_text("PNG", exact=True).click()
            page.keyboard.press("Escape")
            page.wait_for_function(SAVES_AS, arg=ending, polling=LOOK_MS)
            settle(page)
        with page.expect_download() as saved:
            button.click()
        assert saved.value.suggested_filename == f"gpu-advisor-cost-time.{ending}"
        assert saved.value.path().read_bytes().startswith(begins)


def test_charts_follow_the_theme_at_once_and_a_changed_input_is_drawn_into_the_same_ones(
    page: Page, app_url: str
) -> None:
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.emulate_media(color_scheme="dark")
    open_answer(page, app_url)
    paper = page.locator(".main-svg").first

    expect(paper).to_have_css("background-color", "rgb(23, 22, 20)")
    with a_run(page):  # the switch asks for one, later
        page.emulate_media(color_scheme="light")
        expect(paper).to_have_css("background-color", "rgb(255, 255, 255)")
    page.wait_for_function(f"{CHARTS}.length === 2", polling=LOOK_MS)
    page.evaluate(f"window.kept = {CHARTS}; window.drawn = kept.map({DATA})")

    fill(page, "Tokens", "200M")
    expect(page.locator(ANSWER)).to_have_text(unbroken(fine_tune(tokens=200e6).answer))
    drawn_anew = f"drawn.every((before, at) => before !== ({DATA})(kept[at]))"
    page.wait_for_function(drawn_anew, polling=LOOK_MS)
    assert page.evaluate(f"{CHARTS}.map((chart, at) => chart === kept[at])") == [True, True]
    assert len([url for url in fetched if "plotly" in url.lower()]) == 1
