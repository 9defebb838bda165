"""Which serving program a file starts, and the plan as that program can state it.

Where a program cannot state a part of a plan, the plan is estimated again as the file says it, so
that a file's head and its options agree.
"""

from typing import Final, NamedTuple

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.errors import InputError, refusal
from advisor.estimate.hardware.card_formats import cache_format
from advisor.estimate.results import Estimate
from advisor.estimate.serving.heads import heads_of
from advisor.estimate.tools.duty import duty_of
from advisor.export.engines.programs import Program, programs
from advisor.export.formats import Format, cannot
from advisor.nouns.case import Case, Hardware
from advisor.nouns.hardware import Accelerator, UnlikeCards
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import KV_CACHE_FORMATS, WEIGHT_FORMATS
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.software.tools import Tool, known_tools, tool_choice, usual_tools
from advisor.nouns.techniques import Speculation, technique_facts
from advisor.nouns.workload import Serving

CLUSTERS: Final = (Format.SLURM, Format.KUBERNETES, Format.SKYPILOT, Format.DSTACK)


class Expressed(NamedTuple):
    """A plan as a program can state it."""

    case: Case
    """The plan in full: hardware, layout and formats."""
    differences: tuple[str, ...]
    """Where it differs from the plan, one sentence each."""
    again: bool
    """Whether the plan's figures are of something else."""


def program_for(
    to: Format,
    case: Case,
    model: ModelArchitecture,
    card: Accelerator | None = None,
    planned: str | None = None,
    checkpoint: str | None = None,
) -> Program:
    """Return the program that a format starts: its own, else the plan's, else the usual.

    Before a search there is no ``card`` yet, which then does not narrow the choice. Of a stated
    ``checkpoint`` nobody here knows what it predicts.
    """
    workload = case.workload
    assert isinstance(workload, Serving)
    if isinstance(card, UnlikeCards) and to in (*CLUSTERS, Format.OLLAMA):
        raise refusal("unlike_cards_in_a_machine", value=card.key, to=to)
    duty, named = duty_of(workload, model), programs().get(to.value)
    able = [item for item in _able(duty, workload, card) if item.knows(duty, model, card)]
    if duty is Duty.ENCODE and checkpoint is None:
        able = [program for program in able if program.loads(model)]
    if named is None and workload.engine is not None:
        named = programs().get(workload.engine)
    if named is None and able and workload.engine is None:
        return next((program for program in able if program.name == planned), able[0])
    if named is not None and named in able:
        return named
    who = f"{named.title} does not serve" if named else "no file can serve"
    if named is not None and named.does(duty, None) and (not card or named.tool.support(card)):
        who = f"no file starts {named.title} for"
        if named.does(duty, card) and named.knows(duty, model, card):
            who = f"{named.title} loads no weights that predict masked tokens, as those of"
    if named is None and workload.engine is not None:
        who = f"no file starts {known_tools()[workload.engine].title} for"
    raise _unsuited(who, duty, able, model, card)


def _able(duty: Duty, workload: Serving, card: Accelerator | None) -> list[Program]:
    """Return the programs that do a duty on a card, the usual one first."""
    usual = [tool.name for tool in usual_tools(card, duty)] if card else []
    wanted = workload.weight_format
    gguf = wanted is not None and WEIGHT_FORMATS[wanted].mixture

    def rank(program: Program) -> tuple[bool, int]:
        place = usual.index(program.name) if program.name in usual else len(usual)
        return program.reads_gguf is not gguf and gguf, place

    found = [program for program in programs().values() if program.does(duty, card)]
    return sorted(found, key=rank)


def _unsuited(
    who: str, duty: Duty, able: list[Program], model: ModelArchitecture, card: Accelerator | None
) -> InputError:
    """Return the refusal of a program, with what does the work."""
    where = f" on {card.name}" if card else ""
    what = f"{who} {model.family}{where}"
    if card is None:
        others, start = (
            [known_tools()[name].title for name in tool_choice().usual[duty]["cuda"]],
            "",
        )
    else:
        usual = [
            tool
            for tool in usual_tools(card, duty)
            if (found := tool.support(card)) and found[1].knows(card, model.family)
        ]
        others = [_with_plugin(tool, card) for tool in usual]
        start = f": {usual[0].start}" if usual and usual[0].start else ""
    if able:
        names = [program.name for program in able]
        allowed, remedy = f"--to {', '.join(names)}", f"Choose --to {names[0]}."
    elif others:
        allowed = f"a report; {duty.label} runs there under {' or '.join(others[:3])}"
        remedy = f"Export a report, and start {others[0]} by hand{start}."
    else:
        allowed = f"a card on which a tool of the software table does {duty.label}"
        remedy = "Choose another card."
    return cannot(what, value=model.name, allowed=allowed, remedy=remedy)


def _with_plugin(tool: Tool, card: Accelerator) -> str:
    plugin = tool.plugin_on(card)
    return f"{tool.title} with {plugin}" if plugin else tool.title


def expressed(
    program: Program,
    case: Case,
    model: ModelArchitecture,
    plan: Estimate,
    card: Accelerator,
    machine: int,
) -> Expressed:
    """Return a plan as a program can state it, with the differences.

    ``machine``: accelerators of one machine.
    """
    workload = case.workload
    assert isinstance(workload, Serving)
    differences: list[str] = []
    weights = _weights(program, plan.precision, card, differences)
    caches = {}
    if model.unit is Unit.TOKEN:
        wanted = plan.kv_cache_format or cache_format(workload, card)
        cache = _cache(program, wanted, differences)
        caches = {"kv_cache_format": cache}
    free = case.layout is None
    layout = _layout(program, card, plan, differences, reach=machine if free else 0)
    techniques = _techniques(program, workload, model, differences)
    techniques |= _load(program, workload, model, layout.data, differences)
    update: dict[str, object] = {
        "hardware": Hardware(accelerator=plan.accelerator, count=plan.cards),
        "layout": layout,
        "workload": workload.changed(
            **techniques, **caches, engine=program.name, weight_format=weights
        ),
    }
    other = plan.software is None or plan.software.name != program.name
    again = other or bool(differences)
    return Expressed(case.changed(**update), tuple(differences), again)


def _weights(program: Program, wanted: str, card: Accelerator, differences: list[str]) -> str:
    if program.serves(card, wanted):
        return wanted
    taken = program.instead.get(wanted)
    if taken is None or not program.serves(card, taken):
        formats = [name for name in program.weights if program.serves(card, name)]
        remedy = "Choose one of these --weights"
        if WEIGHT_FORMATS[wanted].mixture:
            remedy += ", or --to llama-cpp, which reads GGUF files"
        raise refusal(
            "weights_not_served",
            value=wanted,
            allowed=formats,
            program=program,
            wanted=wanted,
            card=card,
            remedy=remedy,
        )
    differences.append(f"Weights are {taken} instead of {wanted}: {program.title} lacks {wanted}.")
    return taken


def _cache(program: Program, wanted: str, differences: list[str]) -> str:
    if wanted in program.cache:
        return wanted
    wide = [
        name for name in program.cache if KV_CACHE_FORMATS.get(name) == KV_CACHE_FORMATS["fp16"]
    ]
    taken = wide[0]
    differences.append(
        f"Keys and values are {taken} instead of {wanted}: {program.title} lacks {wanted}."
    )
    return taken


def _load(
    program: Program,
    workload: Serving,
    model: ModelArchitecture,
    copies: int,
    differences: list[str],
) -> dict[str, int | None]:
    """Return the load that a program computes at a time, where it is less than the stated one."""
    most = program.tool.at_once(duty_of(workload, model))
    rate = workload.requests_per_s is not None or workload.demand is not None
    if most is None or (not rate and workload.concurrency <= most * copies):
        return {}
    held = "one request" if most == 1 else f"{most} requests"
    differences.append(f"{program.title} computes {held} at a time on each card; others wait.")
    return {"concurrency": most * copies, "requests_per_s": None, "demand": None}


def _techniques(
    program: Program,
    workload: Serving,
    model: ModelArchitecture,
    differences: list[str],
) -> dict[str, int | None]:
    """Return the fields of techniques that a file cannot state, without their values."""
    update: dict[str, int | None] = {}
    method = workload.speculation
    lacks = {
        Speculation.MTP: "the model's configuration names no layers for it"
        if not model.prediction_layers
        else "",
        Speculation.EAGLE3: "the hub has none for this model and program that are known here"
        if program.name not in heads_of(model)
        else "",
    }
    headless = lacks.get(method, "") if method else ""
    if method and (headless or not method.ready):
        update = dict.fromkeys(("speculation", "draft_tokens", "acceptance", "text_kind"))
        why = headless or "a case names no weights for them"
        differences.append(
            f"Nothing is drafted with {technique_facts().speculation[method].title}: {why}."
        )
    if workload.step_tokens and not program.steps:
        update["step_tokens"] = None
        differences.append(f"{program.title} takes no limit on the tokens of one step.")
    if workload.adapters and not program.adapters:
        update |= dict.fromkeys(("adapters", "adapter_rank"))
        differences.append(f"No LoRA adapters: no file asks {program.title} for them.")
    if workload.guidance and not model.guided:
        update["guidance"] = None
        differences.append(f"{program.title} draws with {model.family} without guidance.")
    if workload.images_per_request and not program.images:
        differences.append(f"Images: add the vision tower to {program.title} by hand.")
    return update


def _layout(
    program: Program, card: Accelerator, plan: Estimate, differences: list[str], *, reach: int
) -> ParallelLayout:
    """Return the layout that a file states; ``reach``: accelerators to which a copy may shrink."""
    wanted, held = plan.layout, plan.memory
    update: dict[str, int | None] = {}
    build, together = program.build_for(card), wanted.replica_cards
    spans = bool(reach and build and build.alone) and together > reach and together % reach == 0
    if spans and held.total_bytes.high * together <= held.usable_bytes * reach:
        update |= {"tensor": reach, "pipeline": 1, "data": wanted.accelerators // reach}
        differences.append(
            f"Each copy stays on one machine of {reach}, not {together} accelerators: no file "
            f"joins machines for {program.title} there."
        )
    if wanted.host_options and not program.reads_gguf:
        update = {"gpu_layers": None, "cpu_expert_layers": 0}
        differences.append(f"{program.title} keeps no layers in the host's memory.")
    tensor, pipeline = program.divides(card, "tensor"), program.divides(card, "pipeline")
    if wanted.tensor > 1 and not tensor and pipeline:
        update |= {"tensor": 1, "pipeline": wanted.pipeline * wanted.tensor}
        differences.append(
            f"{program.title} gives each card whole layers: {update['pipeline']} stages instead of "
            f"{wanted.tensor}-way tensor parallelism."
        )
    if wanted.expert > 1 and not program.divides(card, "expert"):
        update["expert"] = 1
        differences.append(f"{program.title} does not spread experts over copies of the model.")
    if (wanted.tensor > 1 or wanted.pipeline > 1) and not (tensor or pipeline):
        update |= {"tensor": 1, "pipeline": 1, "expert": 1, "data": wanted.accelerators}
        differences.append(f"{program.title} does not divide a model: each card holds a copy.")
    return wanted.changed(**update) if update else wanted
