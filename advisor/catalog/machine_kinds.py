"""The machine that a card is bought with: which assumptions of ``owning_defaults.csv`` hold."""

from typing import Final

from advisor.catalog.economy import Default, Economy
from advisor.catalog.nodes import sold_together
from advisor.catalog.usual_machines import usual_machines
from advisor.nouns.hardware import Accelerator, Segment

DESKTOP_SLOTS: Final = 2
WORKSTATION_SLOTS: Final = 4
"""Most cards in one machine of the kind; more of them need a server."""
SMALL_SERVER_SLOTS: Final = 4
"""Most cards in a plain server; more of them need one that is built for eight."""

WHOLE_COMPUTERS: Final = frozenset({"APU", "SoC", "desktop"})
"""Form factors whose price includes a complete computer."""


def groups_of(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the groups of defaults that apply to an accelerator, most specific first."""
    segment = accelerator.segment
    if segment is Segment.CPU:
        server = usual_machines().is_server_processor(accelerator)
        return ("cpu", "server" if server else "desktop")
    if segment is Segment.EDGE:
        return ("edge", "desktop")
    if accelerator.form_factor in WHOLE_COMPUTERS:
        return ("computer", "desktop")
    if segment is Segment.WORKSTATION:
        return ("workstation", "desktop")
    return ("desktop",) if segment is Segment.CONSUMER else ("server",)


def host_default(economy: Economy, accelerator: Accelerator, per_machine: int) -> Default:
    """Return the price of the rest of one machine with its spread and source. [USD]

    It does not follow that of the cards: a scarce card does not make its machine dearer. A part of
    a baseboard or rack takes its part of the price.
    """
    groups, pack = groups_of(accelerator), sold_together(accelerator)
    if groups == ("server",) and pack > 1:
        rack = pack == usual_machines().rack_domain
        whole = economy.default("host_usd", "rack" if rack else "baseboard")
        part = min(1.0, per_machine / pack)
        return whole.model_copy(
            update={name: getattr(whole, name) * part for name in ("low", "expected", "high")}
        )
    return economy.default("host_usd", *_host_groups(groups, per_machine))


def _host_groups(groups: tuple[str, ...], per_machine: int) -> tuple[str, ...]:
    """Return the groups of ``host_usd``: more cards need a workstation, then a server."""
    if groups[0] in ("cpu", "computer", "edge"):
        return groups
    if groups[-1] == "desktop" and per_machine <= DESKTOP_SLOTS:
        return ("desktop",)
    if groups[-1] == "desktop" and per_machine <= WORKSTATION_SLOTS:
        return ("workstation",)
    return ("server" if per_machine <= SMALL_SERVER_SLOTS else "large_server",)
