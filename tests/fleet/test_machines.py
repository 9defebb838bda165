"""Machines that can be bought: prices, the floor of memory, and what broken rows say."""

from typing import Any

import pytest
import yaml

from advisor import plan_fleet
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.economy import load_economy
from advisor.errors import InputError
from advisor.fleet.machines import below_floor, machine_named, machines, machines_of, slices
from advisor.fleet.portfolio import OwnedMachines
from advisor.fleet.quick import quick_portfolio
from advisor.fleet.sentences import machine_reasons
from advisor.foundation.resources import data_path


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_consumer_cards_below_16_gb_are_not_offered(catalog: Catalog) -> None:
    assert below_floor(catalog.accelerator("rtx-3060-12gb"))
    assert not below_floor(catalog.accelerator("rtx-4060-ti-16gb"))
    assert not below_floor(catalog.accelerator("jetson-orin-nano-super"))
    assert not any(below_floor(item.card) for item in machines(catalog, load_economy()))


def test_every_row_gives_all_its_machines(catalog: Catalog) -> None:
    """A card without price or power would silently vanish."""
    found = machines(catalog, load_economy())
    rows = yaml.safe_load(data_path("machines.yaml").read_text(encoding="utf-8"))["machines"]

    assert {item.key for item in found} == {
        f"{key}/{card}" for key, row in rows.items() for card in row["accelerators"]
    }
    kinds = {item.row.kind for item in found}
    assert kinds == {"compact", "cpu", "desktop", "edge", "mac", "server", "workstation"}
    assert {1, 2, 4, 8} <= {item.row.cards for item in found}


def test_a_price_is_that_of_cards_and_the_rest(catalog: Catalog) -> None:
    """Eight H100 at 30,000 USD, and 74,010 USD for the rest of a DGX H100 (SemiAnalysis)."""
    server = machine_named("hgx-8/h100-sxm", catalog, load_economy())

    assert server.usd == pytest.approx(8 * 30_000 + 74_010)
    assert server.host_usd == pytest.approx(74_010)
    assert server.rated_w == 10_200


def test_a_used_card_has_its_own_price_and_says_so(catalog: Catalog) -> None:
    """1,275 USD, median of 52 sales in autumn 2026; the computer is 1,235, 525 W at 0.35 USD."""
    machine = machine_named("desktop-1-used/rtx-3090", catalog, load_economy())

    assert machine.usd == pytest.approx(1275 + 1235 + 0.35 * 525)
    assert any("warranty" in reason for reason in machine_reasons(machine))


def test_a_computer_follows_its_cards(catalog: Catalog) -> None:
    """Two of 96 GB and 300 W: 192 GB in kits of 32 at 500 USD, one of them in the 1,880 USD.

    The supply is for 1.5 times 600 W at 0.35 USD.
    """
    machine = machine_named("desktop-2/rtx-pro-6000-blackwell-maxq", catalog, load_economy())

    assert machine.host_usd == pytest.approx(1880 + 5 * 500 + 0.35 * 900)


def test_a_computer_that_no_usual_outlet_feeds_says_so(catalog: Catalog) -> None:
    """80 % of 15 A at 120 V are 1,440 W; two 5090 are 1.5 x 1,150 W, one is 1.5 x 575."""
    economy = load_economy()
    told = {
        number: [
            reason
            for reason in machine_reasons(
                machine_named(f"desktop-{number}/rtx-5090", catalog, economy)
            )
            if reason.startswith("Power")
        ]
        for number in (1, 2)
    }

    assert told[1] == []
    assert told[2] == [
        "Power: 1,725 W need 20 A, or 230 V; one of 15 A at 120 V carries 1,440 W for hours."
    ]
    # A rack has its own supply.
    rack = machine_reasons(machine_named("hgx-8/h100-sxm", catalog, economy))
    assert not any(reason.startswith("Power") for reason in rack)


def test_the_classic_picks_are_told_beside_a_desktop(catalog: Catalog) -> None:
    """288 GB/s of an RTX 4060 Ti are 64 % of the 448 of an RTX 5060 Ti; 12 GB are below 16."""
    desktop = machine_named("desktop-1/rtx-5060-ti-16gb", catalog, load_economy())
    told = machine_reasons(desktop)[-1]

    assert "RTX 3060 12 GB ($329, launch price of 2021) is below the floor of 16 GB" in told
    assert "reads its memory at 64 % of this card's rate" in told
    # Its last shipments were in early 2025: no shop sells a new desktop computer with one.
    assert not any("4060-ti" in machine.key for machine in machines(catalog, load_economy()))


def test_a_mac_has_the_memory_that_is_sold(catalog: Catalog) -> None:
    """Apple's announcement of 25 August 2026: M5 Ultra from 5,499 USD with 96 GB, at 1.2 TB/s."""
    mac = machine_named("mac-studio-ultra/apple-m5-ultra-64c", catalog, load_economy())

    assert mac.usd == 5499
    assert mac.card.memory_bandwidth_bytes_per_s == 1.2e12
    whole = catalog.accelerator("apple-m5").peak_flops_per_s["fp32"] * 64 / 10
    assert mac.card.peak_flops_per_s["fp32"] == pytest.approx(whole, rel=0.01)
    smaller = {"mac-studio-max/apple-m5-max-32c": 2499, "mac-mini-pro/apple-m5-pro-16c": 1699}
    for key, usd in smaller.items():
        assert machine_named(key, catalog, load_economy()).usd == usd
    assert mac.card.memory_marketed_bytes == 96e9
    assert mac.card.memory_reported_bytes == pytest.approx(0.75 * 96 * 2**30, rel=0.01)


def test_reasons_count_the_software_of_each_vendor(catalog: Catalog) -> None:
    economy = load_economy()

    def tools(key: str) -> int:
        words = machine_reasons(machine_named(key, catalog, economy))[0]
        return int(words.split()[1])

    nvidia, amd = tools("desktop-1/rtx-5090"), tools("desktop-1/rx-9070-xt")
    apple = tools("mac-studio-ultra/apple-m5-ultra-64c")
    assert nvidia > max(amd, apple)
    assert min(amd, apple) > 0


def test_an_unknown_machine_is_a_mistake_with_near_names(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="hgx-8/h100-sxm"):
        machine_named("hgx-8/h1000", catalog, load_economy())


def test_machines_are_nodes_of_their_own_size(catalog: Catalog) -> None:
    economy = load_economy()
    hgx = machine_named("hgx-8/h100-sxm", catalog, economy).node
    desktop = machine_named("desktop-2/rtx-5090", catalog, economy).node

    assert (hgx.accelerators, hgx.intra_domain) == (8, 8)
    assert hgx.inter_bytes_per_s is not None
    assert (desktop.accelerators, desktop.intra_domain, desktop.inter_bytes_per_s) == (2, 1, None)


def test_slices_are_those_of_the_guide(catalog: Catalog) -> None:
    """NVIDIA's guide: an H100 80GB has 7 x 1g.10gb, 4 x 1g.20gb, 3 x 2g.20gb or 2 x 3g.40gb."""
    whole = catalog.accelerator("h100-sxm")
    parts = [(item.instances, item.card(whole, catalog)) for item in slices() if item.cards]
    found = {(number, round(part.memory_marketed_bytes / 1e9)) for number, part in parts if part}

    assert found == {(7, 10), (4, 20), (3, 20), (2, 40)}
    assert not any(item.card(catalog.accelerator("mi300x"), catalog) for item in slices())


def test_three_small_services_share_a_card() -> None:
    """8 billion parameters in 8 bits and their cache are less than a quarter of 80 GB."""
    names = ("one", "two", "three")
    case = {
        "model": {"preset": "llama-3.1-8b"},
        "workload": {"kind": "serving", "concurrency": 2, "weight_format": "fp8"},
        "limits": {"max_tpot_ms": 80},
    }
    content: dict[str, Any] = {
        "workloads": [{"name": name, "case": case} for name in names],
        "owned": [{"machine": "hgx-8/h100-sxm"}],
        "means": {"rent": False, "buy": False},
    }
    plan = plan_fleet(content, alternatives=False)

    assert plan.feasible
    assert {item.workload for item in plan.assignments} == set(names)
    first = [item for item in plan.assignments if item.slot == "office" and item.month == 0]
    held = sum(item.cards * item.replicas for item in first)
    assert held <= 1
    assert all(item.cards < 1 for item in plan.assignments)
    assert "slice" in plan.assignments[0].place or "shared card" in plan.assignments[0].place


def test_a_kit_for_the_edge_claims_no_tool_that_has_no_build_for_it() -> None:
    """README of jetson-containers: builds of vLLM, SGLang and llama.cpp, among others."""
    kit = machine_named("edge-kit/jetson-orin-nano-super", load_catalog(), load_economy())
    [software] = [text for text in machine_reasons(kit) if text.startswith("Software")]
    assert "vLLM, SGLang, llama.cpp" in software
    assert "tools of the advisor" not in software


@pytest.mark.parametrize(
    "owned", ["rtx-3060-12gb", "rtx-4090-laptop", "apple-m2-max", "gtx-1080-ti"]
)
def test_every_card_of_somebody_sits_in_a_machine(owned: str, catalog: Catalog) -> None:
    """GeForce RTX 3060 12 GB has a board power of 170 W and no price that anybody pays again."""
    [(machine, number)] = machines_of(owned, 1, catalog, load_economy())

    assert (machine.card.key, machine.row.cards, number) == (owned, 1, 1)
    if owned == "rtx-3060-12gb":
        assert machine.rated_w == 170 * 1.5


def test_cards_of_somebody_fill_machines_of_their_kind(catalog: Catalog) -> None:
    """A baseboard has eight modules; a workstation has room for four cards."""

    def held(key: str, number: int) -> list[tuple[str, int]]:
        found = machines_of(key, number, catalog, load_economy())
        return [(machine.key, each) for machine, each in found]

    assert held("h100-sxm", 40) == [("hgx-8/h100-sxm", 5)]
    assert held("rtx-3090", 5) == [("desktop-of-4/rtx-3090", 1), ("desktop-of-1/rtx-3090", 1)]
    with pytest.raises(InputError, match="unknown machine"):
        held("tpu-v5e", 4)


def test_cards_that_do_all_work_leave_nothing_to_buy() -> None:
    """Forty H100 that stand idle answer sixteen people: nobody buys a computer beside them."""
    asked = quick_portfolio("chatbot")
    plan = plan_fleet(asked.changed(owned=(OwnedMachines.model_validate("h100-sxm:40"),)))

    assert not plan.purchases
    assert "Further machines or rentals would save" in plan.sentence
    assert not any(item.rented for item in plan.assignments)


def test_cards_without_work_are_named() -> None:
    """Qwen3 32B in 4 bits has 18 GB, which a card of 12 GB does not hold."""
    asked = quick_portfolio("home")
    plan = plan_fleet(asked.changed(owned=(OwnedMachines.model_validate("rtx-3060-12gb"),)))

    assert plan.purchases
    assert "No work runs on the Computer of yours with GeForce RTX 3060 12 GB" in plan.sentence
