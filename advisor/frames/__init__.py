"""Results as tables for the charts, the page and the CSV files.

The names below are what the page may use. Below the interface, only this package uses pandas. A
column's name states its unit; the columns time and cost take theirs from `Axes`.
"""

import pandas as pd

from advisor.foundation.references import citation
from advisor.frames.accuracy import (
    accuracy_by_task,
    accuracy_frame,
    accuracy_summary,
    accuracy_table,
    farthest_off,
    model_words,
    quantities,
    quantity_title,
    runs_table,
    settings_table,
)
from advisor.frames.catalog import (
    card_offers_table,
    card_title,
    card_titles,
    catalog_table,
    commitments_table,
    comparison_table,
    fact_sources_table,
    offers_frame,
    shapes_table,
    spread_frame,
    verdict_sentences,
)
from advisor.frames.fleet import (
    cash_table,
    charges_table,
    places_table,
    purchases_table,
    use_table,
    ways_table,
    week_months,
    weeks_frame,
)
from advisor.frames.machine import (
    checks_table,
    fits_memory_frame,
    fits_table,
    products_table,
    rates_table,
    roofline_frame,
    training_fits_table,
    transfers_table,
)
from advisor.frames.ownership import (
    api_table,
    bill_table,
    budget_table,
    effects_frame,
    effects_table,
    flips_sentence,
    flips_table,
    inputs_table,
    processors_table,
    rents_table,
    strip_frame,
    timeline_frame,
    timeline_table,
)
from advisor.frames.points import (
    OBJECTIVE_TITLES,
    Axes,
    Pick,
    Point,
    axes,
    candidate_points,
    charted,
    fewest_table,
    filtered,
    nearest_misses,
    picked_points,
    picks,
    points_table,
    rejections_frame,
    verdicts,
    within_reach,
)
from advisor.frames.terms import (
    MEMORY_GROUPS,
    MemoryTerm,
    Section,
    answer_unit,
    latencies,
    memory_table,
    memory_terms,
    neighbours_frame,
    term_sections,
    terms_frame,
)
from advisor.frames.turning import (
    curve_frame,
    curve_table,
    day_frame,
    day_table,
    grid_frame,
    grid_table,
    scaling_frame,
    scaling_table,
    side_by_side,
    turns_sentence,
    turns_table,
    what_if_sentence,
    what_if_table,
)
from advisor.planning.explain.sentences import energy_used, way_out_sentence
from advisor.planning.fits.results import VERDICT_TITLES

Table = pd.DataFrame
"""Names that the page only passes on."""
