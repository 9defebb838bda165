"""Asks every source of prices: lists that gpuhunt publishes, clouds, marketplaces, accounts."""

import io
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Final
from urllib.parse import quote
from zipfile import ZipFile

from advisor.catalog.live import clouds
from advisor.catalog.live.download import BROKEN, Bounded, json_at, opened, reason
from advisor.catalog.live.rows import MARKETPLACES, PROVIDERS, TITLES, Fetched, Machines, Row, feeds
from advisor.foundation.files.tables import csv_rows

Progress = Callable[[float, str], None]
"""Receives the completed share, 0 to 1, and a description of the current step."""
LISTS: Final = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com/v3"
"""Where gpuhunt's makers publish the lists of providers, collected every day."""
MOST_MACHINES: Final = 3000
"""Machines of a marketplace that are read, cheapest first."""
MOST_LIST_BYTES: Final = 100_000_000
"""Largest list, unpacked. It is read row by row."""
ZONED: Final = "gcp"
"""This provider's list names zones. Without its last part, a zone is a region."""
COLUMNS: Final = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "spot")
CLOUDS: Final[Mapping[str, Callable[[Machines, Sequence[str]], Fetched]]] = {
    "aws": clouds.aws,
    "azure": clouds.azure,
    "gcp": clouds.gcp,
}


def fetch(
    *,
    progress: Progress,
    online: bool,
    regions: Sequence[str],
    machines: Mapping[str, Machines],
    euro_usd: float,
) -> Mapping[str, Fetched]:
    """Return the answers by gpuhunt's name of the provider; a failure does not stop the others.

    ``online`` asks clouds, marketplaces and accounts too. ``regions`` bounds what clouds are asked,
    ``machines`` are those of the catalog by provider, and ``euro_usd`` buy a euro.
    """
    asked = TITLES if online else PROVIDERS
    found = {}
    for index, (name, title) in enumerate(asked.items()):
        progress(index / len(asked), f"Reading prices of {title}")
        if name in PROVIDERS:
            found[name] = _attempt(partial(_listed, name))
        else:
            found[name] = _attempt(partial(_asked, name, euro_usd))
        if online and name in CLOUDS:
            own = _attempt(partial(CLOUDS[name], machines.get(title, {}), regions))
            found[name] = _laid_over(found[name], own)
    progress(1.0, "Prices are read")
    return found


def _attempt(read: Callable[[], Fetched]) -> Fetched:
    try:
        return read()
    except BROKEN as error:
        return Fetched(error=reason(error))


def _laid_over(listed: Fetched, own: Fetched) -> Fetched:
    """Put a cloud's own prices over the list: for the same machine, region and kind they count.

    Without the list they count only if they cover all regions.
    """
    if own.error:
        return replace(listed, error=listed.error or f"its own price file: {own.error}")
    if listed.error:
        return own if own.whole else listed
    stated = {(row.instance, row.region, row.spot) for row in own.rows}
    kept = [row for row in listed.rows if (row.instance, row.region, row.spot) not in stated]
    return replace(listed if kept else own, rows=(*own.rows, *kept))


def _listed(name: str) -> Fetched:
    """Read a list that gpuhunt's makers publish; ``GPUHUNT_CATALOG_URL`` names another place."""
    base = f"{os.environ.get('GPUHUNT_CATALOG_URL', LISTS).rstrip('/')}/{name}"
    with opened(f"{base}/version", most=100) as stream:
        version = stream.read().decode().strip()
    with opened(f"{base}/{quote(version, safe='')}/catalog.zip") as stream:
        archive = ZipFile(io.BytesIO(stream.read()))
    with archive, archive.open(f"{name}.csv") as content:
        lines = csv_rows(io.BufferedReader(Bounded(content, MOST_LIST_BYTES)))
        header = next(lines, [])
        rows, malformed = [], 0
        for line in lines:
            try:
                row = _row(dict(zip(header, line, strict=True)), zoned=name == ZONED)
            except (LookupError, ValueError):
                malformed += 1
                continue
            if row.gpus:
                rows.append(row)
    return Fetched(version=version, rows=tuple(rows), malformed=malformed)


def _row(cells: Mapping[str, str], *, zoned: bool) -> Row:
    instance, location, price, cpu, memory, gpus, spot = (cells[name] for name in COLUMNS)
    json.loads(cells.get("provider_data") or "{}")
    return Row(
        instance=instance,
        region=location.rpartition("-")[0] if zoned else location,
        usd_per_hour=float(price),
        vcpus=int(cpu),
        memory_gib=float(memory),
        gpus=int(gpus),
        gpu_name=cells["gpu_name"].removeprefix("tpu-"),
        gpu_memory_gb=float(cells["gpu_memory"] or 0),
        spot={"true": True, "false": False}[spot.lower()],
        flags=tuple(cells.get("flags", "").split()),
    )


def _vastai() -> Fetched:
    """Read the cheapest free machines of Vast.ai, all over the world."""
    question = {
        "rentable": {"eq": True},
        "rented": {"eq": False},
        "num_gpus": {"gte": 1},
        "order": [["dph_total", "asc"]],
        "limit": MOST_MACHINES,
        "type": "on-demand",
    }
    headers = {"Content-Type": "application/json"}
    answer = json_at(
        clouds.addresses()["vastai"], body=json.dumps(question).encode(), headers=headers
    )
    rows = []
    for host in answer["offers"][:MOST_MACHINES]:
        name = host["gpu_name"].replace("RTX A", "A").removeprefix("Tesla ").replace(" ", "")
        cores = host["cpu_cores_effective"] or 0.0
        share = cores / host["cpu_cores"] if host["cpu_cores"] else 0.0
        row = Row(
            instance=f"{host['num_gpus']}x {host['gpu_name']}",
            region="global",
            usd_per_hour=float(host["dph_base"]),
            vcpus=cores,
            memory_gib=host["cpu_ram"] * share / 1024,
            gpus=host["num_gpus"],
            gpu_name=name,
            gpu_memory_gb=host["gpu_ram"] / 1024,
            spot=False,
        )
        rows.append(row)
        if host.get("min_bid"):
            rows.append(replace(row, usd_per_hour=float(host["min_bid"]), spot=True))
    return Fetched(rows=tuple(rows))


def _asked(name: str, euro_usd: float) -> Fetched:
    """Ask a provider with the keys in the environment, through gpuhunt; Vast.ai without either."""
    if name == "vastai":
        return _vastai()
    try:
        gpuhunt = import_module("gpuhunt")
        default = import_module("gpuhunt._internal.default")
    except ImportError:
        return Fetched(error="it needs gpuhunt: pip install 'gpu-advisor[prices]'")
    [(module, kind)] = [
        item for item in default.ONLINE_PROVIDER_MODULES if item[0].endswith(f".{name}")
    ]
    with _silent():
        try:
            provider = getattr(import_module(module), kind).from_env()
        except default.MissingCredsError:
            return Fetched(error="no key for it is in the environment")
        catalog = gpuhunt.Catalog(balance_resources=False, auto_reload=False)
        catalog.add_provider(provider)
        try:
            items = catalog.query(provider=name, min_gpu_count=1)
        except (gpuhunt.GPUHuntError, *BROKEN) as error:
            return Fetched(error=f"it did not answer, or the answer is unusable ({reason(error)})")
    market, rate = name in MARKETPLACES, euro_usd if feeds().currencies.get(name) == "EUR" else 1.0
    return Fetched(
        rows=tuple(
            Row(
                instance=f"{item.gpu_count}x {item.gpu_name}" if market else item.instance_name,
                region=item.location,
                usd_per_hour=item.price * rate,
                vcpus=item.cpu,
                memory_gib=item.memory,
                gpus=item.gpu_count,
                gpu_name=item.gpu_name or "",
                gpu_memory_gb=item.gpu_memory or 0.0,
                spot=item.spot,
                flags=tuple(item.flags),
            )
            for item in items
        )
    )


@contextmanager
def _silent() -> Iterator[None]:
    """Keep gpuhunt's log off the terminal."""
    logger = logging.getLogger("gpuhunt")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
