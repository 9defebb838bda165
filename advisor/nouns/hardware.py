"""What the work runs on: accelerators, nodes, interconnects and rental offers."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from advisor.foundation.dates import LAUNCH_DAYS, age_days
from advisor.foundation.names import Name, Text
from advisor.foundation.noun import Noun
from advisor.foundation.units import GB, GIB
from advisor.nouns.inputs import Labelled

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


LIST_PRICE: Final = "msrp"
PURCHASE_WORDS: Final = {LIST_PRICE: "list price", "street": "shop price", "estimate": "estimate"}
"""Kinds of prices to buy in words."""


class Confidence(StrEnum):
    """How a catalog value was obtained, strongest first."""

    DATASHEET = "datasheet-read"
    """Read in the vendor's own document; of an offer, in the provider's list or API."""
    SECONDARY = "secondary"
    DERIVED = "derived"
    MEMORY = "memory"
    """Recalled by a person and not checked; always shown to users as such."""


class Provenance(Noun):
    """Where one catalog value comes from."""

    source: Name
    """Key into the catalog's ``sources``."""
    date: Name
    """Date of the source, or the date on which it was read. ISO 8601, possibly truncated."""
    confidence: Confidence


class Segment(Labelled):
    """Market segment of an accelerator."""

    CONSUMER = "consumer", "Consumer"
    WORKSTATION = "workstation", "Workstation"
    DATACENTER = "datacenter", "Data centre"
    TPU = "tpu", "TPU"
    ASIC = "asic", "Other chips"
    EDGE = "edge", "Edge"
    CPU = "cpu", "Processors"


class Interconnect(Noun):
    """The fast links that join accelerators without the network."""

    name: Name
    bytes_per_s: Positive
    """Per accelerator and per direction. [bytes/s]"""
    domain_size: Annotated[int, Field(ge=1)]
    """Accelerators that reach each other at this speed; 1 means no such link."""


class Accelerator(Noun):
    """One accelerator (or CPU socket): dense rates with fp32 accumulation only."""

    key: Name
    name: Name
    vendor: Name
    architecture: Name
    year: int
    segment: Segment
    form_factor: Name
    memory_marketed_bytes: Positive
    """For display only."""
    memory_reported_bytes: Positive
    """What the driver shows; decides what fits. [bytes]"""
    memory_reported_derived: bool
    """True where no reported figure is published and it was derived from the marketed one."""
    memory_type: Name
    memory_bandwidth_bytes_per_s: Positive
    cache_bytes: Positive | None = None
    """Last-level cache of a processor; None: its effect is left out. [bytes]"""
    peak_flops_per_s: dict[Name, float]
    """Dense peak by format: fp32, tf32, bf16, fp16, fp8, fp4, int8, int4. Absent = unsupported
    or unknown. Integer formats count operations."""
    peak_flops_per_s_fp16_accumulate: dict[Name, float] = Field(default_factory=dict)
    """Dense peak with fp16 accumulation, for display (GeForce doubles it)."""
    board_power_w: Positive | None
    interconnect: Interconnect | None
    """None where accelerators meet over PCIe or the network only."""
    network_bytes_per_s: Positive | None = None
    """Network of each accelerator beyond its link domain, where the maker builds it in. None: that
    of the machine."""
    pcie_generation: int | None
    pcie_lanes: int = 16
    """Lanes that the card connects, whatever the slot offers."""
    compute_capability: Name | None
    purchase_usd: Positive | None
    purchase_date: Name | None
    purchase_kind: Name | None
    """``msrp`` | ``street`` | ``estimate``."""
    no_purchase: Text | None = None
    """Why there is no price to buy it; None where there is one, or nothing is known."""
    provenance: dict[Name, Provenance]
    """By field name; the key ``default`` covers fields without one of their own."""
    inference_only: bool = False
    """True for parts without a training software stack."""
    notes: Text = ""

    @property
    def memory_raised_bytes(self) -> float:
        """Memory that the card may use if its owner raises the system's limit. [bytes]

        Of a memory that it shares with its host, all but ``SYSTEM_BYTES`` can be given: macOS
        gives three quarters, which ``sysctl iogpu.wired_limit_mb`` raises; Linux has
        ``amdgpu.gttsize`` and ``ttm.pages_limit``.
        """
        if not self.shares_host_memory or self.segment is Segment.CPU:
            return self.memory_reported_bytes
        whole = self.memory_marketed_bytes / GB * GIB
        return max(self.memory_reported_bytes, whole - SYSTEM_BYTES)

    @property
    def memory_free_bytes(self) -> float:
        """Memory that an engine finds free at its start, of which it takes a share. [bytes]

        A chip that shares its memory with its host reports all of it, and the system holds some.
        """
        whole = self.memory_reported_bytes
        shares = self.shares_host_memory and self.segment is not Segment.CPU
        return whole - min(SYSTEM_BYTES, SYSTEM_SHARE * whole) if shares else whole

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance: a part of a card that its owner divided."""
        return self.form_factor == "MIG instance"

    @property
    def stands_alone(self) -> bool:
        """Whether no link joins it to another of its kind: MIG instances, computers, laptops."""
        return self.is_instance or self.form_factor == "laptop" or isinstance(self, UnlikeCards)

    @property
    def shares_host_memory(self) -> bool:
        """Whether its memory is that of its host: processors and chips that hold both."""
        return self.segment is Segment.CPU or self.memory_type.endswith(("(unified)", "(shared)"))

    @property
    def peer_to_peer(self) -> bool:
        """Whether cards reach each other over PCIe without the host's memory.

        NVIDIA's driver switches it off on GeForce cards
        (github.com/tinygrad/open-gpu-kernel-modules, README; read 2026-11-22).
        """
        return not (self.vendor == "NVIDIA" and self.segment is Segment.CONSUMER)

    def at_launch_price(self, *, today: date | None = None) -> bool:
        """Whether its price to buy is a list price over a year old."""
        dated = self.purchase_date if self.purchase_kind == LIST_PRICE else None
        return dated is not None and age_days(dated, today=today) > LAUNCH_DAYS

    def price_words(self, *, today: date | None = None) -> str:
        """Return what kind of price to buy it has, and of when; empty without a price."""
        if self.purchase_usd is None:
            return ""
        launch = self.at_launch_price(today=today)
        kind = "launch price" if launch else PURCHASE_WORDS.get(self.purchase_kind or "", "price")
        return f"{kind} of {self.purchase_date}" if self.purchase_date else kind

    def source_of(self, field: str) -> Provenance:
        """Return where ``field`` comes from; ``peak_flops_per_s.bf16`` names one format."""
        whole = self.provenance.get(field.partition(".")[0], self.provenance["default"])
        return self.provenance.get(field, whole)


class UnlikeCards(Accelerator):
    """Cards of different kinds in one computer, over which a server divides a model's layers.

    Rates and memory are those of all of them together when every card is full.
    """

    parts: Annotated[tuple[Accelerator, ...], Field(min_length=2)]
    """The cards, the one with the fastest memory first."""
    usable_share: Annotated[float, Field(gt=0, le=1)]
    """Of each card's memory, for layers and their cache."""


class UnlikeFacts(Noun):
    """``data/unlike_cards.yaml``: which cards go together, and what each of them keeps."""

    form_factor: Text
    """Start of the form factors that go into a slot."""
    most_cards: Annotated[int, Field(ge=2)]
    further_card_gib: Annotated[float, Field(ge=0)]
    """Driver context and compute buffers of each card after the first. [GiB]"""
    usable_share: Annotated[float, Field(gt=0, le=1)]
    pcie_generation: Annotated[int, Field(ge=1)]
    source: Text


MOST_ACCELERATORS: Final = 1_000_000
"""Of one machine or offer; the largest slices of TPUs have about 10,000."""
JOIN: Final = "+"
"""Between the keys of unlike cards."""

SYSTEM_BYTES: Final = 8.0 * GIB
"""Memory that a computer with unified memory keeps for its system and programs. Assumed."""
SYSTEM_SHARE: Final = 1 / 15
"""Most of it. On DGX Spark, vLLM starts with shares of 0.80 to 0.86 of the memory, 0.92 x 14 / 15,
and seldom with more (recipes of NVIDIA's forum; vllm-project/vllm issue 46307; read 2026-11-29)."""


class Node(Noun):
    """A machine with accelerators of one kind, and what joins them and the machines."""

    accelerators: Annotated[int, Field(ge=1, le=MOST_ACCELERATORS)]
    intra_bytes_per_s: Positive
    """Between accelerators of one link domain, per accelerator and direction. [bytes/s]"""
    intra_domain: Annotated[int, Field(ge=1)]
    """Accelerators in one link domain; may exceed one node (NVL72)."""
    inter_bytes_per_s: Positive | None
    """Network per accelerator and direction [bytes/s]; None: no usable network, one node only."""
    pcie_bytes_per_s: Positive
    """Host to accelerator, per direction. [bytes/s]"""
    host_vcpus: Positive | None = None
    """Hardware threads of the host; None: not stated."""
    vcpus_per_accelerator: Positive
    """Assumed where ``host_vcpus`` is not stated."""
    host_memory_bytes: Positive
    """Memory of the host. [bytes]"""
    host_memory_bandwidth_bytes_per_s: Positive
    """Bandwidth of the host's memory, all channels together. [bytes/s]"""
    launch_s: Positive | None = None
    """Time of the host to start the smallest operation of a framework, where measured. [s]"""
    display_bytes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Memory that the screen and the desktop take from each card. [bytes]"""
    assumptions: tuple[Text, ...] = ()

    def links(self, cards: int) -> tuple[float, bool, bool]:
        """Return what decides how some of its accelerators communicate."""
        return self.intra_bytes_per_s, self.intra_domain >= cards, self.accelerators >= cards

    @property
    def host_cores(self) -> float:
        """Cores of the host, two threads each; assumed where not stated."""
        return (self.host_vcpus or self.vcpus_per_accelerator * self.accelerators) / 2.0


class PriceKind(Labelled):
    """How an offer is paid."""

    ON_DEMAND = "on_demand", "Rent on demand"
    SPOT = "spot", "Rent spot"


class Quote(Noun):
    """A price in the provider's own currency, and the rate that turned it into US dollars."""

    currency: Name
    """ISO 4217."""
    on_demand_per_hour: Positive | None
    spot_per_hour: Positive | None
    usd: Positive
    """US dollars for one unit of the currency."""
    rate_date: Name
    """ISO 8601; empty for a rate that the user gave."""

    @property
    def sentence(self) -> str:
        """The price as the provider lists it, and the rate."""
        prices = ((self.on_demand_per_hour, "an hour"), (self.spot_per_hour, "an hour as spot"))
        listed = " and ".join(f"{price:,.4g} {how}" for price, how in prices if price is not None)
        of = f" of {self.rate_date}" if self.rate_date else ", as given"
        return (
            f"Price listed as {self.currency} {listed} for one machine; "
            f"1 {self.currency} = {self.usd:g} USD{of}."
        )


class SoftwareSupport(Noun):
    """Software that a compute capability needs at least."""

    capability: Name
    cuda: Name
    """Lowest toolkit that targets it."""
    last_cuda: Name | None
    """Last toolkit that does; None where current ones do."""
    driver: Name
    """Lowest driver for that toolkit on Linux x86_64."""
    pytorch: Name
    """First release whose wheels run on it."""
    notes: Text
    provenance: dict[Name, Provenance]
    """By field name; ``default`` covers the rest."""

    def source_of(self, field: str) -> Provenance:
        """Return where ``field`` comes from."""
        return self.provenance.get(field, self.provenance["default"])


class Billing(Noun):
    """The steps in which a provider bills the time of an instance."""

    step_s: Positive = 60.0
    """A minute where the provider's is not known: of the 17 that are, 15 bill by the minute or
    second. [s]"""
    minimum_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Shortest time billed. [s]"""
    kept_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Serverless: time after the last request in which the machine runs on. None if it never stops
    by itself. [s]"""
    longest_s: Positive | None = None
    """Time after which the provider takes the machine back. None if it never does. [s]"""
    host_usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Cores and memory of the host, where they are billed apart from a card. [USD/h a card]"""
    commitment: Text = ""
    """The least term in words, where a machine is not rented by the hour."""


FIRM_TIER: Final = "on-demand list"
"""Tier of a price that a provider's list states for this machine."""
YOUR_QUOTE: Final = "Your quote"
YOUR_FILE: Final = "your-file"
"""Source of your own facts."""
"""Provider of a rent that a case states for its hardware; no limit of a search leaves it out."""
LOWEST_ASK: Final = "marketplace, lowest"
"""Tier of a price that one host of a marketplace asked at one moment. It is too uncertain for a
plan, so it is searched only if the user names the provider, or a card that has no other price."""
FROM_TIER: Final = "on-demand list, from"
"""Tier of the lowest price of a list ("from", "starting at"): a lower bound."""


TOGETHER: Final = " + "
"""Joins the keys of offers that one plan rents together."""


class Offer(Noun):
    """One rentable instance type of one provider, with its price on a date."""

    key: Name
    """``provider/instance_type/region/tier`` slug, unique in the catalog."""
    provider: Name
    instance_type: Name
    tier: Name
    region: Name
    accelerator: Name
    """Key of the accelerator."""
    accelerators: Annotated[int, Field(ge=1, le=MOST_ACCELERATORS)]
    """Accelerators in the whole instance."""
    vcpus: Positive | None
    host_memory_bytes: Positive | None
    on_demand_usd_per_hour: Positive | None
    """Whole instance. [USD/h]"""
    spot_usd_per_hour: Positive | None
    price_factor: Annotated[float, Field(ge=1)] = 1.0
    """Upper end of the price over the price; over 1 only for a price "from", never of spot."""
    price_date: Name
    """As the source states it, ISO 8601 or truncated."""
    intra_node: Text
    """Link between accelerators of the instance, in the source's words."""
    inter_node_bytes_per_s: Positive | None
    """Network of the whole instance per direction. [bytes/s]"""
    provenance: Provenance
    billing: Billing = Billing()
    commitment: Text = ""
    """Term and plan that the price on demand asks for; empty where it asks for none."""
    quote: Quote | None = None
    """The price as the provider states it; None where that is in US dollars."""
    notes: Text = ""

    @property
    def is_from(self) -> bool:
        """Whether the price on demand is the lowest of a list, and so a lower bound."""
        return self.tier == FROM_TIER
