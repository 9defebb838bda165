"""Plotly figures from tables: pure functions of table and theme, and each chart in words.

The names below are what the page may use. A chart takes the table that the function of
``advisor.frames`` with its name makes, and raises ``ValueError`` for one without rows.
"""

from plotly.graph_objects import Figure

from advisor.charts.accuracy import accuracy_alt, accuracy_chart
from advisor.charts.catalog import spread_alt, spread_chart
from advisor.charts.cost_time import cost_time_alt, cost_time_chart, cost_time_finding
from advisor.charts.curves import (
    curve_alt,
    curve_chart,
    day_alt,
    day_chart,
    scaling_alt,
    scaling_chart,
    scaling_finding,
)
from advisor.charts.fleet import weeks_alt, weeks_chart, weeks_finding
from advisor.charts.grid import grid_chart, grid_finding
from advisor.charts.lessons import lesson_alt, lesson_chart
from advisor.charts.memory import (
    fits_alt,
    fits_chart,
    fits_finding,
    memory_alt,
    memory_chart,
    memory_finding,
)
from advisor.charts.ownership import (
    dollars,
    effects_alt,
    effects_chart,
    effects_finding,
    strip_alt,
    strip_chart,
    timeline_alt,
    timeline_chart,
    timeline_finding,
)
from advisor.charts.roofline import roofline_alt, roofline_chart
from advisor.charts.theme import DARK, LIGHT, Theme, theme_named
