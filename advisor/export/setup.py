"""The facts of a plan that launchers need, and the checks that a plan can be launched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Final

from advisor.architecture.pairs import writes_apart
from advisor.architecture.presets import hub_ids_beside
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.errors import refusal
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate
from advisor.estimate.serving.notes import limit_notes
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.export.engines.programs import Program
from advisor.export.formats import APART, SERVES, TRAINS, Format
from advisor.export.training.model_names import launch_models
from advisor.export.training.words import chats
from advisor.export.versions import CudaBuild, cuda_build, torch_build, version_of
from advisor.foundation.dates import dated
from advisor.foundation.formatting import count, duration, hourly_price, memory, milliseconds, money
from advisor.foundation.units import HOUR_S, MILLISECOND
from advisor.nouns.case import Case
from advisor.nouns.hardware import TOGETHER, Accelerator, Offer, Segment
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.tools import backends_of, known_tools, tool_named
from advisor.nouns.workload import Serving, Training

if TYPE_CHECKING:
    from advisor.export.training.tool import Description, Tool

NAME_CHARACTERS: Final = 50
"""Longest job name. Kubernetes allows 63 (RFC 1035 labels); pods add a number. [characters]"""


BY_NVIDIA: Final = "Choose an NVIDIA card, or export a report."
LOG_VARIABLES: Final = {
    "mlflow": {
        "MLFLOW_TRACKING_URI": (
            "sqlite:///mlflow.db",
            "address of the MLflow server, or a database",
        ),
        "MLFLOW_EXPERIMENT_NAME": ("gpu-advisor", "experiment that the run belongs to"),
    }
}
"""Tracker -> the variables that it reads: default and meaning (mlflow.org, environment variables,
read 2026-11-22)."""


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
    case: Case
    """What ``estimate`` estimates."""
    placement: Placement
    kept_s: float | None = None
    """Best time between checkpoints on spot machines; None on others. [s]"""
    offer: Offer | None = None
    """The rented machine; None for the user's own."""
    program: Program | None = None
    """The program that serves; None in training."""
    tool: Tool | None = None
    """The training program whose file ``estimate`` holds for."""
    log_to: str | None = None
    """Tracker of experiments that training reports to."""
    differences: tuple[str, ...] = ()
    """Where the program's file differs from the plan, one sentence each."""

    @property
    def layout(self) -> ParallelLayout:
        """The layout of the plan."""
        return self.estimate.layout

    @property
    def mixed(self) -> bool:
        """Whether replicas run on machines of several sizes."""
        return TOGETHER in (self.estimate.cost.offer or "")

    @property
    def machines(self) -> int:
        """Number of machines in the plan; of replicas, if they run on machines of several sizes."""
        if self.mixed:
            return self.estimate.cards // self.estimate.layout.replica_cards
        return self.estimate.cost.instances or ceil(self.estimate.cards / self.machine_size)

    @property
    def per_machine(self) -> int:
        """Accelerators in use on each machine."""
        return self.estimate.cards // self.machines

    def slurm_orders(self, time: str) -> list[str]:
        """Return the head of a Slurm job with one task on each machine, for at most ``time``."""
        # A machine with TPUs is a node without generic resources (github SchedMD/slurm-gcp), as one
        # with processors alone.
        each = f"#SBATCH --gpus-per-node={self.per_machine}"
        bare = (Segment.TPU, Segment.CPU, Segment.ASIC)
        cards = [] if self.accelerator.segment in bare else [each]
        return [
            f"#SBATCH --job-name={self.slug}",
            f"#SBATCH --nodes={self.machines}",
            "#SBATCH --ntasks-per-node=1",
            *cards,
            "#SBATCH --exclusive",
            f"#SBATCH --time={time}",
        ]

    @property
    def linked(self) -> int:
        """Machines that work on one copy of the model and need a network."""
        serving = self.estimate.serving
        copies = serving.replicas + serving.spare_replicas if serving else 1
        return ceil(self.estimate.cards / copies / self.per_machine)

    @cached_property
    def run(self) -> TrainingRun:
        """The training workload with all defaults filled in."""
        assert not isinstance(self.workload, Serving)
        used = self.estimate.software
        tool = self.tool.row if self.tool else tool_named(used.name) if used else None
        recipe = recipe_named(self.estimate.precision)
        return resolve_training(self.workload, self.model, recipe, tool)

    @property
    def named(self) -> str | None:
        """Hub id or path of the weights that the case names, or of the model's own."""
        return self.checkpoint or self.model.hub_id

    @property
    def weights(self) -> str:
        """Hub id or path of the weights to load."""
        name = self.named
        if name is None:
            raise refusal("no_weights_named", value=self.estimate.model)
        return name

    @property
    def gated(self) -> str | None:
        """What weights need whose publisher asks for consent; None if nothing."""
        if self.checkpoint or not (terms := launch_models().gated.of(self.named)):
            return None
        return f"Gated weights: accept {terms} at huggingface.co/{self.named}, and set HF_TOKEN."

    @property
    def secret(self) -> list[str]:
        """How a cluster gets the token, if the weights may need one."""
        order = "The token: kubectl create secret generic hf --from-literal=HF_TOKEN=..."
        return [order] if self.gated or self.checkpoint else []

    @property
    def native(self) -> str:
        """What to do instead on cards whose vendor has its own training software."""
        elsewhere, card = launch_models().elsewhere, self.accelerator
        name = "Gaudi" if card.key.startswith("gaudi") else card.vendor
        name = "processor" if card.segment is Segment.CPU else name
        kinds = () if self.model.unit is Unit.TOKEN else (f"{name}, no text",)
        return next((elsewhere[kind] for kind in (*kinds, name) if kind in elsewhere), BY_NVIDIA)

    @property
    def log_variables(self) -> dict[str, tuple[str, str]]:
        """Shell variables that the tracker of experiments reads."""
        return LOG_VARIABLES[self.log_to] if self.log_to else {}

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
        cards = f"{estimate.cards}x {estimate.accelerator_name}"
        lines = [
            f"{estimate.model} on {cards}: {estimate.workload}.",
            "Written by gpu-advisor.",
            f"Expect {'; '.join(self._expected())}.",
        ]
        if cost.provider is not None and cost.usd_per_hour is not None:
            place = f", {cost.region}" if cost.region else ""
            lines.append(
                f"Planned at {cost.provider}, {cost.instance_type}{place}: "
                f"{hourly_price(cost.usd_per_hour)}, price of {dated(cost.price_date)}."
            )
            if cost.rental_terms:
                lines.append(cost.rental_terms)
        if self.machines > 1 and not self.mixed:
            held = (
                "one accelerator" if self.per_machine == 1 else f"{self.per_machine} accelerators"
            )
            lines.append(f"{self.machines} machines, {held} on each.")
        if self.program is not None:
            build = self.program.build_for(self.accelerator)
            written = self.program.release(self.accelerator)
            if build and build.install[:1] == ("torch",) and self.cuda and self.cuda.last:
                written = self.cuda.last
            lines.append(f"Written for {written}; its options were read on {self.program.date}.")
            lines += self._longest()
            lines += self._old_card() if build and "torch" in build.install else []
            for note in limit_notes(self.accelerator, estimate.memory):
                lines.append(f"{note[0].upper()}{note[1:]}.")
        if self.tool is not None:
            lines.append(
                f"Written for {self.tool.says.title} {version_of(self.tool.says.package)}; "
                "the figures above hold for this file."
            )
            lines += self._old_card()
            if self.accelerator.segment is Segment.EDGE:
                lines.append("PyTorch must be built for this board: --to checklist says which.")
            if self.accelerator.vendor in ("AMD", "Intel") and not self.torch_install:
                lines.append(
                    "PyTorch must be built for this card, as in the image "
                    f"{self.tool.image(self)}; plain pip brings the one for CUDA."
                )
        mock = self.tool is not None and self.run.method is None and not self.tool.says.tokenizes
        if self.gated and not mock:
            lines.append(self.gated)
        return (*lines, *self.differences)

    def _longest(self) -> list[str]:
        """Return a note on requests that the server refuses, if they are written token by token."""
        workload, serving = self.workload, self.estimate.serving
        if not isinstance(workload, Serving) or serving is None or not self.model.generates:
            return []
        if writes_apart(self.model):
            return []
        taken = workload.input_tokens + workload.output_tokens
        line = f"Requests may have {taken:,} tokens, prompt and answer together."
        chat = self._chat
        if serving.max_context_tokens <= taken:
            return [line, *chat]
        longest = f"{count(serving.max_context_tokens)} each"
        room = f"The memory holds {longest} at this load: raise the limit for longer ones."
        return [f"{line} {room}", *chat]

    @property
    def _chat(self) -> list[str]:
        """Return a note on weights that only complete texts, if others of this shape chat."""
        named = self.named
        beside = hub_ids_beside(named) if named else ()
        trained = next((each for each in beside if chats(each)), None)
        if named not in beside or trained is None or chats(named):
            return []
        return [f"{named} completes texts and has no chat template. For chat: --model {trained}."]

    @property
    def cuda(self) -> CudaBuild | None:
        """What pip brings to the card with PyTorch; None for other vendors' cards."""
        capability = self.accelerator.compute_capability
        return (
            cuda_build(capability) if capability and self.accelerator.vendor == "NVIDIA" else None
        )

    @property
    def torch_install(self) -> tuple[str, ...]:
        """What pip installs first, where plain pip brings PyTorch for other vendors' cards."""
        build = torch_build(backends_of(self.accelerator)[0])
        return build.install if build else ()

    @property
    def torch_first(self) -> tuple[str, ...]:
        """What pip installs first, where plain pip brings PyTorch without kernels for the card."""
        return self.cuda.install if self.cuda else self.torch_install

    def _old_card(self) -> list[str]:
        """Return a note on the last PyTorch that has kernels for an old card."""
        last = self.cuda.last if self.cuda else ""
        capability = self.accelerator.compute_capability
        return (
            [f"Compute capability {capability}: {last} is the last with kernels."] if last else []
        )

    def _expected(self) -> list[str]:
        estimate = self.estimate
        needed = memory(estimate.memory.total_bytes, with_range=True)
        expected = [f"{needed} of {memory(estimate.memory.usable_bytes)}{estimate.memory_of}"]
        if estimate.time is not None:
            expected.append(duration(estimate.time.run_hours.scaled(HOUR_S), with_range=True))
        if estimate.serving is not None:
            per_token = estimate.serving.unit is Unit.TOKEN
            each = estimate.serving.tpot_ms if per_token else estimate.serving.ttft_ms
            time = milliseconds(each.scaled(MILLISECOND), with_range=True)
            expected.append(f"{time} {estimate.serving.timed}")
        if estimate.cost.rent_usd is not None:
            month = "" if estimate.time is not None else " a month"
            expected.append(money(estimate.cost.rent_usd, with_range=True) + month)
        return expected


def check_startable(setup: Setup, to: Format) -> None:
    """Refuse a plan that would not start."""
    estimate = setup.estimate
    serving = isinstance(setup.workload, Serving)
    formats = SERVES if serving else TRAINS
    if to not in formats:
        raise refusal("format_of_other_work", value=to.value, allowed=formats, to=to, setup=setup)
    if serving and not estimate.memory.fits:
        raise refusal(
            "plan_too_large",
            remedy=way_out(estimate, bound=to.value in known_tools()),
            needed=memory(estimate.memory.needed_bytes),
            usable=memory(estimate.memory.usable_bytes),
        )
    if setup.mixed and to not in APART:
        whole = -(-estimate.cards // setup.machine_size) * setup.machine_size
        raise refusal(
            "unlike_machines",
            value=estimate.cost.instance_type,
            formats=APART,
            estimate=estimate,
            whole=whole,
        )
    if estimate.cards % setup.machines:
        raise refusal("machines_not_filled", value=estimate.cards, setup=setup)


def way_out(estimate: Estimate, says: Description | None = None, *, bound: bool = False) -> str:
    """Return a sentence with the first change that makes a plan fit, of those a program takes.

    ``bound``: the format starts one tool, and others are started by torchrun.
    """
    ways = (
        f"choose --to torchrun{''.join(way.change.partition(' with ')[1:])}"
        if bound and way.sacrifice == "software"
        else way.change
        for way in estimate.ways_out
        if says is None
        or ((says.offload or not way.host_bytes) and way.sacrifice not in says.beyond)
    )
    if first := next(ways, None):
        return f"One way: {first.rstrip('.')}."
    larger = says is not None and "cards" in says.beyond
    return f"Choose {'cards with more memory' if larger else 'more or larger cards'}."
