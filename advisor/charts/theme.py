"""Colours of all charts, light and dark."""

from typing import Any, Final

from advisor.foundation.record import record

FONT_SIZE: Final = 14


Drawn = dict[str, Any]
"""A trace, an axis, a shape or a note, as Plotly's JSON has it."""


@record
class Theme:
    """How charts look. On page and panel, text and hues have a contrast of 4.5, marks of 3."""

    name: str
    page: str
    panel: str
    text: str
    muted: str
    mark: str
    """Grey of marks that stay in the background."""
    grid: str
    """Gridlines: decoration, below 3 on purpose."""
    hues: tuple[str, str, str, str, str]
    on_hue: str
    """Text on a hue."""
    compact: bool = False
    """For a phone: short names, few labels, the legend in lines of text."""


LIGHT: Final = Theme(
    name="light",
    page="#FFFFFF",
    panel="#F8F8F7",
    text="#0F0E0D",
    muted="#6B6862",
    mark="#8A867E",
    grid="#E4E2DD",
    hues=("#1E64FA", "#642E06", "#0D5A4F", "#DA007C", "#886E16"),
    on_hue="#FFFFFF",
)


DARK: Final = Theme(
    name="dark",
    page="#171614",
    panel="#2D2B27",
    text="#F8F8F7",
    muted="#B5B1A9",
    mark="#85817A",
    grid="#3B3934",
    hues=("#739DFE", "#F2CBA3", "#0AF2ED", "#EB659B", "#A79401"),
    on_hue="#171614",
)


def theme_named(name: str | None) -> Theme:
    """Return the theme that a browser reports; light if it reports none."""
    return DARK if name == "dark" else LIGHT


def faint(color: str, opacity: float) -> str:
    """Return a transparent colour for bands.

    >>> faint("#1E64FA", 0.18)
    'rgba(30,100,250,0.18)'
    """
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
