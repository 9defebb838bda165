"""A hosted model beside machines: prices, a month's bill and break-even."""

from advisor.foundation.noun import Noun


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
