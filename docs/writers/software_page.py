"""The page of software."""

from advisor.foundation.data_files import items, page, table
from advisor.nouns.software.tool_choice import Usual
from advisor.nouns.software.tool_offers import Support
from advisor.nouns.software.tools import Status, Tool, known_tools, tool_choice


def software_page() -> str:
    """Return the Markdown page of the software."""
    tools, choice = known_tools().values(), tool_choice()
    sizes = [f"Models of {each.label}:\n\n{_usual(each.usual)}" for each in choice.sizes]
    return page(
        "software",
        training=table(
            ("software", "estimated as", "methods", "divides by", "recomputes", "4-bit shards"),
            [_trains(tool) for tool in tools if tool.training is not None],
        ),
        serving=table(
            ("software", "weights", "divides by", "interface"),
            [_serves(tool) for tool in tools if tool.serving is not None],
        ),
        cards=table(
            ("software", *(item.title for item in choice.backends.values())), map(_cards, tools)
        ),
        usual="\n\n".join((_usual(choice.usual), *sizes)),
        ended=items(tool.ended for tool in tools if tool.status is not Status.CURRENT),
        terms=items(f"**{term.title}**: {term.sentence}" for term in choice.terms.values()),
    )


def _usual(usual: Usual) -> str:
    backends = tool_choice().backends
    rows = [
        (duty.label, backends[backend].title, ", ".join(names))
        for duty, by_backend in usual.items()
        for backend, names in by_backend.items()
    ]
    return table(("work", "on", "tools"), rows)


def _trains(tool: Tool) -> tuple[str, ...]:
    offer = tool.training
    assert offer is not None
    return (
        tool.named,
        tool.stacks[0] if tool.stacks else "",
        ", ".join((*offer.methods, *offer.preference)) or "pretraining",
        ", ".join(offer.divides) or "-",
        ", ".join(offer.recompute),
        ", ".join(offer.sharding_4bit) if "qlora" in offer.methods else "-",
    )


def _serves(tool: Tool) -> tuple[str, ...]:
    offer = tool.serving
    assert offer is not None
    weights = dict.fromkeys(name for item in tool.backends.values() for name in item.weights)
    return tool.named, ", ".join(weights), ", ".join(offer.divides) or "-", offer.api


def _cards(tool: Tool) -> tuple[str, ...]:
    found = (tool.backends.get(name) for name in tool_choice().backends)
    return tool.title, *("" if item is None else _reach(item) for item in found)


def _reach(support: Support) -> str:
    if support.chips:
        return " ".join(support.chips)
    return f"{support.lowest}+" if support.lowest else "yes"
