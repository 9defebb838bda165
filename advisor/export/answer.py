"""Writes the answer to a case as a file."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from advisor.catalog import Catalog
from advisor.catalog.nodes import node_for, owned_node
from advisor.errors import InputError, refusal
from advisor.estimate.placement import Placement
from advisor.estimate.results import Estimate
from advisor.estimate.tools.duty import duty_of
from advisor.estimate.tools.software import ToolRules
from advisor.export.checks.guide import Run, guide
from advisor.export.checks.steps import Platform, check_platform, platform_named, usual_platform
from advisor.export.engines.choice import expressed, program_for
from advisor.export.engines.launches import server_launch
from advisor.export.engines.programs import Program, programs
from advisor.export.engines.servers import Servers
from advisor.export.formats import ENGINES, GUIDES, REPORTS, SERVES, TRAINS, Export, Format
from advisor.export.hosts import containers, shell
from advisor.export.hosts.orders import clouds_of, takes
from advisor.export.quoting import json_text
from advisor.export.report import report_file
from advisor.export.setup import Setup, check_startable, way_out
from advisor.export.training import clusters
from advisor.export.training.described import launch, sharing
from advisor.export.training.tools import OWN, most_cards, tool_for, trains_on
from advisor.export.training.written import written
from advisor.foundation.dates import current_day
from advisor.nouns.case import Case
from advisor.nouns.hardware import TOGETHER, Accelerator, PriceKind
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.software.tools import known_tools
from advisor.nouns.workload import Serving
from advisor.planning.prepared import PricedCase, fed, prepared, resolved
from advisor.planning.recommend import counted
from advisor.planning.results import Recommendation
from advisor.planning.spot import interruptions_of

Answer = Recommendation | Estimate


SERVED_BY: Final[dict[Format, Callable[[Setup], str]]] = {
    Format.SLURM: shell.slurm_file,
    Format.KUBERNETES: containers.kubernetes_file,
    Format.COMPOSE: containers.compose_file,
    Format.SKYPILOT: containers.skypilot_file,
    Format.DSTACK: containers.dstack_file,
}
TRAINED_BY: Final[dict[Format, Callable[[Setup], str]]] = {
    Format.ACCELERATE: clusters.accelerate_file,
    # DeepSpeed passes over names that it does not know, and JSON has no comments.
    Format.DEEPSPEED: lambda setup: json_text(
        {
            "_comment": [line.replace("–", "-") for line in setup.header],
            **sharing(setup, "deepspeed"),
        }
    ),
    Format.UNSLOTH: clusters.config_file,
    Format.AXOLOTL: clusters.config_file,
    Format.LLAMA_FACTORY: clusters.config_file,
    Format.TORCHTUNE: clusters.config_file,
    Format.MLX: clusters.config_file,
    Format.SLURM: clusters.slurm_file,
    Format.KUBERNETES: clusters.kubernetes_file,
    Format.SKYPILOT: clusters.skypilot_file,
    Format.DSTACK: clusters.dstack_file,
    Format.COMPOSE: clusters.compose_file,
}
"""Writers of files that are no plain shell script."""


@dataclass(frozen=True)
class Wishes:
    """What a user asks of a file besides its format; ``advisor.export`` says what each means."""

    checkpoint: str | None = None
    log_to: str | None = None
    link: str | None = None
    platform: str | None = None


def export_case(
    case: Case,
    to: Format,
    wishes: Wishes,
    *,
    answer: Answer | None,
    search: Callable[[Case], Recommendation],
    estimate: Callable[[Case], Estimate],
    catalog: Catalog | None,
) -> Export:
    """Return the answer to a case as a file, as ``advisor.export`` does.

    Without an answer, ``search`` or ``estimate`` gives one, by whether the case has hardware; a
    launch configuration takes the best plan that the format can start. Raises InputError if no plan
    is feasible, or the launch configuration would not start.
    """

    def answered(question: Case) -> Answer:
        if question.hardware is None:
            return search(question)
        sized = counted(prepared(question, catalog))
        return estimate(question.changed(hardware=sized))

    if to in REPORTS:
        answer = answer or answered(case)
        made = f"Made on {current_day().isoformat()} by gpu-advisor"
        newest = answer.catalog_date if isinstance(answer, Recommendation) else ""
        made += f" with prices up to {newest}." if newest else "."
        return Export.of(to, report_file(answer, to, made=made, link=wishes.link))
    asked = prepared(case, catalog)
    if to in GUIDES:
        where = platform_named(wishes.platform) if wishes.platform else None
        writer = _Writer(asked, to, wishes, estimate)
        return Export.of(to, writer.guide(_first(answer or answered(case)), where))
    needed = _needed(asked, to, wishes.checkpoint)
    if needed is not None and not (answer and _made_by(answer, needed)):
        case, answer = needed, None
    if answer is None:
        case = _rentable(case, to)
    asked = asked.of(fed(prepared(case, catalog).case, asked.architecture))
    writer = _Writer(asked, to, wishes, estimate)
    answer = answer or answered(case)
    if isinstance(answer, Estimate):
        return Export.of(to, writer.written(answer))
    _first(answer, bound=to.value in known_tools())
    try:
        return Export.of(to, writer.first(plan.estimate for plan in answer.plans))
    except InputError as error:
        narrowed = writer.narrowed(case)
        found = search(narrowed) if narrowed else None
        if found is None or not found.plans:
            raise
        skipped = f"The best plan of all is not written: {error.what}."
        return Export.of(to, writer.first((plan.estimate for plan in found.plans), skipped))


def _needed(asked: PricedCase, to: Format, checkpoint: str | None) -> Case | None:
    """Return the case with the tool that a format starts whatever the plan is for.

    The format outranks another tool that the case states; a stated stack stays. None if the format
    starts the plan's own, or no card runs the tool for such work, which its file then refuses with
    what does. Raises InputError if no program serves the model.
    """
    case, named = asked.case, asked.case.hardware
    card = asked.catalog.accelerator(named.accelerator) if named else None
    workload, limits = case.workload, case.limits
    if isinstance(workload, Serving):
        program = program_for(to, case, asked.architecture, card, checkpoint=checkpoint)
        stated = workload.weight_format
        able = stated is None or program.states(stated) is not None
        started = case.changed(workload=workload.changed(engine=program.name))
        return started if to in ENGINES and able else None
    tool, software = OWN.get(to), workload.software
    other = software in known_tools() and software not in (*known_stacks(), tool and tool.key)
    if tool is None or not (software is None or other):
        return None
    vendors = limits.vendors or tool.says.vendors
    found = case.changed(
        workload=workload.changed(software=tool.key), limits=limits.changed(vendors=vendors)
    )
    try:
        rules = ToolRules.of(found, asked.architecture)
    except InputError:  # retired, or it does other work
        return None
    cards = [card] if card else [c for c in asked.catalog.accelerators if c.vendor in vendors]
    return found if any(rules.lack(each) is None for each in cards) else None


def _first(answer: Answer, *, bound: bool = False) -> Estimate:
    """Return the first plan; raise ``InputError`` if there is none. ``bound``: as for way_out."""
    if isinstance(answer, Estimate):
        return answer
    if not answer.plans:
        loosen = "Loosen a limit, or add --accelerator and --count."
        remedy = way_out(answer.nearest, bound=bound) if answer.nearest else loosen
        raise refusal("no_plan_to_export", answer=answer.answer.rstrip("."), remedy=remedy)
    return answer.plans[0].estimate


def _made_by(answer: Answer, case: Case) -> bool:
    """Whether an answer, or its first plan, is of the software that a case states."""
    if not isinstance(answer, Estimate):
        plans = answer.plans
        return bool(plans) and _made_by(plans[0].estimate, case)
    workload = case.workload
    name = workload.engine if isinstance(workload, Serving) else workload.software
    return answer.software is not None and answer.software.name == name


def _rentable(case: Case, to: Format) -> Case:
    """Return the case with only the providers from which the format can rent."""
    clouds = clouds_of(to)
    if not clouds or case.limits.providers or case.limits.owned:
        return case
    limits = case.limits.changed(providers=tuple(clouds))
    return case.changed(limits=limits)


def export_formats(case: Case) -> dict[str, str]:
    """Return the export formats for a case's work, with their titles."""
    launches: Iterable[Format] = TRAINS
    if isinstance(case.workload, Serving):
        duty = duty_of(case.workload, resolved(case)[1])
        engines = [item for item in ENGINES if programs()[item.value].does(duty, None)]
        launches = (*engines, *(item for item in SERVES if item not in ENGINES))
    return {to.value: to.label for to in (*REPORTS, *GUIDES, *launches)}


@dataclass(frozen=True)
class _Writer:
    """Writes plans of one case in one format."""

    asked: PricedCase
    to: Format
    wishes: Wishes
    estimate: Callable[[Case], Estimate]

    def first(self, plans: Iterable[Estimate], note: str | None = None) -> str:
        """Return the file of the first plan that can be written; raise the first refusal."""
        refusal: InputError | None = None
        for plan in plans:
            try:
                return self.written(plan, note)
            except InputError as error:
                refusal = refusal or error
                if TOGETHER in (plan.cost.offer or ""):  # The remedy is better than another card.
                    break
        assert refusal is not None
        raise refusal

    def written(self, plan: Estimate, note: str | None = None) -> str:
        """Return the file of a plan."""
        return _started(self.setup(plan, note), self.to)[1].content

    def setup(self, plan: Estimate, note: str | None = None) -> Setup:
        """Return a plan as the format's program can state it."""
        card = self.asked.catalog.accelerator(plan.accelerator)
        workload, program = self.asked.case.workload, None
        differences: tuple[str, ...] = (note,) if note else ()
        if isinstance(workload, Serving):
            program = self._program(card, plan)
            machine = self.plain(plan).machine_size
            as_told = expressed(
                program, self.asked.case, self.asked.architecture, plan, card, machine
            )
            workload = as_told.case.workload
            rentable = _rentable(as_told.case, self.to)
            elsewhere = plan.cost.provider not in rentable.limits.providers
            if as_told.again or (rentable is not as_told.case and elsewhere):
                plan = self.estimate(rentable)
            if as_told.differences:
                differences += (*as_told.differences, "The figures above are of this file.")
        plain = self.plain(plan)
        found = program.published(card, plain.model, plan.precision) if program else None
        if found and self.wishes.checkpoint is None:
            differences += (f"Loads {found}: published weights in {plan.precision}.",)
        return replace(
            plain,
            workload=workload,
            program=program,
            checkpoint=self.wishes.checkpoint or found,
            differences=differences,
        )

    def plain(self, plan: Estimate) -> Setup:
        """Return a plan without a program."""
        card = self.asked.catalog.accelerator(plan.accelerator)
        key = (plan.cost.offer or "").partition(TOGETHER)[0]
        offer = next((item for item in self.asked.catalog.offers if item.key == key), None)
        node = node_for(card, offer) if offer else owned_node(card, plan.count)
        taken = interruptions_of(self.asked.case, self.asked.calibration)
        machines, instances = -(-plan.count // node.accelerators), plan.cost.instances or 0
        per_hour = plan.cost.usd_per_hour
        return Setup(
            estimate=plan,
            workload=self.asked.case.workload,
            model=self.asked.architecture,
            accelerator=card,
            machine_size=node.accelerators,
            calibration=self.asked.calibration,
            checkpoint=self.wishes.checkpoint,
            spot=self.asked.case.limits.price_kind is PriceKind.SPOT,
            case=self.asked.case,
            placement=Placement(
                accelerator=card,
                node=node,
                count=plan.count,
                layout=plan.layout,
                precision=plan.precision,
                offer=offer,
                usd_per_hour=per_hour.expected if per_hour else None,
                instances=instances,
                owned=bool(self.asked.case.limits.owned),
                interrupted=taken.hours(instances) if taken and offer else None,
            ),
            kept_s=None if taken is None else taken.interval_s(machines),
            offer=offer,
            log_to=self.wishes.log_to,
        )

    def guide(self, plan: Estimate, platform: Platform | None) -> str:
        """Return the set-up of a plan, with the file that starts it if one can be written."""
        card = self.asked.catalog.accelerator(plan.accelerator)
        platform = platform or usual_platform(card, rented=plan.cost.offer is not None)
        check_platform(platform, card)
        try:
            form = self._starting(platform, card, plan)
            setup, run = _started(replace(self, to=form).setup(plan), form)
        except InputError as refusal:
            if not plan.memory.fits:
                raise
            reason = f"No file starts this plan: {refusal.what}."
            setup = replace(self.plain(plan), differences=(reason,))
            return guide(setup, self.to, self.asked.catalog, platform)
        return guide(setup, self.to, self.asked.catalog, platform, run)

    def _starting(self, platform: Platform, card: Accelerator, plan: Estimate) -> Format:
        """Return the format that starts a plan on a platform."""
        on_clusters = {Platform.SLURM: Format.SLURM, Platform.KUBERNETES: Format.KUBERNETES}
        if platform in on_clusters:
            return on_clusters[platform]
        if not isinstance(self.asked.case.workload, Serving):
            return Format.TORCHRUN
        return Format(self._program(card, plan).name)

    def _program(self, card: Accelerator, plan: Estimate | None = None) -> Program:
        asked, planned = self.asked, plan.software.name if plan and plan.software else None
        checkpoint = self.wishes.checkpoint
        return program_for(
            self.to, asked.case, asked.architecture, card, planned, checkpoint=checkpoint
        )

    def narrowed(self, case: Case) -> Case | None:
        """Return the case with only the cards for which the format can be written.

        None if they are stated already, or if there is none.
        """
        given = case.limits.accelerators
        if case.limits.owned:
            return None
        keys = tuple(
            card.key
            for card in self.asked.catalog.accelerators
            if (not given or card.key in given) and self._takes(card)
        )
        most = most_cards(self.to, case.limits.max_accelerators)
        if not keys or (keys, most) == (given, case.limits.max_accelerators):
            return None
        limits = case.limits.changed(accelerators=keys, max_accelerators=most)
        return case.changed(limits=limits)

    def _takes(self, card: Accelerator) -> bool:
        if not takes(self.to, card):
            return False
        if not isinstance(self.asked.case.workload, Serving):
            return trains_on(self.to, card)
        try:
            self._program(card)
        except InputError:
            return False
        return True


def _started(setup: Setup, to: Format) -> tuple[Setup, Run]:
    """Return a plan as its launch configuration states it, and that file."""
    check_startable(setup, to)
    if isinstance(setup.workload, Serving):
        content = SERVED_BY.get(to, shell.shell_file)(setup)
        return setup, Run(to, content, server_launch(Servers(setup)))
    tool = tool_for(setup, to)
    setup = written(setup, tool)
    return setup, Run(to, TRAINED_BY.get(to, clusters.shell_file)(setup), launch(tool, setup))
