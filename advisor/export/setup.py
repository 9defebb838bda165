"""The facts of a plan that launchers need, and the checks that a plan can be launched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.sample import Unit
from advisor.estimate.batch.forward import generates
from advisor.estimate.results import Estimate
from advisor.estimate.training.run import TrainingRun, recipe_named, resolve_training
from advisor.export.engines.programs import Program
from advisor.export.formats import SERVES, TRAINS, Format, cannot
from advisor.foundation.dates import dated
from advisor.foundation.formatting import duration, hourly_price, memory, milliseconds, money
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.nouns.efficiency import Calibration
from advisor.nouns.hardware import Accelerator, Offer
from advisor.nouns.workload import Serving, Training

NAME_CHARACTERS: Final = 50
"""Longest job name. Kubernetes allows 63 (RFC 1035 labels); pods add a number. [characters]"""
LAUNCHED_VENDORS: Final = ("NVIDIA", "AMD")
"""Vendors whose cards run the CUDA and ROCm builds of the launched software."""


@dataclass(frozen=True)
class Setup:
    """One plan with its model and card.

    The open lengths of ``workload`` are fitted to the model. ``checkpoint`` names weights to load
    instead of the model's own.
    """

    estimate: Estimate
    workload: Serving | Training
    model: ModelArchitecture
    accelerator: Accelerator
    machine_size: int
    """Accelerators in one machine of the plan."""
    calibration: Calibration
    checkpoint: str | None
    spot: bool
    offer: Offer | None = None
    """The rented machine; None for the user's own."""
    program: Program | None = None
    """The program that serves; None in training."""
    differences: tuple[str, ...] = ()
    """Where the program's file differs from the plan, one sentence each."""

    @property
    def machines(self) -> int:
        """Number of machines in the plan."""
        return self.estimate.cost.instances or ceil(self.estimate.count / self.machine_size)

    @property
    def per_machine(self) -> int:
        """Accelerators in use on each machine."""
        return self.estimate.count // self.machines

    @cached_property
    def run(self) -> TrainingRun:
        """The training workload with all defaults filled in."""
        assert not isinstance(self.workload, Serving)
        return resolve_training(self.workload, self.model, recipe_named(self.estimate.precision))

    @property
    def weights(self) -> str:
        """Hub id or path of the weights to load.

        Raises
        ------
        InputError
            If the case names no weights.
        """
        name = self.checkpoint or self.model.hub_id
        if name is None:
            raise cannot(
                "the case does not say which weights to load",
                value=self.estimate.model,
                allowed="a preset or a hub id, or --checkpoint with a hub id or a folder",
                remedy="Add --checkpoint org/name.",
            )
        return name

    @property
    def slug(self) -> str:
        """Name of the job: lower-case letters, digits and hyphens, as Kubernetes requires."""
        words = re.findall("[a-z0-9]+", self.model.name.lower())
        return f"{'serve' if isinstance(self.workload, Serving) else 'train'}-{'-'.join(words)}"[
            :NAME_CHARACTERS
        ].strip("-")

    @property
    def header(self) -> tuple[str, ...]:
        """Lines that state what the file does and which results to expect."""
        estimate, cost = self.estimate, self.estimate.cost
        cards = f"{estimate.count}x {estimate.accelerator_name}"
        lines = [
            f"{estimate.model} on {cards}: {estimate.workload}.",
            "Written by gpu-advisor.",
            f"Expect {'; '.join(self._expected())}.",
        ]
        if cost.provider is not None and cost.usd_per_hour is not None:
            lines.append(
                f"Planned at {cost.provider}, {cost.instance_type}, {cost.region}: "
                f"{hourly_price(cost.usd_per_hour)}, price of {dated(cost.price_date)}."
            )
        if self.machines > 1:
            lines.append(f"{self.machines} machines, {self.per_machine} accelerators on each.")
        if self.program is not None:
            lines.append(
                f"Written for {self.program.release(self.accelerator)}; its options were read on "
                f"{self.program.date}."
            )
        return (*lines, *self.differences)

    def _expected(self) -> list[str]:
        estimate = self.estimate
        needed = memory(estimate.memory.total_bytes, with_range=True)
        expected = [f"{needed} of {memory(estimate.memory.usable_bytes)} on each"]
        if estimate.time is not None:
            expected.append(duration(estimate.time.run_hours.scaled(HOUR_S), with_range=True))
        if estimate.serving is not None:
            per_token = estimate.serving.tpot_ms.scaled(MILLISECOND)
            expected.append(f"{milliseconds(per_token, with_range=True)} per token")
        if estimate.cost.rent_usd is not None:
            month = "" if estimate.time is not None else " a month"
            expected.append(money(estimate.cost.rent_usd, with_range=True) + month)
        return expected


def check_startable(setup: Setup, to: Format) -> None:
    """Refuse a plan that would not start.

    Raises
    ------
    InputError
        If the format does not launch this kind of work, the plan does not fit into memory or does
        not fill its machines evenly, or no supported program runs this model on this card.
    """
    estimate = setup.estimate
    serving = isinstance(setup.workload, Serving)
    formats = SERVES if serving else TRAINS
    if to not in formats:
        raise cannot(
            f"{to.value} does not launch {setup.workload.kind}",
            value=to.value,
            allowed=", ".join(formats),
            remedy="Choose one of the allowed formats.",
        )
    if not serving and (setup.model.unit is not Unit.TOKEN or not generates(setup.model)):
        raise cannot(
            "launch configurations exist only for models that write text",
            value=setup.model.name,
            allowed="reports: markdown, html, json, csv",
            remedy="Export a report and launch the model with its own code.",
        )
    if not serving and setup.accelerator.vendor not in LAUNCHED_VENDORS:
        raise cannot(
            "launch configurations exist only for NVIDIA and AMD cards",
            value=setup.accelerator.name,
            allowed="reports: markdown, html, json, csv",
            remedy="Export a report, or choose another card.",
        )
    if not estimate.memory.fits:
        way = estimate.ways_out[0].change if estimate.ways_out else "Choose more or larger cards"
        raise cannot(
            "the plan does not fit, so it would not start",
            value=f"{memory(estimate.memory.total_bytes.high)} on each",
            allowed=f"up to {memory(estimate.memory.usable_bytes)}",
            remedy=f"{way.rstrip('.')}.",
        )
    if estimate.count % setup.machines:
        raise cannot(
            "the accelerators do not fill their machines evenly",
            value=estimate.count,
            allowed=f"a multiple of {setup.machines}",
            remedy="Choose such a count.",
        )
