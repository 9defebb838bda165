"""Hosted models beside machines: a month's bill for the same requests, and break-even."""

from __future__ import annotations

from typing import Final

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.catalog.api_prices import ApiPrice, api_named
from advisor.catalog.loader import load_hosted
from advisor.equations.pricing import api_request_usd, break_even_requests_per_day
from advisor.errors import refusal
from advisor.estimate.beside_results import ApiComparison, ApiOption
from advisor.estimate.results import Estimate
from advisor.foundation.dates import dated
from advisor.foundation.formatting import count, money, percent
from advisor.foundation.record import record
from advisor.foundation.units import DAY_S, HOUR_S, HOURS_PER_MONTH, round_significant
from advisor.nouns.case import Case
from advisor.nouns.money import Renting
from advisor.nouns.workload import Serving

SHOWN: Final = 5
SAME: Final = "the provider names the same weights; it may serve them in another number format"
OTHER: Final = "another model: compare its answers on your own task before you switch"
STATED: Final = "your prices; whether it has the same weights is not known"


@record
class Hosted:
    """One hosted model with its prices of a million tokens."""

    provider: str
    model: str
    same_weights: bool
    caveat: str
    input_usd: float
    cached_usd: float | None
    output_usd: float
    price_date: str = ""
    source: str = "your prices"

    @classmethod
    def listed(cls, item: ApiPrice, preset: str) -> Hosted:
        """Return a row of the table."""
        same = item.weights == "same" and item.preset == preset
        caveat = f"{SAME if same else OTHER}{'; ' if item.notes else ''}{item.notes}"
        return cls(
            provider=item.provider,
            model=item.model,
            same_weights=same,
            caveat=caveat,
            input_usd=item.input_usd,
            cached_usd=item.cached_input_usd,
            output_usd=item.output_usd,
            price_date=item.price_date,
            source=item.source,
        )

    @property
    def title(self) -> str:
        """Whose it is, for answers."""
        return f"{self.provider} API" if self.price_date else "API at your prices"

    def request_usd(self, case: Case) -> float:
        """Return the price of one request of a served case; 0 for other work. [USD]

        Prompts hit the provider's cache as often as stated, or as often as that of a machine.
        """
        workload = case.workload
        if not isinstance(workload, Serving):
            return 0.0
        found_again = workload.cached_tokens / workload.input_tokens
        return float(
            api_request_usd(
                input_tokens=workload.input_tokens,
                output_tokens=workload.output_tokens,
                input_usd=self.input_usd,
                output_usd=self.output_usd,
                cached_share=case.renting.api_cached_share or found_again,
                cached_usd=self.input_usd if self.cached_usd is None else self.cached_usd,
            )
        )


def hosted_models(case: Case, architecture: ModelArchitecture) -> tuple[Hosted, ...]:
    """Return the hosted models that a served text is compared with.

    The user's own prices and the named one; without them, those of the same weights, cheapest first
    for the case's requests. Raises InputError if the named one is unknown, or an answer's price
    comes without that of its prompt.
    """
    workload, renting = case.workload, case.renting
    if not isinstance(workload, Serving) or not architecture.generates:
        return ()
    preset = architecture.name
    found = [] if renting.api_usd_per_million is None else [_stated(renting)]
    if renting.api is not None:
        found.append(Hosted.listed(api_named(renting.api, load_hosted()), preset))
    if found:
        return tuple(found)
    same = [Hosted.listed(item, preset) for item in load_hosted() if item.preset == preset]
    same.sort(key=lambda item: (item.request_usd(case), item.provider, item.model))
    return tuple(same)


def _stated(renting: Renting) -> Hosted:
    price, prompt = renting.api_usd_per_million, renting.api_input_usd_per_million
    if price is None or prompt is None:
        raise refusal("no_prompt_price")
    return Hosted(
        provider="your prices",
        model="",
        same_weights=False,
        caveat=STATED,
        input_usd=prompt,
        cached_usd=renting.api_cached_usd_per_million,
        output_usd=price,
    )


def beside_api(
    case: Case, architecture: ModelArchitecture, estimate: Estimate
) -> ApiComparison | None:
    """Compare a configuration with hosted models; None unless it writes text that one serves."""
    serving, workload = estimate.serving, case.workload
    if serving is None or serving.unit is not Unit.TOKEN or not isinstance(workload, Serving):
        return None
    hosted = hosted_models(case, architecture)
    if not hosted:
        return None
    rent = estimate.cost.rent_usd
    demand = workload.demand
    rates = demand.rates() if demand else [serving.requests_per_s.expected]
    per_day = sum(rates) / len(rates) * DAY_S
    options = tuple(
        _option(
            item,
            usd_per_request=item.request_usd(case),
            per_day=per_day,
            rent=None if rent is None else rent.expected,
        )
        for item in hosted[:SHOWN]
    )
    return ApiComparison(
        sentence=_sentence(options[0], per_day, all_day=demand is None),
        requests_per_day=per_day,
        machines_usd_per_month=None if rent is None else rent.expected,
        options=options,
    )


def with_api(case: Case, architecture: ModelArchitecture, estimate: Estimate) -> Estimate:
    """Return an estimate with the hosted models beside it."""
    found = beside_api(case, architecture, estimate)
    return estimate if found is None else estimate.changed(api=found)


def _option(
    item: Hosted, *, usd_per_request: float, per_day: float, rent: float | None
) -> ApiOption:
    even = None
    if rent is not None and usd_per_request > 0:
        even = float(
            break_even_requests_per_day(usd_per_month=rent, usd_per_request=usd_per_request)
        )
    return ApiOption(
        provider=item.provider,
        model=item.model,
        same_weights=item.same_weights,
        caveat=item.caveat,
        input_usd_per_million=item.input_usd,
        cached_input_usd_per_million=item.cached_usd,
        output_usd_per_million=item.output_usd,
        usd_per_request=usd_per_request,
        usd_per_month=usd_per_request * per_day * HOURS_PER_MONTH / (DAY_S / HOUR_S),
        break_even_requests_per_day=even,
        break_even_utilization=None if even is None else even / per_day,
        price_date=item.price_date,
        source=item.source,
    )


def _sentence(option: ApiOption, per_day: float, *, all_day: bool) -> str:
    """Return the first option's bill and break-even in words; ``all_day``: at a steady load."""
    who = " ".join(part for part in (option.provider, option.model) if part)
    day = f", price of {dated(option.price_date)}" if option.price_date else ""
    month = money(round_significant(option.usd_per_month, 2))
    text = (
        f"{who} at {money(option.input_usd_per_million)} in and "
        f"{money(option.output_usd_per_million)} out for a million tokens{day}: {month} a month "
        f"for the {_about(per_day)} requests a day "
        f"{'that these machines answer' if all_day else 'of the stated demand'}. "
    )
    even, share = option.break_even_requests_per_day, option.break_even_utilization
    if even is not None and share is not None:
        text += (
            f"The machines cost less above {_about(even)} requests a day, {percent(share)} of that."
            if share <= 1
            else f"The machines cost more{', even at that load all day' if all_day else ''}."
        )
    return f"{text} Note: {option.caveat}.".replace("  ", " ")


def _about(number: float) -> str:
    return count(int(round_significant(max(number, 1.0), 2)))
