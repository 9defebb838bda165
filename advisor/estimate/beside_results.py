"""Results beside an estimate: curves, the bill of a day, and hosted models."""

from functools import cache
from typing import Literal

from advisor.architecture.table.model import Unit
from advisor.foundation.formatting import memory, money, percent
from advisor.foundation.noun import Noun, read_mapping
from advisor.foundation.quantities import Range
from advisor.foundation.units import round_significant


class ApiOption(Noun):
    """One hosted model at its list prices, for the requests of the case."""

    provider: str
    model: str
    same_weights: bool
    """Whether the provider names the case's weights."""
    caveat: str
    """What differs from serving the model yourself."""
    input_usd_per_million: float
    cached_input_usd_per_million: float | None
    output_usd_per_million: float
    usd_per_request: float
    usd_per_month: float
    """For as many requests as the machines answer. [USD]"""
    break_even_requests_per_day: float | None
    """Above it, the machines' rent is less; None without a rent. [1/day]"""
    break_even_utilization: float | None
    """That, over what the machines answer in a day; above 1, the API costs less at any load that
    they can carry."""
    price_date: str
    """Empty for prices that the user stated."""
    source: str


class ApiComparison(Noun):
    """Hosted models beside one configuration."""

    sentence: str
    requests_per_day: float
    """What the machines answer at the case's load, in use all day. [1/day]"""
    machines_usd_per_month: float | None
    """Rent of 730 hours; None for hardware without a rent. [USD]"""
    options: tuple[ApiOption, ...]
    """The stated ones, or those of the same weights, cheapest first."""


class DayHour(Noun):
    """One hour of the day."""

    hour: int
    requests_per_s: float
    """Mean of the hour. [requests/s]"""
    needed: float
    """Replicas that meet the targets, mean of the hour."""
    running: float
    """Replicas of the autoscaled fleet that answer, mean of the hour."""


class DayWay(Noun):
    """One way of renting through the day."""

    name: str
    """``fixed`` | ``autoscaled`` | ``reserved`` | ``spot``."""
    title: str
    usd_per_month: float
    """730 hours of days like this. [USD]"""
    idle_usd: float
    """Of it, for replicas beyond those that the requests keep busy. [USD]"""
    idle_share: float
    late_share: float
    """Requests that arrive when too few replicas run."""
    least_replicas: int
    most_replicas: int
    note: str = ""

    @property
    def cells(self) -> dict[str, str]:
        """The bill as text, by column."""
        return {
            "Way": self.title,
            "Rent": f"{money(self.usd_per_month)} a month",
            "Idle": f"{money(self.idle_usd)} ({percent(self.idle_share)})",
            "Requests late": percent(self.late_share),
            "Replicas": f"{self.least_replicas} to {self.most_replicas}",
        }


class Day(Noun):
    """A day or a week of requests on one layout."""

    peak_requests_per_s: float
    mean_requests_per_s: float
    requests_per_replica_s: float
    """Most that one replica takes within the targets. [requests/s]"""
    start_s: float
    """From the decision to the first answer of a new replica. [s]"""
    hold_s: float
    """Time for which a lower need lasts before replicas go. [s]"""
    hours: tuple[DayHour, ...]
    ways: tuple[DayWay, ...]
    """The fixed fleet first."""
    assumptions: tuple[str, ...] = ()

    @property
    def cheapest(self) -> DayWay:
        """The way with the least bill."""
        return min(self.ways, key=lambda way: way.usd_per_month)


Variable = Literal["micro_batch", "concurrency", "sequence_length", "context"]


class CurveWords(Noun):
    """The words of a curve, as the file describes them."""

    title: str
    tried: str
    some_fit: str
    unit: str = ""
    larger: str = ""


@cache
def curve_words() -> dict[str, CurveWords]:
    """Return the words of each curve."""
    return read_mapping("curve_words.yaml", dict[str, CurveWords])


class CurvePoint(Noun):
    """One configuration of a curve."""

    value: int
    memory_bytes: Range
    """On the fullest accelerator. [bytes]"""
    usable_bytes: float
    speed_per_s: Range
    """Units of the whole job; generated tokens for text. [1/s]"""
    unit: Unit = Unit.TOKEN
    """Unit of the speed."""
    fits: bool
    """The high end of the range fits."""


class Curve(Noun):
    """Memory and speed against one quantity, with all else unchanged."""

    variable: Variable
    chosen: int
    """Its value in the case."""
    points: tuple[CurvePoint, ...]
    """Smallest value first."""
    usable_bytes: float
    limit: int
    """Largest value that fits, within 2 %; 0 if none fits."""
    open_ended: bool
    """Every tried value fits, and the limit is the largest of them."""
    knee: int | None
    """Smallest value tried that reaches 95 % of the best speed that fits."""

    @property
    def title(self) -> str:
        """What changes along the curve."""
        return curve_words()[self.variable].title

    @property
    def sentence(self) -> str:
        """The largest value that fits and where the speed flattens."""
        words = curve_words()[self.variable]
        if not self.limit:
            return f"No {words.tried} that was tried fits in {memory(self.usable_bytes)}."
        text = words.some_fit.format(size=f"{round_significant(self.limit, 3, 'down'):,.0f}")
        if self.open_ended:
            text = f"Every {words.tried} that was tried fits, up to {self.limit:,}{words.unit}."
        if self.knee is not None and words.larger:
            text += f" From {self.knee:,} on, {words.larger} less than 5 % of speed."
        return f"{text} Chosen: {self.chosen:,}."
