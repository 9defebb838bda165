import pytest

from advisor.catalog.nodes import node_for
from advisor.estimate.cost import cost_breakdown
from advisor.estimate.placement import Placement
from advisor.estimate.results import CostBreakdown
from advisor.foundation.quantities import Evidence, Range
from advisor.nouns.hardware import Accelerator, Confidence, Offer, Provenance
from advisor.nouns.layout import ParallelLayout
from tests.estimate.serving_bench import card

P5 = Offer(
    key="aws/p5-48xlarge/us-east-1/on-demand",
    provider="AWS",
    instance_type="p5.48xlarge",
    tier="on-demand",
    region="us-east-1",
    accelerator="ideal",
    accelerators=8,
    vcpus=192,
    host_memory_bytes=2e12,
    on_demand_usd_per_hour=98.32,
    spot_usd_per_hour=None,
    price_date="2023-07",
    intra_node="NVSwitch",
    inter_node_bytes_per_s=400e9,
    provenance=Provenance(source="aws-list", date="2023-07", confidence=Confidence.SECONDARY),
)
RUN = Range(low=80.0, expected=100.0, high=150.0, evidence=Evidence.CALIBRATED)
RATE = Range(low=2e9, expected=3e9, high=4e9, evidence=Evidence.CALIBRATED)


def cost(
    *,
    accelerator: Accelerator | None = None,
    count: int = 16,
    hours: Range | None = RUN,
    offer: Offer | None = P5,
    usd_per_hour: float | None = 2 * 98.32,
    instances: int = 2,
    owned: bool = False,
) -> CostBreakdown:
    where = Placement(
        accelerator or card(),
        node_for(accelerator or card()),
        count,
        ParallelLayout(),
        "bf16_mixed",
        offer=offer,
        usd_per_hour=usd_per_hour,
        instances=instances,
        owned=owned,
    )
    return cost_breakdown(where, count, hours=hours, tokens_per_hour=RATE)


def bounds(value: Range | None) -> tuple[float, float, float]:
    assert value is not None
    return value.low, value.expected, value.high


def test_a_run_on_two_instances() -> None:
    found = cost()
    # 100 h at 196.64 USD/h; the range of the hours goes through, the price is exact.
    assert bounds(found.rent_usd) == pytest.approx((15731.2, 19664.0, 29496.0))
    assert found.rent_usd is not None
    assert found.rent_usd.evidence is Evidence.CALIBRATED
    assert found.usd_per_hour == Range.exact(196.64, Evidence.MEASURED)
    # 196.64 USD for 3,000 million tokens; slower is dearer.
    price = found.usd_per_million_tokens
    assert price is not None
    assert (price.low, price.expected, price.high) == pytest.approx(
        (0.04916, 0.06555, 0.09832), 1e-3
    )
    assert found.instances == 2
    assert (found.provider, found.region, found.price_date, found.price_source) == (
        "AWS",
        "us-east-1",
        "2023-07",
        "aws-list",
    )


def test_serving_is_priced_for_a_month() -> None:
    found = cost(hours=None)
    # 730 h at 196.64 USD/h.
    assert bounds(found.rent_usd) == pytest.approx((143_547.2, 143_547.2, 143_547.2))


def test_instances_are_counted_where_the_caller_does_not() -> None:
    assert cost(count=9, instances=0).instances == 2


def test_owned_hardware_has_no_rent() -> None:
    found = cost(owned=True)
    assert found.rent_usd is None
    assert found.usd_per_hour is None
    assert found.usd_per_million_tokens is None
    assert found.provider is None


@pytest.mark.parametrize(("offer", "usd_per_hour"), [(None, 98.32), (P5, None), (None, None)])
def test_what_nothing_rents_has_no_price(offer: Offer | None, usd_per_hour: float | None) -> None:
    found = cost(offer=offer, usd_per_hour=usd_per_hour)
    assert found.rent_usd is None
    assert found.purchase_usd == Range.exact(16 * 30_000.0, Evidence.ASSUMED)


def test_an_unknown_purchase_is_unknown() -> None:
    unknown = card().model_copy(update={"purchase_usd": None})
    found = cost(accelerator=unknown)
    assert found.purchase_usd is None
    assert {term.name for term in found.terms} == {"rent", "usd_per_million_tokens"}


def test_terms_state_the_arithmetic() -> None:
    terms = {term.name: term for term in cost().terms}
    assert terms["rent"].substituted == "100 h x 2 x 98.32 (AWS p5.48xlarge, 2023-07)"
    assert terms["rent"].value == pytest.approx(19664.0)
    assert terms["purchase"].substituted == "16 x 30,000 (shop price of 2026-01)"


def test_a_recalled_list_price_is_assumed() -> None:
    listed = card().model_copy(update={"purchase_kind": "msrp"})
    assert cost(accelerator=listed).purchase_usd == Range.exact(480_000.0, Evidence.MEASURED)
    recalled = Provenance(source="note", date="2023", confidence=Confidence.MEMORY)
    told = listed.model_copy(update={"provenance": {"default": recalled}})
    assert cost(accelerator=told).purchase_usd == Range.exact(480_000.0, Evidence.ASSUMED)
