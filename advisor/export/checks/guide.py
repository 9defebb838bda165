"""Writes a plan's set-up: a Markdown checklist, or a script that checks a machine."""

import re
from collections.abc import Iterable
from math import ceil
from typing import Final, NamedTuple

from advisor.architecture.table.model import Unit
from advisor.catalog import Catalog
from advisor.estimate.results import Estimate
from advisor.export.checks.steps import Platform, Situation, Stage, Step, Way, steps_for
from advisor.export.engines.servers import DISK_MARGIN, SOFTWARE_DISK_BYTES, Servers
from advisor.export.formats import Format
from advisor.export.hosts.containers import start_seconds
from advisor.export.hosts.orders import node_labels, resource_of
from advisor.export.quoting import comments, markdown_text, shell_word
from advisor.export.script import START, Launch, installation, text_of
from advisor.export.setup import Setup
from advisor.export.training.clusters import disk_bytes
from advisor.export.versions import image_source
from advisor.foundation.data_files import read_text
from advisor.foundation.formatting import duration, memory, milliseconds, percent, rate
from advisor.foundation.names import visible
from advisor.foundation.resources import data_path
from advisor.foundation.units import GB, MIB, MILLISECOND
from advisor.nouns.hardware import Accelerator, Segment
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.tool_offers import numbers
from advisor.nouns.software.tools import Tool, known_tools, tools_on
from advisor.nouns.workload import Serving

PAGE_BYTES: Final = 4096
"""Page in which Linux counts memory on x86. [bytes]"""
CARD_SHARE: Final = 0.97
"""Share of the catalog's memory that a driver may show less. Assumed: ECC and firmware vary."""
BUSY: Final = 0.9
"""Utilisation of cards that their work keeps busy. Assumed; the card's counter shows whether a
kernel runs, not how much of the card it uses."""


def tool_of(setup: Setup) -> Tool | None:
    """Return the tool that does a plan's work; None if the software table has none."""
    if setup.program is not None:
        return setup.program.tool
    use = setup.estimate.software
    return known_tools()[use.name] if use else None


def _backend(card: Accelerator, tool: Tool | None) -> str:
    """Return what carries kernels to a card; empty if no tool of the table runs on it."""
    for each in (tool, *tools_on(card)):
        if each is not None and (support := each.support(card)):
            return support[0]
    return ""


def situation_of(
    setup: Setup, platform: Platform, launch: Launch | None, tool: Tool | None
) -> Situation:
    """Return what decides which steps a plan needs."""
    card = setup.accelerator
    return Situation(
        platform=platform,
        provider=setup.estimate.cost.provider,
        backend=_backend(card, tool),
        architecture=card.architecture,
        work="serve" if isinstance(setup.workload, Serving) else "train",
        way=_way(launch, tool, card),
        machines=setup.linked,
        cards=setup.per_machine,
        data_center=card.segment is Segment.DATACENTER,
        packages=packages_of(launch, tool, card),
        tool_check=tool.verify if tool else (),
    )


def _on_board(tool: Tool | None, card: Accelerator) -> str:
    """Return how a tool gets to a board in a way of its own; empty on other cards."""
    return tool.on_boards if tool and card.segment is Segment.EDGE else ""


def _way(launch: Launch | None, tool: Tool | None, card: Accelerator) -> Way:
    if launch is None and _on_board(tool, card):
        return "program"
    if launch is None:
        by_pip = tool is None or (tool.packages and not tool.plugin_on(card))
        return "pip" if by_pip else "program"
    if launch.install:
        return "pip"
    return "image" if launch.image else "program"


def packages_of(
    launch: Launch | None, tool: Tool | None, card: Accelerator
) -> tuple[tuple[str, str], ...]:
    """Return the packages that a plan installs with pip, and their versions."""
    if launch is not None:
        words = [word for command in launch.install for word in command]
        pinned = (re.fullmatch(r"([\w.-]+)(?:\[\w+\])?==([\w.]+)", word) for word in words)
        return tuple((found[1], found[2]) for found in pinned if found)
    if tool is not None and (tool.plugin_on(card) or _on_board(tool, card)):
        return ()  # built from its source, or there already
    if tool is not None and tool.packages and re.match(r"\d", tool.release):
        return ((tool.packages[0].partition("[")[0], tool.release),)
    return ()


def facts_of(
    setup: Setup, catalog: Catalog, launch: Launch | None, tool: Tool | None
) -> dict[str, str]:
    """Return the facts that steps may name; unknown ones are absent."""
    card, cost = setup.accelerator, setup.estimate.cost
    disk, labels = _disk_bytes(setup), node_labels(card, setup.per_machine)
    facts: dict[str, str | None] = {
        "card": card.name,
        "count": str(setup.per_machine),
        "cards_each": str(setup.per_machine),
        "machines": str(setup.machines),
        "instances": f"{cost.instances:,} x {cost.instance_type}" if cost.instances else None,
        # A word that a command may hold, as the regions of clouds are.
        "region": cost.region if re.fullmatch(r"[a-z0-9-]+", cost.region or "") else None,
        "shared_mib" if card.shares_host_memory else "memory_mib": str(
            int(CARD_SHARE * card.memory_reported_bytes / MIB)
        ),
        "shared_pages": str(ceil(setup.estimate.memory.needed_bytes / PAGE_BYTES)),
        "target": card.compute_capability,
        "power_w": f"{card.board_power_w:g}" if card.board_power_w else None,
        "disk_gb": str(ceil(disk / GB)),
        "labels": ",".join("=".join(item) for item in labels.items()),
        **_versions(setup, catalog, tool),
        **_software(launch, tool, setup),
        "good_memory": _good_memory(setup),
        "good_utilisation": f"utilisation over {percent(BUSY)} while it works",
        "good_tensor": _good_tensor(setup.estimate),
        "good_speed": _good_speed(setup.estimate),
    }
    backend = tool.support(card) if tool else None
    if backend:
        facts["resource_plain"] = resource_of(card, backend[0])
        facts["resource"] = resource_of(card, backend[0]).replace(".", "\\.")
    if setup.program is not None:
        facts["cards_each"] = str(Servers(setup, apart=True).cards_each)
        facts["start_minutes"] = str(ceil(start_seconds(Servers(setup)) / 60))
    return {name: value for name, value in facts.items() if value}


def _versions(setup: Setup, catalog: Catalog, tool: Tool | None) -> dict[str, str | None]:
    """Return the lowest versions that card and tool need."""
    support = tool.support(setup.accelerator) if tool else None
    needed = catalog.software_for(setup.accelerator)
    own = support[1] if support else None
    drivers = [needed.driver if needed else "", own.driver if own else ""]
    image = setup.program.backends.get(support[0]) if setup.program and support else None
    if image is not None and (found := re.search(r"driver (\d+)", image.note)):
        drivers.append(found[1])
    cuda = (own.cuda if own else "") or (needed.cuda if needed else "")
    if setup.cuda and setup.program is None:
        drivers, cuda = [setup.cuda.driver], setup.cuda.version
    known = [text for text in drivers if re.fullmatch(r"[\d.]+", text)]
    python = (own.python if own else "") or (tool.python if tool else "")
    least = re.search(r"\d+\.\d+", python)
    return {
        "driver": max(known, key=numbers, default=None),
        "cuda": cuda,
        "rocm": own.rocm_of.get(setup.accelerator.compute_capability or "", own.rocm)
        if own
        else None,
        "python": python,
        "python_least": least[0] if least else None,
    }


def _software(launch: Launch | None, tool: Tool | None, setup: Setup) -> dict[str, str | None]:
    """Return the lines that install the plan's software."""
    card = setup.accelerator
    support = tool.support(card) if tool else None
    own = support[1] if support else None
    plugin = tool.plugin_on(card) if tool else ""
    install = " && ".join(installation(launch)) if launch else None
    if not install and tool is not None:
        first, *others = tool.packages or ("",)
        words = (f"{first}=={tool.release}", *others)
        pinned = packages_of(None, tool, card)
        install = "pip install " + " ".join(map(shell_word, words)) if pinned else None
    notes: str | None = "Its own page says how."
    if install:
        notes = "The versions were checked together."
    build = setup.program.build_for(card) if setup.program else None
    if build is not None and not build.install:
        notes = build.note or notes
    board = setup.program.on_board(card) if setup.program else ""
    named = tool.named_on(card) if tool else None
    if tool and launch is None and (there := _on_board(tool, card)):
        install, notes, named = None, f"{there}.", tool.title
    elif board:
        notes = None
    elif launch is None and plugin and own is not None:
        notes = own.note
    return {
        "install": install,
        "install_note": notes,
        "board": board or None,
        "writes": "language models" if setup.model.generates else None,
        "image": launch.image if launch else None,
        "image_source": image_source(launch.image) if launch and launch.image else None,
        "whole_image": launch.image if launch and not packages_of(launch, tool, card) else None,
        "tool": named,
    }


def _disk_bytes(setup: Setup) -> float:
    """Return the disk that a machine needs: weights, software, checkpoints and images. [bytes]"""
    if not isinstance(setup.workload, Serving):
        return disk_bytes(setup)
    if setup.program is not None:
        return Servers(setup).disk_bytes
    form = WEIGHT_FORMATS[setup.estimate.precision]
    weights = setup.model.total_parameters * form.bytes_per_parameter
    return DISK_MARGIN * weights + SOFTWARE_DISK_BYTES


def _good_memory(setup: Setup) -> str:
    plan, card = setup.estimate, setup.accelerator
    used = memory(plan.memory.total_bytes, with_range=True)
    if setup.program is not None and setup.program.name in ("vllm", "sglang", "tensorrt-llm"):
        filled = setup.calibration.serving.memory_fraction * card.memory_free_bytes
        return f"about {memory(filled)} used once it runs, of which the plan needs {used}"
    return f"{used} used at the peak"


def _good_tensor(plan: Estimate) -> str:
    if plan.time is not None:
        share = percent(plan.time.model_flops_utilization, with_range=True)
        return f"tensor cores active near {share} of the time (the plan's share of the peak)"
    return "memory (1005) high while tokens are written, tensor cores (1004) high for prompts"


def _good_speed(plan: Estimate) -> str | None:
    if plan.time is not None:
        step = duration(plan.time.step_s, with_range=True)
        speed = rate(plan.time.tokens_per_s, f"{plan.time.unit.value}s/s", with_range=True)
        return f"a step takes {step}: {speed}"
    served = plan.serving
    if served is None:
        return None
    first = milliseconds(served.ttft_ms.scaled(MILLISECOND), with_range=True)
    speed = rate(served.output_tokens_per_s, f"{served.unit.value}s/s", with_range=True)
    if not served.streams or served.unit is not Unit.TOKEN:
        what = "for a batch" if served.unit is Unit.TOKEN else served.timed
        return f"{first} {what}; {speed} in all"
    each = milliseconds(served.tpot_ms.scaled(MILLISECOND), with_range=True)
    return f"{first} to the first token, {each} per token, {speed} in all"


STARTS: Final = {Format.SLURM: "sbatch", Format.KUBERNETES: "kubectl apply -f"}
"""Commands that start a file; others are scripts."""
FUNCTIONS: Final = "check_functions.sh"
"""Data file of shell functions that run a check and compare what it prints."""


class Run(NamedTuple):
    """The file that starts a plan."""

    form: Format
    content: str
    launch: Launch

    @property
    def command(self) -> str:
        """The command that starts it, in Markdown."""
        in_image = self.launch.image and not self.launch.install and self.form not in STARTS
        where = ", in the image as its head says" if in_image else ""
        return f"`{STARTS.get(self.form, 'bash')} {self.form.file_name}`{where}"


def guide(
    setup: Setup, to: Format, catalog: Catalog, platform: Platform, run: Run | None = None
) -> str:
    """Return the set-up of a plan as a checklist or a script that checks.

    ``run`` starts it, if any.
    """
    tool = tool_of(setup)
    launch = run.launch if run else None
    situation = situation_of(setup, platform, launch, tool)
    steps = steps_for(situation, facts_of(setup, catalog, launch, tool))
    if to is Format.CHECK_SCRIPT:
        return _check_script(setup, platform, steps)
    return _checklist(setup, platform, steps, run)


def _checklist(setup: Setup, platform: Platform, steps: Iterable[Step], run: Run | None) -> str:
    head, *others = setup.header
    parts = [
        f"# Set-up: {markdown_text(head)}",
        *(markdown_text(line) for line in others),
        f"Platform: {platform.value}; `--platform` takes {', '.join(Platform)}.",
        "`--to check-script` checks a machine for all of this and installs nothing.",
    ]
    found = list(steps)
    for stage in Stage:
        items = [_item(step) for step in found if step.stage is stage]
        if stage is Stage.RUN and run:
            items += [
                f"- [ ] **Start.** Save this file and start it with {run.command}.",
                _block(run.content.rstrip("\n")),
            ]
        if items:
            parts += [f"## {stage.label}", *items]
    parts += ["## Sources", "\n".join(_sources(found))]
    return "\n\n".join(parts) + "\n"


def _sources(steps: list[Step]) -> list[str]:
    """Return one line for each source, with the steps that it holds for."""
    by_source: dict[str, list[str]] = {}
    for step in steps:
        names = by_source.setdefault(f"{step.source} ({step.date})", [])
        if step.name not in names:
            names.append(step.name)
    return [
        f"- {markdown_text(', '.join(names))}: {markdown_text(source)}"
        for source, names in by_source.items()
    ]


def _item(step: Step) -> str:
    lines = [f"- [ ] **{markdown_text(step.name)}.** {markdown_text(step.do)}"]
    if step.command:
        lines.append(_block(step.command))
    watched = step.stage is Stage.MONITOR
    if step.check:
        lines.append("  Watch with:" if watched else "  Check with:")
        lines.append(_block(" ".join(map(shell_word, step.check))))
    if step.expect:
        word = "Good" if watched else "Expect"
        lines.append(f"  {word}: {markdown_text(step.expect)}.")
    return "\n\n".join(lines)


def _block(text: str) -> str:
    """Return an indented code block whose fence the text does not hold."""
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    block = f"{fence}bash\n{text}\n{fence}"
    return "\n".join(f"  {line}" if line else "" for line in block.split("\n"))


def _check_script(setup: Setup, platform: Platform, steps: Iterable[Step]) -> str:
    """Return a script that checks a machine, says what is missing and then exits with 1."""
    head = (
        *setup.header,
        f"Checks a machine for this plan on the platform {platform.value}. It installs nothing.",
    )
    lines = [
        " ".join(map(shell_word, _words(step)))
        for step in steps
        if step.check and step.stage is not Stage.MONITOR
    ]
    return text_of(
        START,
        comments(head),
        ("set -u",),
        read_text(data_path(FUNCTIONS)).rstrip("\n").split("\n"),
        ("",),
        lines,
        (
            "",
            "if ((missing)); then",
            "  printf '%s missing\\n' \"$missing\"",
            "  exit 1",
            "fi",
            "echo 'nothing missing'",
        ),
    )


def _words(step: Step) -> tuple[str, ...]:
    pattern = step.reads or "(.+)"
    texts = (step.name, pattern, step.least, step.equals, step.expect, step.do)
    return ("check", *map(visible, texts), *step.check)
