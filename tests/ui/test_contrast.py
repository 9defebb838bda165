"""The palettes against the Web Content Accessibility Guidelines 2.2, computed here from scratch."""

import tomllib
from pathlib import Path

import pytest

from advisor.charts.theme import DARK, LIGHT, Theme

TEXT = 4.5
"""Success criterion 1.4.3, level AA."""
MARK = 3.0
"""Success criterion 1.4.11: graphics and their parts."""


def luminance(color: str) -> float:
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_formula_gives_the_published_values() -> None:
    # Black on white is 21 by definition; #767676 is the well-known limit grey, 4.54.
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_text_and_hues_reach_aa(theme: Theme) -> None:
    for background in (theme.page, theme.panel):
        for color in (theme.text, theme.muted, *theme.hues):
            assert contrast(color, background) >= TEXT, (color, background)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_numbers_inside_bars_reach_aa(theme: Theme) -> None:
    for hue in theme.hues:
        assert contrast(theme.on_hue, hue) >= TEXT, hue


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_marks_reach_three_to_one(theme: Theme) -> None:
    for background in (theme.page, theme.panel):
        assert contrast(theme.mark, background) >= MARK, background


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_words_in_the_excluded_area_reach_aa(theme: Theme) -> None:
    # The area is the grey of the marks at 16 % over the page.
    over, under = (
        [int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in (theme.mark, theme.page)
    )
    mixed = [round(0.16 * a + 0.84 * b) for a, b in zip(over, under, strict=True)]
    blend = "#" + "".join(f"{channel:02X}" for channel in mixed)
    assert contrast(theme.muted, blend) >= TEXT


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_charts_and_page_share_their_colours(theme: Theme, root: Path) -> None:
    settings = tomllib.loads((root / ".streamlit/config.toml").read_text())["theme"][theme.name]

    assert settings["backgroundColor"] == theme.page
    assert settings["secondaryBackgroundColor"] == theme.panel
    assert settings["textColor"] == theme.text
    assert tuple(settings["chartCategoricalColors"]) == theme.hues
