"""Weight formats in which a tool may serve a model on a card, largest first."""

from typing import Final, NamedTuple

from advisor.architecture.presets import tuned_alike
from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.hardware.card_formats import SIXTEEN_BIT, serves_in, stored_format
from advisor.foundation.record import by_identity
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import FORMAT_BYTES, WEIGHT_FORMATS
from advisor.nouns.software.published_weights import listed_weights
from advisor.nouns.software.tool_choice import FormatLadder
from advisor.nouns.software.tool_offers import Support
from advisor.nouns.software.tools import Tool, tool_choice
from advisor.nouns.workload import Serving

SMALLER: Final = 0.95
"""Size of a format over that of a larger one, below which a plan tries it. Assumed."""
Program = tuple[Tool, Support]
"""A tool, and what it offers on a card."""


class Way(NamedTuple):
    """One way to serve a model on a card."""

    tool: Tool
    weight_format: str
    usual: bool = True
    """Whether a plan takes the format without asking."""
    beside: bool = False
    """Whether the format is worth naming if a larger one fits."""
    hosted: bool = False
    """Layers or experts in the host's memory."""
    cache: str | None = None
    """Format of the key-value cache; None for the workload's."""


def ladder_of(tool: Tool) -> FormatLadder:
    """Return the formats that a plan may choose under a tool."""
    ladders = tool_choice().formats
    return ladders.get(tool.engine or tool.name, ladders["default"])


def ways_of(
    program: Program, card: Accelerator, workload: Serving, model: ModelArchitecture
) -> tuple[Way, ...]:
    """Return the formats in which a tool serves a model on a card, as a plan tries them.

    Largest weights first, and usual ones with a smaller cache before smaller weights: that costs
    less quality (``data/quality_loss.csv``).
    """
    found = formats_of(*program, card, workload.weight_format, model)
    cache = ladder_of(program[0]).cache
    if cache is None or workload.kv_cache_format is not None or not model.generates:
        return found
    usual = [way for way in found if way.usual]
    pairs = [(way, way._replace(cache=cache, beside=False)) for way in found]
    narrow = [cached for way, cached in pairs if way.usual]
    return (*usual, *narrow, *(one for pair in pairs if not pair[0].usual for one in pair))


@by_identity(4096)
def formats_of(
    tool: Tool, support: Support, card: Accelerator, asked: str | None, model: ModelArchitecture
) -> tuple[Way, ...]:
    """Return the weight formats, largest first.

    An asked format is the only one. A model that is published in fewer bits (gpt-oss, a GGUF file)
    keeps its format; engines without kernels for it do not serve it. Networks that process batches
    keep theirs, too, unless they are large: they are bound by compute, which narrower weights alone
    do not help.
    """
    ladder = ladder_of(tool)
    if asked is not None:
        asked = ladder.instead.get(asked, asked)
        able = not serves_in(card, asked) or support.serves(card, asked)
        return (Way(tool, asked),) if able else ()
    published = ladder.instead.get(model.weight_format, model.weight_format)
    if not support.serves(card, published):
        published = support.unpacks.get(published, published)
    own = stored(support, card, stored_format(card, published), asked=False)
    if own is None and not serves_in(card, stored_format(card, published)):
        own = stored_format(card, published)  # refused for its format, whatever the software
    narrow = published not in FORMAT_BYTES
    if narrow or not (model.generates or model.denoises):
        return () if own is None else (Way(tool, own),)
    first = [Way(tool, own)] if own is not None and ladder.own else []
    sizes = {WEIGHT_FORMATS[own or "fp32"].bytes_per_parameter}
    for name in (*ladder.usual, *ladder.smaller):
        size = WEIGHT_FORMATS[name].bytes_per_parameter
        if size < SMALLER * min(sizes) and _offered((tool, support), card, name, model):
            sizes.add(size)
            first.append(Way(tool, name, name in ladder.usual, name in ladder.beside))
    return tuple(first)


def _offered(program: Program, card: Accelerator, name: str, model: ModelArchitecture) -> bool:
    """Whether a plan chooses a format there.

    Formats for 4-bit products need units for them. A checkpoint that holds the format must be
    published, unless the weights are the user's own.
    """
    compute = WEIGHT_FORMATS[name].compute
    able = compute != "fp4" or compute in card.peak_flops_per_s
    if not able or not program[1].serves(card, name):
        return False
    return (
        model.hub_id is None or not is_stored(program, name) or bool(loaded(program, name, model))
    )


def is_stored(program: Program, name: str) -> bool:
    """Whether a checkpoint must hold a format already: the tool does not make it on loading."""
    offer = program[0].serving
    return name in program[1].stored or (offer is not None and name in offer.stored)


def loaded(program: Program, name: str, model: ModelArchitecture) -> str | None:
    """Return the hub id of published weights in a format that a tool loads, if there are any.

    Those of a tuned variant only where the tool makes none of the model's own.
    """
    offer = program[0].serving
    if model.hub_id is None or not (
        WEIGHT_FORMATS[name].mixture or (offer and name in offer.loads)
    ):
        return None
    return published(model.hub_id, name, tuned=is_stored(program, name))


def published(hub_id: str, name: str, *, tuned: bool) -> str | None:
    """Return the hub id of a model's published weights in a format, or of its tuned variant's.

    >>> published("Qwen/Qwen3-8B", "nvfp4", tuned=True)
    'nvidia/Qwen3-8B-NVFP4'
    """
    listed = listed_weights().names
    names = tuned_alike(hub_id) if tuned else (hub_id,)
    return next((listed[each][name] for each in names if name in listed.get(each, {})), None)


def hosted_ways(
    program: Program, card: Accelerator, workload: Serving, model: ModelArchitecture
) -> tuple[Way, ...]:
    """Return the same with layers or experts in the host's memory; empty if a tool keeps none."""
    tool, support = program
    ladder = ladder_of(tool)
    if not ladder.host or card.shares_host_memory or not model.generates:
        return ()
    found = formats_of(*program, card, workload.weight_format, model)
    names = {way.weight_format for way in found if WEIGHT_FORMATS[way.weight_format].mixture}
    if workload.weight_format is None and len(found) > 1:
        names = {name for name in ladder.host if support.serves(card, name)}
    order = [*ladder.host, *names]
    return tuple(
        Way(tool, name, usual=False, hosted=True) for name in sorted(names, key=order.index)
    )


def stored(support: Support, card: Accelerator, name: str, *, asked: bool) -> str | None:
    """Return the format in which a tool serves weights; it converts 16 bits, or widens them."""
    others = (*SIXTEEN_BIT, "fp32") if name in SIXTEEN_BIT and not asked else ()
    able = (item for item in (name, *others) if serves_in(card, item))
    return next((item for item in able if support.serves(card, item)), None)


def served_format(
    workload: Serving, architecture: ModelArchitecture, card: Accelerator, tool: Tool | None
) -> str:
    """Return the weight format to serve in: the asked one, or the largest of the tool."""
    own = workload.weight_format or stored_format(card, architecture.weight_format)
    found = None if tool is None else tool.support(card)
    if tool is None or found is None:
        return own
    ways = ways_of((tool, found[1]), card, workload, architecture)
    return ways[0].weight_format if ways else own
