"""The bill of a service through a day or a week: results."""

from advisor.foundation.noun import Noun


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
