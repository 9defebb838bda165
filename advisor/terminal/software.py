"""The table of software: all tools, one tool, or what runs on a card."""

from collections.abc import Iterable, Iterator, Mapping

from advisor.nouns.hardware import Accelerator, SoftwareSupport
from advisor.nouns.software import tools
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.software.tool_choice import Duty, Term
from advisor.nouns.software.tool_offers import Support, TrainingOffer
from advisor.terminal.console import Report


def show_software(console: Report) -> None:
    """Print all tools, one line each, and the terms that are explained."""
    lines = (
        (tool.name, f"{tool.title}, {state(tool)}: {words(tool.does)} ({', '.join(tool.backends)})")
        for tool in tools.known_tools().values()
    )
    console.definitions(*lines)
    console.paragraph(
        "gpu-advisor software NAME shows one; --accelerator KEY shows what runs on a card. "
        f"Explained too: {', '.join(tools.tool_choice().terms)}.",
    )


def show_tool(console: Report, tool: tools.Tool) -> None:
    """Print one tool: what it does, where it runs, what it offers, and the sources."""
    console.print(tool.named, style="bold")
    if tool.ended:
        console.paragraph(tool.ended)
    if tool.note:
        console.paragraph(f"{tool.note.rstrip('.')}.")
    backends = tools.tool_choice().backends
    stack = known_stacks()[tool.stacks[0]].title if tool.stacks else tool.engine or ""
    console.definitions(
        ("does", words(tool.does)),
        ("framework", tool.framework),
        ("estimated as", stack),
        ("models", ", ".join(tool.families)),
        ("Python", tool.python),
        ("install", install(tool)),
        ("image", tool.image),
        ("check", " ".join(tool.verify)),
    )
    console.heading("Runs on")
    console.definitions(
        *((backends[name].title, cards(item)) for name, item in tool.backends.items())
    )
    if tool.training is not None:
        console.heading("Offers for training")
        console.definitions(*offered(tool.training))
    if tool.serving is not None:
        console.heading("Offers for serving")
        console.definitions(
            ("divides a model by", ", ".join(tool.serving.divides)),
            ("files", ", ".join(tool.serving.file_formats)),
            ("interface", tool.serving.api),
        )
    console.bullets("Sources", (f"{name}: {text}" for name, text in tool.sources.items()))


def show_term(console: Report, term: Term) -> None:
    """Explain the name of something that no plan runs."""
    console.print(term.title, style="bold")
    console.paragraph(term.sentence)
    console.bullets("Sources", [term.source])


def show_on_card(console: Report, card: Accelerator, needs: SoftwareSupport | None) -> None:
    """Print what runs on a card: the usual tool for each duty, and all others."""
    console.print(f"Software for {card.name}", style="bold")
    if needs is not None:
        last = f", the last CUDA is {needs.last_cuda}" if needs.last_cuda else ""
        console.paragraph(
            f"Compute capability {needs.capability}: driver {needs.driver} and CUDA {needs.cuda} "
            f"or later{last}; PyTorch from {needs.pytorch} on.",
        )
    console.heading("Usual for")
    named = {
        duty.label: ", ".join(tool.named_on(card) for tool in tools.usual_tools(card, duty))
        for duty in Duty
    }
    console.definitions(*((label, names or "nothing") for label, names in named.items()))
    console.heading("All that runs on it")
    lines = (
        (tool.name, f"{tool.named_on(card)}: {words(tool.does)}. {found[1].note}".strip())
        for tool in tools.tools_on(card)
        if (found := tool.support(card)) is not None and tool.status is not tools.Status.RETIRED
    )
    console.definitions(*lines)


def words(duties: Iterable[Duty]) -> str:
    """Return duties in words."""
    return ", ".join(duty.value.replace("_", " ") for duty in duties)


def state(tool: tools.Tool) -> str:
    """Return the release of a tool, or how it ended."""
    if tool.status is tools.Status.CURRENT:
        return tool.release or "current"
    return f"{tool.status.value} {tool.since or ''}".strip()


def install(tool: tools.Tool) -> str:
    """Return how to install a tool; empty if it is no package or was retired."""
    if not tool.packages or tool.status is tools.Status.RETIRED:
        return ""
    return f"pip install {' '.join(tool.packages)}"


def cards(support: Support) -> str:
    """Return the cards and versions of one backend in words."""
    return "; ".join(part for part in _cards(support) if part)


def _cards(support: Support) -> Iterator[str]:
    if support.chips:
        yield ", ".join(support.chips)
    if support.lowest:
        top = f" to {support.last}" if support.last else " and later"
        yield f"compute capability {support.lowest}{top}"
    if not (support.chips or support.lowest):
        yield "all"
    for name in ("plugin", "release", "driver", "cuda", "cudnn", "rocm", "python"):
        if value := getattr(support, name):
            yield f"{name} {value}"
    if support.without:
        yield f"without {', '.join(support.without)}"
    for title, limits in (
        ("weights", support.weights),
        ("models", support.families),
        ("of its models", support.needs),
    ):
        if limits:
            yield f"{title} {', '.join(_limited(limits))}"
    yield support.note


def _limited(limits: Mapping[str, str | tuple[str, ...] | None]) -> Iterator[str]:
    for name, needed in limits.items():
        if needed is None:
            yield name
        else:
            yield f"{name} ({', '.join(needed) if isinstance(needed, tuple) else f'{needed}+'})"


def offered(offer: TrainingOffer) -> tuple[tuple[str, str], ...]:
    """Return what a training tool offers, by title."""
    more = [
        text
        for text, has in (
            ("offloading to the host", bool(offer.offloads)),
            ("hybrid sharding", offer.hybrid_sharding),
            ("optimizer in the backward pass", offer.optimizer_in_backward),
            ("packing", offer.packing),
        )
        if has
    ]
    return (
        ("methods", ", ".join((*offer.methods, *offer.preference))),
        ("divides a model by", ", ".join(offer.divides)),
        ("sharding", ", ".join(offer.sharding)),
        ("with 4-bit weights", ", ".join(offer.sharding_4bit)),
        ("by", offer.sharded_by),
        ("recomputes", ", ".join(offer.recompute)),
        ("formats", ", ".join(offer.computes)),
        ("optimizers", ", ".join(offer.optimizers)),
        ("attention", ", ".join(offer.attention)),
        ("loss", ", ".join(offer.losses)),
        ("also", ", ".join(more)),
    )
