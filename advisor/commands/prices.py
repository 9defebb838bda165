"""The command on prices: their age, offers by card, live ones."""

from argparse import Namespace
from pathlib import Path

from advisor import api
from advisor.commands.answering import answered
from advisor.foundation.files.writing import write_whole
from advisor.foundation.formatting import duration
from advisor.foundation.parsing import parse_amount, parse_count, parse_duration


def prices(arguments: Namespace) -> None:
    """Show, list or refresh prices."""
    {"show": _show, "list": _list, "refresh": _refresh}[arguments.action](arguments)


def _show(arguments: Namespace) -> None:
    catalog = api.load_catalog()
    if arguments.usd_per_eur is not None:
        rate = parse_amount(arguments.usd_per_eur, field="--usd-per-eur")
        catalog = catalog.at_rate("EUR", rate)
    answered(arguments, api.price_overview(catalog, providers=arguments.provider))


def _list(arguments: Namespace) -> None:
    wanted = {"count": arguments.count, "commit": arguments.commit}
    numbers = {name: text and parse_count(text, field=f"--{name}") for name, text in wanted.items()}
    found = api.list_offers(
        api.load_catalog(),
        arguments.accelerators,
        providers=arguments.provider,
        regions=arguments.region,
        count=numbers["count"],
        spot=arguments.spot,
        commitment_months=numbers["commit"],
        order=arguments.sort,
    )
    if arguments.csv is not None:
        write_whole(Path(arguments.csv), api.offers_csv(found))
    answered(arguments, found)


def _refresh(arguments: Namespace) -> None:
    least = arguments.if_older_than
    young_s = None if least is None else parse_duration(least, field="--if-older-than")
    if young_s is not None and (age_s := api.prices_age_s()) <= young_s:
        stay = f"The live prices are {duration(age_s)} old, so they stay."
        print(api.load_catalog().prices.to_json() if arguments.json else stay)
        return
    from advisor.terminal.prices import progress_bar

    with progress_bar() as progress:
        report = api.refresh_prices(
            progress=progress,
            online=arguments.online or bool(arguments.region),
            regions=arguments.region,
        )
    answered(arguments, report)
