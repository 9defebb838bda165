"""Turns the description of a training program and a plan into what starts it."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final

from advisor.architecture.table.model import Unit
from advisor.estimate.hardware.kernel_times import uncast
from advisor.export.filling import Filler, at_path, spelled
from advisor.export.formats import cannot
from advisor.export.quoting import json_text, python_constants, yaml_text
from advisor.export.script import Launch, Word
from advisor.export.setup import Setup
from advisor.export.training import sharded, words
from advisor.export.training.model_names import launch_models
from advisor.export.training.pytorch import recurs
from advisor.export.training.tool import Fact, Parts, Refusal, Tool, descriptions
from advisor.export.versions import git_clone, pip_install
from advisor.foundation.noun import read_mapping
from advisor.nouns.layout import Offload, Recompute, Sharding
from advisor.nouns.precision import recipe_named
from advisor.nouns.software.stacks import DEGREES
from advisor.nouns.software.tools import backends_of, tool_choice


def _tf32(setup: Setup) -> bool | None:
    """Whether products round their operands to TF32; None leaves PyTorch's default."""
    run, rounds = setup.run, "tf32" in setup.accelerator.peak_flops_per_s
    apart = rounds and any(uncast(op, run) for op in run.architecture.operators)
    return apart or run.recipe.compute == "tf32" or None


def _kernels(setup: Setup) -> tuple[tuple[str, ...], ...]:
    """Return the order that installs the kernels of the family's layers; none without any."""
    packages = launch_models().kernels.packages.get(setup.model.family, ())
    return ((*pip_install(*packages), "--no-build-isolation"),) if packages else ()


FACTS: Final[Mapping[str, Fact]] = {
    "accumulation": sharded.micro_steps,
    "adapts_all": lambda setup: setup.run.frozen and words.adapts_all(setup),
    "alpha": lambda setup: words.ALPHA_PER_RANK * setup.run.lora_rank,
    "autocast": sharded.autocast,
    "bf16": lambda setup: sharded.autocast(setup) == "bf16",
    "chats": lambda setup: words.chats(setup.weights),
    "checkpoint_path": lambda setup: setup.checkpoint or "",
    "dataset": words.dataset,
    "deepspeed": sharded.uses_deepspeed,
    "deepspeed_options": lambda setup: sharing(setup, "deepspeed"),
    "distributed": sharded.distributed,
    "first_fsdp": lambda setup: sharing(setup, "first_fsdp"),
    "fp16": lambda setup: sharded.autocast(setup) == "fp16",
    "fsdp": sharded.uses_fsdp,
    "fsdp_options": lambda setup: sharing(
        setup, "first_fsdp" if sharded.quantized(setup) else "fsdp"
    ),
    "fsdp_words": sharded.fsdp_words,
    "hub_id": lambda setup: setup.model.hub_id or "",
    "image": lambda setup: setup.tool and setup.tool.image(setup),
    "image_size": lambda setup: setup.model.sample.image_size if setup.model.sample else None,
    "kernels": _kernels,
    "keeps_activations": lambda setup: Offload.ACTIVATIONS in setup.layout.offload,
    "keeps_master": sharded.keeps_master,
    "keeps_optimizer": lambda setup: Offload.OPTIMIZER in setup.layout.offload,
    "keeps_parameters": lambda setup: Offload.PARAMETERS in setup.layout.offload,
    "liger": lambda setup: setup.run.stack.name == "liger",
    "loaded_format": lambda setup: sharded.DTYPES[setup.run.recipe.name][0],
    "model_id": lambda setup: setup.model.hub_id or setup.model.name,
    "optimizer_device": lambda setup: sharded.device(setup, Offload.OPTIMIZER),
    "parameter_device": lambda setup: sharded.device(setup, Offload.PARAMETERS),
    "quantized": sharded.quantized,
    "quantized_mixture": lambda setup: sharded.quantized(setup) and setup.model.num_experts > 1,
    "rate": words.rate,
    "rate_number": lambda setup: float(words.rate(setup)),
    "recomputes": lambda setup: setup.layout.recompute is not Recompute.NONE,
    "replicas": lambda setup: 1 if setup.layout.sharding is Sharding.ZERO3 else setup.layout.data,
    "report_to": lambda setup: setup.log_to or "none",
    "save_steps": words.save_steps,
    "shares_4_bits": sharded.shares_4_bits,
    "shards": lambda setup: setup.layout.data if setup.layout.sharding is Sharding.ZERO3 else 1,
    "steps": words.steps,
    "target_list": lambda setup: list(words.targets(setup)),
    "targets": words.targets,
    "template_note": words.template_note,
    "tf32": _tf32,
    "warm_up": words.warm_up,
    "zero3": lambda setup: setup.layout.sharding is Sharding.ZERO3,
    "zero_stage": lambda setup: sharded.STAGES[setup.layout.sharding],
}
"""Values and conditions that descriptions name; paths of fields start at the plan."""


def _offers(tool: Tool, setup: Setup) -> dict[str, dict[str, object]]:
    """Return of each kind of choice whether a program lacks the plan's, and what it offers."""
    chosen: dict[str, object] = {
        "loggers": setup.log_to,
        "methods": setup.run.method,
        "optimizers": setup.run.optimizer,
        "preferences": setup.run.preference,
        "recipes": setup.estimate.precision,
        "recompute": setup.layout.recompute,
        "sharding": setup.layout.sharding,
    }
    found: dict[str, dict[str, object]] = {}
    for name, choice in chosen.items():
        offered = tuple(getattr(tool.says, name))
        every = ", ".join(str(item or "") for item in offered)
        found[name] = {"lacks": choice not in offered, "all": every, "first": (*offered, "")[0]}
    return found


def _pairing(tool: Tool, setup: Setup) -> str:
    """Return what trains on the plan's pairs of answers instead."""
    able = (key for key, one in descriptions().items() if one.pip)
    pairing = [key for key in able if setup.run.preference in descriptions()[key].preferences]
    return tool.says.instead or f"Choose --to {' or '.join(pairing[:2])}."


def _divided(tool: Tool, setup: Setup) -> str:
    degrees = tool.says.divided(setup.layout)
    return ", ".join(f"{name}={getattr(setup.layout, name)}" for name in degrees)


def _able_recipe(tool: Tool, setup: Setup) -> str | None:
    rates = setup.accelerator.peak_flops_per_s
    able = (name for name in tool.says.recipes if recipe_named(name).compute in rates)
    return next(able, None)


def _wide_experts(tool: Tool, setup: Setup) -> bool:
    """Whether the program keeps experts in 16 bits that the plan has in 4."""
    row, packed = tool.row, setup.run.four_bit and setup.model.num_experts > 1
    return bool(row and packed and not row.reaches_experts(setup.run.method, setup.model.family))


def _named(choices: Iterable[str | None], none: str) -> str:
    return ", ".join(choice or none for choice in choices)


COMPARED: Final[Mapping[str, Callable[[Tool, Setup], object]]] = {
    "able_recipe": _able_recipe,
    "backend": lambda _, setup: tool_choice().backends[backends_of(setup.accelerator)[0]].title,
    "backends": lambda tool, _: ", ".join(
        tool_choice().backends[name].title for name in tool.says.backends
    ),
    "divided": _divided,
    "elsewhere_other_tasks": lambda *_: launch_models().elsewhere["other tasks"],
    "elsewhere_recurrent": lambda *_: launch_models().elsewhere["recurrent"],
    "fp8_checkpoint": lambda tool, setup: (
        setup.run.method is not None
        and setup.checkpoint is None
        and setup.model.weight_format == "fp8"
        and not tool.says.reads_fp8
    ),
    "instead_of_pairs": _pairing,
    "kept_apart": lambda tool, setup: ", ".join(
        item.value for item in setup.layout.offload if item not in tool.says.offload
    ),
    "loggers": lambda tool, _: ", ".join(tool.says.loggers) or "no --log-to",
    "methods": lambda tool, _: _named(tool.says.methods, "pretraining").replace("full", "finetune"),
    "offers": _offers,
    "offloads": lambda tool, _: ", ".join(tool.says.offload) or "no offload",
    "preference": lambda _, setup: setup.run.preference or "no pairs",
    "preferences": lambda tool, _: _named(tool.says.preferences, "no pairs"),
    "reaches": lambda tool, setup: tool.says.reaches(setup.accelerator),
    "recurrent": lambda tool, setup: recurs(setup.model) and "recurs" not in tool.facts,
    "says": lambda tool, _: tool.says,
    "takes": lambda tool, setup: setup.model.unit in tool.says.units,
    "title": lambda tool, _: tool.says.title,
    "undivided": lambda tool, _: " ".join(
        f"--{name} 1" for name in DEGREES if name not in tool.says.divides
    ),
    "units": lambda tool, _: " or ".join(f"{item.value}s" for item in tool.says.units),
    "wide_experts": _wide_experts,
    "writes_nothing": lambda tool, setup: (
        setup.model.unit is Unit.TOKEN and tool.says.writes and not setup.model.generates
    ),
}
"""What a plan asks beside what a program offers; ``training_refusals.yaml`` names it."""


def _value(tool: Tool, setup: Setup, path: str) -> Any:
    """Return the value with this name, or at the end of a path of fields."""
    first, *further = path.split(".")
    if first == "optimizer":
        return at_path(tool.says.optimizers[setup.run.optimizer], further)
    if compared := COMPARED.get(first):
        return at_path(compared(tool, setup), further)
    if choices := tool.says.choices.get(first):
        plan = _Plan(partial(_value, tool, setup))
        return next((plan.filled(choices[when]) for when in choices if plan.holds(when)), None)
    fact = tool.facts.get(first) or FACTS.get(first)
    return at_path(fact(setup) if fact else getattr(setup, first), further)


class _Plan(Filler):
    """A plan that fills the parts of a file."""

    def parts(self, content: Parts) -> dict[str, object]:
        """Return the parts of a file whose conditions are met, as one mapping."""
        result: dict[str, object] = {}
        for part in content:
            if self.holds(str(part.get("when", ""))):
                _add(result, self.filled({key: part[key] for key in part if key != "when"}))
        return result


def _add(whole: dict[str, object], part: Mapping[str, object]) -> None:
    """Add a part to a mapping, and to the mappings in it."""
    for key, value in part.items():
        held = whole.get(key)
        if isinstance(held, dict) and isinstance(value, Mapping):
            _add(held, value)
        else:
            whole[key] = value


@cache
def sharing_parts() -> Mapping[str, Parts]:
    """Return how programs are told what is shared out, by program."""
    return read_mapping("sharing.yaml", dict[str, Parts])


def sharing(setup: Setup, program: str) -> dict[str, object]:
    """Return how ``deepspeed``, ``fsdp`` or ``accelerate`` is told what is shared out."""
    assert setup.tool is not None
    return _Plan(partial(_value, setup.tool, setup)).parts(sharing_parts()[program])


@cache
def training_refusals() -> Mapping[str, tuple[Refusal, ...]]:
    """Return the plans that no program runs: those of the network, and others."""
    return read_mapping("training_refusals.yaml", dict[str, tuple[Refusal, ...]])


def refuse(tool: Tool, setup: Setup) -> None:
    """Raise ``InputError`` for a plan that the program would not run."""
    plan, known, own = _Plan(partial(_value, tool, setup)), training_refusals(), tool.says.refusals
    of_samples = () if setup.model.unit is Unit.TOKEN else own
    for item in (*known["network"], *of_samples, *known["plan"], *own):
        if plan.holds(item.when):
            raise cannot(
                plan.filled(item.what),
                value=plan.filled(item.value),
                allowed=plan.filled(item.allowed),
                remedy=plan.filled(item.remedy),
            )


def launch(tool: Tool, setup: Setup) -> Launch:
    """Return the program that trains as its file says."""
    says, plan = tool.says, _Plan(partial(_value, tool, setup))
    files = {
        name: json_text(plan.filled(content))
        for name, (when, content) in says.files.items()
        if plan.holds(when)
    }
    if says.config:
        files[says.config] = _config(tool, plan)
    return Launch(
        program=_texts(plan.words(says.program)),
        options=plan.options(says.options),
        install=_installation(tool, plan, setup),
        image=tool.image(setup),
        variables={
            name: (plan.filled(default), meaning)
            for name, (default, meaning, *when) in says.variables.items()
            if plan.holds("".join(when))
        }
        | setup.log_variables,
        newest=says.newest,
        environment={
            name: spelled(plan.filled(value))
            for name, (value, *when) in says.environment.items()
            if plan.holds("".join(when))
        },
        files=files,
        notes=plan.texts(says.notes),
        starter=_texts(plan.words(says.starter)),
        ranks=says.ranks.get(setup.accelerator.architecture, 1),
        config=says.config,
    )


def _installation(tool: Tool, plan: _Plan, setup: Setup) -> tuple[tuple[str, ...], ...]:
    says, commands = tool.says, []
    if says.pip and setup.torch_first:
        commands.append(("pip", "install", *setup.torch_first))
    if says.clone:
        commands.append(git_clone(says.clone.repository, says.clone.package, tag=says.clone.tag))
    if says.pip:
        commands.append((*pip_install(*plan.texts(says.pip)), *says.pip_options))
    return (*commands, *map(_texts, plan.options(says.then)))


def _texts(found: tuple[Word, ...]) -> tuple[str, ...]:
    return tuple(word for word in found if isinstance(word, str))


def _config(tool: Tool, plan: _Plan) -> str:
    """Return the file that the program reads: YAML, JSON, or Python below its constants."""
    content = plan.parts(tool.says.content)
    if not tool.says.body:
        return (json_text if str(tool.says.config).endswith(".json") else yaml_text)(content)
    body = "".join(str(piece) for piece in plan.lines(tool.says.body))
    return "\n".join(python_constants(content)) + "\n" + body
