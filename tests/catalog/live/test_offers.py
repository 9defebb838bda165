"""Whatever a provider answers, what comes out are offers that hold, or nothing."""

from dataclasses import replace
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.live.rows import PROVIDERS, Row, convert
from advisor.catalog.loader import load_snapshot
from tests.hostile import DISPLAYED_ONLY_BY_PATHS, REFUSED

SNAPSHOT = load_snapshot()
KEYS = {card.key for card in SNAPSHOT.accelerators}
NUMBER = st.one_of(
    st.floats(), st.sampled_from([0.0, -1.0, 1e-9, 2.5, 24.0, 80.0, 1e12, float("nan")])
)
ROW = st.builds(
    Row,
    instance=st.sampled_from(["", "p5.48xlarge", "x/y", "gpu_1x_a100", "é 中"]),
    region=st.sampled_from(["", "us-east-1", "us-central1-a", "RO", "-"]),
    usd_per_hour=NUMBER,
    vcpus=NUMBER,
    memory_gib=NUMBER,
    gpus=st.integers(-2, 100),
    gpu_name=st.sampled_from(["", "H100", "A100", "T4", "v6e-8", "MI300X", "?"]),
    gpu_memory_gb=NUMBER,
    spot=st.booleans(),
    flags=st.just(()),
)


@given(st.lists(ROW, max_size=12), st.sampled_from(sorted(PROVIDERS)))
def test_nonsense_becomes_offers_that_hold_or_nothing(rows: list[Row], provider: str) -> None:
    found = convert(rows, provider=provider, date="2026-11-20", snapshot=SNAPSHOT.offers)

    keys = [offer.key for offer in found.offers]
    assert keys == sorted(set(keys))
    for offer in found.offers:
        assert offer.accelerator in KEYS
        prices = [offer.on_demand_usd_per_hour, offer.spot_usd_per_hour]
        assert any(price is not None for price in prices)
        for price in prices:
            assert price is None or (isfinite(price) and 0.005 <= price / offer.accelerators <= 200)
    assert len(found.offers) + found.refused + sum(found.unknown.values()) <= len(rows)


@pytest.mark.parametrize("field", ["instance", "region", "gpu_name"])
def test_a_row_with_a_hostile_name_is_refused(field: str) -> None:
    row = Row("p5.48xlarge", "us-east-1", 40.0, 192, 2048, 8, "H100", 80.0, False, ())
    good = convert([row], provider="aws", date="2026-11-20", snapshot=())
    assert len(good.offers) == 1
    for how, name in {**REFUSED, **DISPLAYED_ONLY_BY_PATHS}.items():
        change: dict[str, Any] = {field: name}
        rows = [row, replace(row, **change)]
        found = convert(rows, provider="aws", date="2026-11-20", snapshot=())
        assert found.refused == 1, how
        assert found.offers == good.offers, how


def test_names_that_are_too_long_together_harm_no_other_row() -> None:
    """Each may stand; key and name of the offer hold several of them."""
    row = Row("p5.48xlarge", "us-east-1", 40.0, 192, 2048, 8, "H100", 80.0, False, ())
    good = convert([row], provider="aws", date="2026-11-20", snapshot=())
    rows = [row, replace(row, instance="p5." + "x" * 190, region="y" * 190)]

    found = convert(rows, provider="aws", date="2026-11-20", snapshot=())

    assert (found.offers, found.refused) == (good.offers, 1)
