"""The commands about cards, models and software by name."""

import json
from argparse import Namespace

import advisor
from advisor.commands.answering import answered
from advisor.foundation.parsing import parse_count, parse_length
from advisor.foundation.refusals import refusal
from advisor.terminal.streams import print_content


def fits(arguments: Namespace) -> None:
    """Show the models that some cards can serve and train."""
    if arguments.accelerator is None:
        raise refusal("no_accelerator")
    found = advisor.fits(
        arguments.accelerator,
        count=parse_count(arguments.count or "1", field="--count"),
        context_tokens=parse_length(arguments.context, field="--context"),
        concurrency=parse_count(arguments.concurrency, field="--concurrency"),
        everything=arguments.everything,
    )
    answered(arguments, found)


def compare(arguments: Namespace) -> None:
    """Put cards side by side."""
    from advisor.compare.cards import compare_cards
    from advisor.compare.facts import Differences

    found = compare_cards(arguments.accelerators, advisor.load_catalog())
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
        catalog = advisor.load_catalog()
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
    print_content(json.dumps(advisor.Case.model_json_schema(), indent=2))
