"""The public price files of the clouds themselves, read for the machines of the catalog."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from advisor.catalog.live.download import json_at, opened
from advisor.catalog.live.rows import Fetched, Machines, Row, feeds, row_of
from advisor.foundation.files.tables import csv_rows
from advisor.foundation.units import GIB
from advisor.nouns.hardware import Offer

MOST_PAGES: Final = 60
MOST_AWS_BYTES: Final = 1_000_000_000
"""The file of the largest AWS region has some 300 MB. It is read row by row."""
AWS_HEAD: Final = 5
"""Lines of version, disclaimer and date above the header of an AWS file."""
GCP_KEY: Final = "GCP_API_KEY"
HOURS_A_MONTH: Final = 730
"""Hours by which Google divides the monthly price of a disk."""


def addresses() -> Mapping[str, str]:
    """Return the addresses of the price files."""
    return feeds().addresses


def azure(machines: Machines, regions: Sequence[str]) -> Fetched:
    """Read Azure's retail prices, one question for each machine."""
    rows: list[Row] = []
    for name, machine in machines.items():
        wanted = f"armSkuName eq '{name}' and priceType eq 'Consumption'"
        query = urlencode({"$filter": f"serviceName eq 'Virtual Machines' and {wanted}"})
        for item in _pages(f"{addresses()['azure']}?{query}", "Items", "NextPageLink"):
            kind = f"{item['productName']} {item['meterName']} {item['skuName']}"
            sold = item["armSkuName"] == name and item["unitOfMeasure"] == "1 Hour"
            plain = not re.search("Windows|Low Priority|Dedicated", kind)
            dollars = item["currencyCode"] == "USD" and item["type"] == "Consumption"
            if sold and plain and dollars and _in(item["armRegionName"], regions):
                usd, spot = float(item["retailPrice"]), "Spot" in kind
                rows.append(row_of(machine, item["armRegionName"], usd, spot=spot))
    return Fetched(rows=tuple(rows), whole=not regions)


def aws(machines: Machines, regions: Sequence[str]) -> Fetched:
    """Read AWS's spot prices and how often it takes machines back, and the lists of ``regions``."""
    taken, rows, known = _taken_back(), [], set()
    for place in json_at(addresses()["aws-spot"])["config"]["regions"]:
        region = feeds().aws_spot_regions.get(place["region"], place["region"])
        known.add(region)
        for size in (size for kind in place["instanceTypes"] for size in kind["sizes"]):
            machine = machines.get(size["size"])
            [price] = [i["prices"]["USD"] for i in size["valueColumns"] if i["name"] == "linux"]
            if machine and _in(region, regions) and re.fullmatch(r"[0-9.]+", price):
                notes = taken.get((region, size["size"]), "")
                rows.append(row_of(machine, region, float(price), spot=True, notes=notes))
    for region in known & set(regions):
        rows += _aws_list(machines, region)
    return Fetched(rows=tuple(rows), whole=False)


def gcp(machines: Machines, regions: Sequence[str]) -> Fetched:
    """Put Google's prices of cores, memory, cards and disks together, with a key of the user."""
    key = os.environ.get(GCP_KEY)
    if not key:
        return Fetched(error=f"Google's own prices need a key ({GCP_KEY}) in the environment")
    prices: dict[tuple[str, str, bool], float] = {}
    pages = f"{addresses()['gcp']}?{urlencode({'pageSize': 5000, 'currencyCode': 'USD'})}"
    for sku in _pages(pages, "skus", "nextPageToken", headers={"X-Goog-Api-Key": key}):
        part = re.match(
            "(?:Spot Preemptible )?(.+? (?:core|ram)|.+? gpu|SSD backed Local Storage)"
            "(?: attached to Spot Preemptible VMs)?(?: running)? in ",
            sku["description"],
            re.IGNORECASE,
        )
        use = sku["category"]["usageType"]
        if part is None or use not in ("OnDemand", "Preemptible"):
            continue
        unit = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]
        usd = float(unit.get("units") or 0) + float(unit.get("nanos") or 0) / 1e9
        for region in sku["serviceRegions"]:
            prices[part[1].lower(), region, use == "Preemptible"] = usd
    found = {(region, spot) for _, region, spot in prices if _in(region, regions)}
    rows = [
        row_of(machine, region, usd, spot=spot)
        for name, machine in machines.items()
        for region, spot in sorted(found)
        for usd in _assembled(name, machine, prices, region, spot=spot)
    ]
    return Fetched(rows=tuple(rows), whole=not regions)


def _assembled(
    name: str,
    machine: Offer,
    prices: Mapping[tuple[str, str, bool], float],
    region: str,
    *,
    spot: bool,
) -> Iterator[float]:
    """Yield the price of a machine from those of its parts, if each of them has one."""
    for parts in feeds().gcp_parts:
        disk_gib = parts.disk_gib * machine.accelerators
        amounts = {
            f"{parts.cpu} Core": machine.vcpus or 0.0,
            f"{parts.cpu} Ram": (machine.host_memory_bytes or 0.0) / GIB,
            parts.card: machine.accelerators,
            "ssd backed local storage": disk_gib / HOURS_A_MONTH,
        }
        needed = {(part.lower(), region, spot): many for part, many in amounts.items() if many}
        if name.startswith(parts.machine) and prices.keys() >= needed.keys():
            yield round(sum(prices[part] * many for part, many in needed.items()), 6)


def _taken_back() -> Mapping[tuple[str, str], str]:
    """Return how often AWS took spot machines back last month, by region and machine."""
    answer = json_at(addresses()["aws-advisor"])
    labels = {item["index"]: item["label"] for item in answer["ranges"]}
    return {
        (region, name): f"AWS took back {labels[item['r']]} of its spot machines last month"
        for region, systems in answer["spot_advisor"].items()
        for name, item in systems.get("Linux", {}).items()
    }


def _aws_list(machines: Machines, region: str) -> Iterator[Row]:
    with opened(f"{addresses()['aws']}/{region}/index.csv", most=MOST_AWS_BYTES) as stream:
        lines = csv_rows(stream)
        for _ in range(AWS_HEAD):
            next(lines)
        header = next(lines)
        place = {name: header.index(name) for name in header}
        for line in lines:
            machine = machines.get(line[place["Instance Type"]])
            if machine and all(line[place[name]] in fit for name, fit in feeds().aws_rows.items()):
                usd = float(line[place["PricePerUnit"]])
                yield row_of(machine, line[place["Region Code"]], usd, spot=False)


def _pages(
    address: str, items: str, link: str, headers: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """Yield the items of an answer and of the pages after it, all at the same address."""
    page = address
    for _ in range(MOST_PAGES):
        answer = json_at(page, headers=headers)
        yield from answer[items]
        following = answer.get(link)
        if not following:
            return
        page = following if "://" in following else f"{address}&pageToken={following}"
        if urlsplit(page).hostname != urlsplit(address).hostname:
            raise ValueError("the next page is at another address")
    raise ValueError(f"it has more than {MOST_PAGES} pages")


def _in(region: str, regions: Sequence[str]) -> bool:
    return not regions or region in regions
