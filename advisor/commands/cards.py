"""The commands about cards, models, software and prices by name."""

import json
from argparse import Namespace
from pathlib import Path

from advisor import api
from advisor.commands.answering import answered
from advisor.errors import refusal
from advisor.foundation.files.writing import write_whole
from advisor.foundation.formatting import duration
from advisor.foundation.parsing import parse_amount, parse_count, parse_duration, parse_length
from advisor.terminal.streams import print_content


def fits(arguments: Namespace) -> None:
    """Show the models that some cards can serve and train."""
    if arguments.accelerator is None:
        raise refusal("no_accelerator")
    found = api.fits(
        arguments.accelerator,
        count=parse_count(arguments.count or "1", field="--count"),
        context_tokens=parse_length(arguments.context, field="--context"),
        concurrency=parse_count(arguments.concurrency, field="--concurrency"),
        everything=arguments.everything,
    )
    answered(arguments, found)


def compare(arguments: Namespace) -> None:
    """Put cards side by side."""
    from advisor.compare.cards import Differences, compare_cards

    found = compare_cards(arguments.accelerators, api.load_catalog())
    if arguments.json and arguments.differences:
        print_content(Differences.of(found).to_json())
        return
    answered(arguments, found, differences=arguments.differences)


def presets(arguments: Namespace) -> None:
    """List the models that are known by name, or those whose name has a part."""
    from advisor.architecture.presets import list_presets, load_preset
    from advisor.architecture.table.model import Unit

    part = arguments.name or ""
    known = list_presets(Unit(arguments.takes) if arguments.takes else None, part=part)
    if part and not list_presets(part=part):
        load_preset(part)  # refuses it, and names the nearest
    print_content(json.dumps([*known], indent=2) if arguments.json else "\n".join(known))


def software(arguments: Namespace) -> None:
    """Show what trains and serves, and on which cards."""
    from advisor.nouns.software.tools import known_tools, spelled, tool_choice, tool_named, tools_on

    catalog = card = None
    if arguments.accelerator:
        catalog = api.load_catalog()
        card = catalog.accelerator(arguments.accelerator)
    name = arguments.name
    term = tool_choice().terms.get(spelled(name)) if name else None
    if arguments.json:
        tools = known_tools().values() if card is None else tools_on(card)
        one = term or (tool_named(name) if name else None)
        shown = [tool.model_dump(mode="json") for tool in tools]
        print_content(json.dumps(one.model_dump(mode="json") if one else shown, indent=2))
        return
    from advisor.terminal import software as screens
    from advisor.terminal.console import new_console

    console = new_console()
    if term is not None:
        screens.show_term(console, term)
    elif name:
        screens.show_tool(console, tool_named(name))
    if card is not None and catalog is not None:
        screens.show_on_card(console, card, catalog.software_for(card))
    elif not name:
        screens.show_software(console)


def schema(_: Namespace) -> None:
    """Print the JSON Schema of a case."""
    print_content(json.dumps(api.Case.model_json_schema(), indent=2))


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
