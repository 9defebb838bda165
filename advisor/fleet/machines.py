"""Whole machines that can be bought, of ``data/machines.yaml``, and what a buyer has to know."""

from functools import cache
from typing import Annotated, Final, Literal

from pydantic import Field

from advisor.catalog import Catalog, load_catalog
from advisor.catalog.economy import Economy, load_economy
from advisor.catalog.nodes import WORKSTATION_SLOTS, groups_of, host_default, owned_node
from advisor.equations.energy import WATTS_PER_KW, rated_kw
from advisor.equations.owning import capital_usd
from advisor.errors import refusal
from advisor.foundation import cents
from advisor.foundation.noun import Noun, read_record, refuse
from advisor.foundation.record import record
from advisor.foundation.resources import data_path
from advisor.foundation.units import GB
from advisor.nouns.hardware import Accelerator, Confidence, Node, Segment
from advisor.nouns.money import Owning
from advisor.planning.search.systems import System

PLATFORMS: Final = {
    "NVIDIA": "CUDA",
    "AMD": "ROCm",
    "Apple": "Metal",
    "Intel": "oneAPI",
    "Google": "XLA",
    "AWS": "Neuron",
}
"""Software platform by vendor; the one with the most tools first."""
GAUDI: Final = "Gaudi"
"""Intel's Gaudi has software of its own."""
MACHINES: Final = "machines.yaml"
PAIRED_CARDS: Final = 8
"""Fewest cards in a machine of which two hold one replica of a service. Runs take up to eight."""
CONSUMER_FLOOR_BYTES: Final = 16.0 * GB
"""Smallest memory of a consumer card that is offered for deep learning: below it, fine-tuning of
8-billion-parameter models and 14-billion-parameter chat do not fit. Assumed. [bytes]"""

GROUPS: Final = {
    "compact": ("computer", "desktop"),
    "cpu": ("cpu", "server"),
    "desktop": ("desktop",),
    "edge": ("edge", "desktop"),
    "mac": ("computer", "desktop"),
    "server": ("server",),
    "workstation": ("workstation", "desktop"),
}
"""Groups of ``owning_defaults.csv`` by kind of machine, most specific first."""

Words = Annotated[str, Field(max_length=600)]
Key = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")]
IsoDate = Annotated[str, Field(pattern=r"^\d{4}(-\d\d){0,2}$")]
Usd = Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]


def platform_of(card: Accelerator) -> str:
    """Return the software platform of a card; empty for processors, which any software runs on."""
    if card.segment is Segment.CPU:
        return ""
    if card.architecture.startswith(GAUDI):
        return GAUDI
    return PLATFORMS.get(card.vendor, card.vendor)


class MachineSource(Noun):
    """Where facts of a row come from."""

    title: Words
    locator: Words
    date: IsoDate
    confidence: Confidence


class MachineRow(Noun):
    """A chassis with each of several cards: a row that ``data/README.md`` explains."""

    title: Words
    kind: Literal["compact", "cpu", "desktop", "edge", "mac", "server", "workstation"]
    cards: Annotated[int, Field(ge=1, le=16)]
    accelerators: Annotated[tuple[Key, ...], Field(min_length=1)]
    card_usd: dict[Key, Usd] = Field(default_factory=dict)
    used: bool = False
    mine: bool = False
    """Somebody has it: its price does not matter. No row of the file."""
    rated_w: Annotated[float, Field(gt=0, le=1e5)] | None = None
    rack_units: Annotated[int, Field(ge=0, le=48)] = 0
    noise_dba: Annotated[float, Field(ge=0, le=120)]
    delivery_weeks: Annotated[float, Field(ge=0, le=104)]
    serves_only: bool = False
    software: Words = ""
    network: bool = False
    life_years: Annotated[float, Field(ge=1, le=20)] | None = None
    sources: dict[str, Key]


class Slice(Noun):
    """A part of one card that a service holds alone."""

    title: Words
    instances: Annotated[int, Field(ge=2, le=64)]
    cards: dict[Key, Key] = Field(default_factory=dict)
    platform: Words = ""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    source: Key

    def card(self, whole: Accelerator, catalog: Catalog) -> Accelerator | None:
        """Return the part as a card of its own; None if the card cannot be divided so."""
        if whole.key in self.cards:
            return catalog.accelerator(self.cards[whole.key])
        if not self.platform or platform_of(whole) != self.platform:
            return None
        return whole.changed(
            key=f"{whole.key}-{self.instances}",
            memory_marketed_bytes=whole.memory_marketed_bytes * self.share,
            memory_reported_bytes=whole.memory_reported_bytes * self.share,
            memory_bandwidth_bytes_per_s=whole.memory_bandwidth_bytes_per_s * self.share,
            peak_flops_per_s={
                name: rate * self.share for name, rate in whole.peak_flops_per_s.items()
            },
        )


class _Table(Noun):
    sources: dict[Key, MachineSource]
    classics: tuple[Key, ...]
    slices: dict[Key, Slice]
    machines: dict[Key, MachineRow]


@record
class Machine:
    """One machine that can be bought: a row with one of its cards."""

    key: str
    row: MachineRow
    card: Accelerator
    usd: float
    """Price of the whole machine. [USD]"""
    price_source: MachineSource
    rated_w: float
    """[W]"""
    host_usd: float
    """Of that price, all but the cards; 0 where it is sold complete. [USD]"""

    @property
    def title(self) -> str:
        """Name for display."""
        row = self.row
        if row.cards == 1 and row.kind in ("compact", "mac") and not row.mine:
            return row.title
        name = self.card.name.removeprefix(f"{self.card.vendor} ")
        number = f"{row.cards} x " if row.cards > 1 else "a " if row.used else ""
        chassis = row.title.partition(" with ")[0]
        used = "used " if row.used and not chassis.startswith("Used") else ""
        return f"{chassis} with {number}{used}{name}"

    @property
    def facts(self) -> dict[str, str | float]:
        """What a list of machines says of it, by field."""
        row = self.row
        return {
            "key": self.key,
            "title": self.title,
            "accelerator": self.card.key,
            "cards": row.cards,
            "usd": cents.rounded(self.usd),
            "rated_w": self.rated_w,
            "rack_units": row.rack_units,
            "noise_dba": row.noise_dba,
            "delivery_weeks": row.delivery_weeks,
        }

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of the defaults of owning that apply to it, most specific first."""
        return GROUPS[self.row.kind]

    @property
    def node(self) -> Node:
        """The machine as the estimate sees it: all its cards in one."""
        node = owned_node(self.card, self.row.cards)
        network = node.inter_bytes_per_s if self.row.network else None
        intra = min(node.intra_domain, self.row.cards) if self.row.cards > 1 else 1
        return node.changed(
            accelerators=self.row.cards, intra_domain=max(intra, 1), inter_bytes_per_s=network
        )

    @property
    def price_date(self) -> str:
        """Day of the price of the machine, or of its cards."""
        row = self.row
        return self.price_source.date if row.card_usd else self.card.purchase_date or ""

    def network_usd(self, economy: Economy) -> float:
        """Price of its share of a network, where several work on one run. [USD]"""
        share = economy.default("network_share", *self.groups).expected
        return share * (self.usd - self.host_usd)

    @property
    def assumed(self) -> tuple[str, ...]:
        """Fields of the row that no source states."""
        facts = ("price", "rated_w", "rack_units", "noise_dba", "delivery_weeks")
        table = _table().sources
        keys = {name: self.row.sources.get(name, self.row.sources["default"]) for name in facts}
        return tuple(
            name for name, key in keys.items() if table[key].confidence is Confidence.MEMORY
        )


@cache
def _table() -> _Table:
    """Read the file; ``CatalogError`` if rows are wrong, out of order, or cite no known source."""
    from advisor.catalog.files.checks import check_order

    table = read_record(data_path(MACHINES), _Table)
    check_order(list(table.machines), file=MACHINES)
    for name, row in table.machines.items():
        for field, key in row.sources.items():
            if key not in table.sources:
                refuse(MACHINES, key, "Name a row of sources.", entry=name, field=field)
        for field in {"price", "default"} - row.sources.keys():
            refuse(MACHINES, None, "Name its source.", entry=name, field=f"sources.{field}")
    return table


def list_machines(catalog: Catalog | None = None) -> tuple[Machine, ...]:
    """Return the whole machines that a fleet can consist of, with price and power."""
    return machines(catalog or load_catalog(), load_economy())


def machines(
    catalog: Catalog, economy: Economy, owning: Owning | None = None
) -> tuple[Machine, ...]:
    """Return every machine that can be bought, with its price and rated power.

    What ``owning`` states of the rest of a machine replaces the defaults. Consumer cards below
    ``CONSUMER_FLOOR_BYTES`` and cards without a price are left out.
    """
    found = []
    for name, row in _table().machines.items():
        for accelerator in row.accelerators:
            key = f"{name}/{accelerator}"
            machine = _machine(key, row, catalog, accelerator, economy, owning or Owning())
            if machine is not None:
                found.append(machine)
    return tuple(found)


def classics(catalog: Catalog) -> list[Accelerator]:
    """Return the cards that guides to cheap deep learning name most."""
    return [catalog.accelerator(key) for key in _table().classics]


def slices() -> tuple[Slice, ...]:
    """Return the parts of cards that services may share, the largest first."""
    return tuple(sorted(_table().slices.values(), key=lambda item: item.instances))


def machine_named(key: str, catalog: Catalog, economy: Economy) -> Machine:
    """Return one machine by its key, e.g. ``desktop-1/rtx-5090``.

    Raises InputError if no machine has this key. The message names those with a similar one.
    """
    known = {machine.key: machine for machine in machines(catalog, economy)}
    if key in known:
        return known[key]
    parts = key.partition("/")
    near = [name for name in known if parts[0] in name or (parts[2] and parts[2] in name)]
    raise refusal("unknown_machine", value=key, allowed=", ".join(near or known))


def below_floor(card: Accelerator) -> bool:
    """Whether a consumer card has too little memory to be offered."""
    return (
        card.segment is Segment.CONSUMER
        and not card.shares_host_memory
        and card.memory_marketed_bytes < CONSUMER_FLOOR_BYTES
    )


def _machine(
    key: str, row: MachineRow, catalog: Catalog, accelerator: str, economy: Economy, owning: Owning
) -> Machine | None:
    card = catalog.accelerator(accelerator)
    usd = row.card_usd.get(accelerator, card.purchase_usd)
    if row.mine:
        usd = 0.0
    elif below_floor(card):
        usd = None
    if usd is None or card.board_power_w is None:
        return None
    groups = GROUPS[row.kind]
    # A stated share leaves no least price, as in ``own``.
    stated = owning.host_share
    usual = 0.0 if stated is not None else host_default(economy, card, row.cards).expected
    least = usual if owning.host_usd is None else owning.host_usd
    whole = float(
        capital_usd(
            accelerators=row.cards,
            purchase_usd=usd,
            host_share=economy.stated(owning, "host_share", *groups),
            network_share=0.0,
            machines=1,
            host_usd=least,
        )
    )
    host_usd = whole - row.cards * usd
    rated = row.rated_w or WATTS_PER_KW * float(
        rated_kw(
            accelerators=row.cards,
            board_power_w=card.board_power_w or 0.0,
            host_power_share=economy.stated(owning, "host_power_share", *groups),
        )
    )
    source = _table().sources[row.sources["price"]]
    return Machine(key, row, card, whole, source, rated, host_usd)


def machines_of(
    key: str, number: int, catalog: Catalog, economy: Economy
) -> list[tuple[Machine, int]]:
    """Return a machine by its key, or those in which somebody has so many cards; number of each.

    As full as ``owned_node`` fills them, then one with the rest: a machine that is sold so, or one
    of its kind around these cards. Raises InputError if nobody can own the card.

    >>> found = machines_of("rtx-3060-12gb", 2, load_catalog(), load_economy())
    >>> [(machine.key, each) for machine, each in found]
    [('desktop-of-2/rtx-3060-12gb', 1)]
    """
    if "/" in key:
        return [(machine_named(key, catalog, economy), number)]
    card = catalog.accelerator(key)
    room = PAIRED_CARDS if groups_of(card)[-1] == "server" else WORKSTATION_SLOTS
    most = min(number, room, owned_node(card, number).accelerators)
    parts = [(most, number // most)] + [(number % most, 1)] * (number % most > 0)
    return [(_around(card, cards, catalog, economy), each) for cards, each in parts]


def _around(card: Accelerator, cards: int, catalog: Catalog, economy: Economy) -> Machine:
    for sold in machines(catalog, economy):
        if (sold.card.key, sold.row.cards, sold.row.used) == (card.key, cards, False):
            return sold
    groups, rows = groups_of(card, cards), _table().machines
    kind = next((kind for kind, item in GROUPS.items() if item == groups), "desktop")
    like = min(
        (row for row in rows.values() if row.kind == kind and not row.used),
        key=lambda row: (abs(row.cards - cards), row.rack_units),
    )
    title = f"{'Server' if groups[-1] == 'server' else 'Computer'} of yours"
    row = like.changed(title=title, cards=cards, rated_w=None, mine=True)
    found = _machine(f"{kind}-of-{cards}/{card.key}", row, catalog, card.key, economy, Owning())
    rented_only = card.form_factor == "board" and card.segment is not Segment.CPU
    if found is None or rented_only:
        raise refusal("unknown_machine", value=card.key, allowed=", ".join(rows))
    return found


def mark(machine: Machine) -> str:
    """Return the note by which a search's system names its machine."""
    return f"Machine: {machine.title} ({machine.key})."


def machine_system(machine: Machine, *, training: bool) -> System:
    """Return a machine as the search takes it; only networked ones work together."""
    node = machine.node
    cards = machine.row.cards
    counts = {2**power for power in range(5) if 2**power <= cards} | {cards}
    doublings = 3 if training else int(cards >= PAIRED_CARDS)
    if node.inter_bytes_per_s is not None:
        counts |= {cards * 2**power for power in range(1, doublings + 1)}
    assumptions = (mark(machine), *node.assumptions)
    return System(
        machine.card, node.changed(assumptions=assumptions), (), tuple(sorted(counts)), owned=True
    )
