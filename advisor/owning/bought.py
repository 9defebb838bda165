"""Price and power of one kind of card with the machines around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.economy import Economy
from advisor.catalog.machine_kinds import groups_of, host_default
from advisor.catalog.nodes import owned_node
from advisor.equations.energy import WATTS_PER_KW, rated_kw
from advisor.equations.owning import capital_usd
from advisor.equations.pricing import instances_needed
from advisor.nouns.hardware import Accelerator
from advisor.nouns.money import Owning

Number = float | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Machine:
    """Machines and network around packs of cards; small packs share a machine."""

    packs: int
    machines: int
    host_share: float
    """Price of the rest of the machines over the price of their cards."""
    host_usd: float
    """Minimum price of the rest of one machine. [USD]"""
    network_share: float
    """Network between machines over the price of the cards; 0 if one machine is enough."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of card in the machines of its estimate, at the expected inputs."""

    card: Accelerator
    owning: Owning
    economy: Economy

    @property
    def purchase_usd(self) -> float:
        """Price of one card. [USD]

        Raises
        ------
        ValueError
            If the price is unknown.
        """
        price = self.owning.purchase_usd or self.card.purchase_usd
        if price is None:
            msg = f"{self.card.key} has no price"
            raise ValueError(msg)
        return price

    def machine(self, count: int) -> Machine:
        """Return the machines that packs of ``count`` cards need; small packs share one."""
        per_machine = owned_node(self.card, count).accelerators
        alone = int(instances_needed(accelerators=count, per_instance=per_machine))
        return Machine(
            packs=max(1, per_machine // count),
            machines=alone,
            host_share=self.input("host_share"),
            host_usd=self._host_usd(per_machine),
            network_share=self.input("network_share") if alone > 1 else 0.0,
        )

    def usd(self, count: int, packs: Number = 1.0) -> Number:
        """Price of packs of ``count`` cards with their machines. [USD]"""
        machine = self.machine(count)
        shared = instances_needed(accelerators=packs, per_instance=machine.packs)
        return capital_usd(
            accelerators=count * packs,
            purchase_usd=self.purchase_usd,
            host_share=machine.host_share,
            network_share=machine.network_share,
            machines=machine.machines * shared,
            host_usd=machine.host_usd,
        )

    def rated_w(self, count: float) -> float:
        """Rated power of a number of cards with their machines. [W]

        Raises
        ------
        ValueError
            If the power of the card is not known.
        """
        if self.card.board_power_w is None:
            msg = f"{self.card.key} has no board power"
            raise ValueError(msg)
        kw = rated_kw(
            accelerators=count,
            board_power_w=self.card.board_power_w,
            host_power_share=self.input("host_power_share"),
        )
        return float(kw) * WATTS_PER_KW

    def input(self, field: str) -> float:
        """Return the user's value of an input, or the expected default for the card's machines."""
        given: float | None = getattr(self.owning, field)
        if given is not None:
            return given
        return self.economy.default(field, *groups_of(self.card)).expected

    def _host_usd(self, per_machine: int) -> float:
        """Return the minimum price of the rest of a machine; 0 if the user gave its share."""
        if self.owning.host_usd is not None:
            return self.owning.host_usd
        if self.owning.host_share is not None:
            return 0.0
        return host_default(self.economy, self.card, per_machine).expected
