"""Turns the description of a training program and a plan into what starts it."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final

from pydantic import TypeAdapter

from advisor.estimate.hardware.kernel_times import uncast
from advisor.export.filling import Filler, at_path, spelled
from advisor.export.formats import cannot
from advisor.export.quoting import json_text, python_constants, yaml_text
from advisor.export.script import Launch, Word
from advisor.export.setup import Setup
from advisor.export.training import sharded, words
from advisor.export.training.model_names import launch_models
from advisor.export.training.tool import Fact, Parts, Tool
from advisor.export.versions import git_clone, pip_install
from advisor.foundation.data_files import read_yaml
from advisor.foundation.data_records import checked
from advisor.foundation.refusals import refusal
from advisor.foundation.resources import data_path
from advisor.nouns.layout import Offload, Recompute, Sharding


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


def _value(tool: Tool, setup: Setup, path: str) -> Any:
    """Return the value with this name, or at the end of a path of fields."""
    first, *further = path.split(".")
    if first == "optimizer":
        return at_path(tool.says.optimizers[setup.run.optimizer], further)
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
    path = data_path("sharing.yaml")
    read = TypeAdapter(dict[str, Parts]).validate_python
    return checked(read, read_yaml(path), file=path.name)


def sharing(setup: Setup, program: str) -> dict[str, object]:
    """Return how ``deepspeed``, ``fsdp`` or ``accelerate`` is told what is shared out."""
    assert setup.tool is not None
    return _Plan(partial(_value, setup.tool, setup)).parts(sharing_parts()[program])


def refuse(tool: Tool, setup: Setup) -> None:
    """Raise ``InputError`` for a plan that the program would not run."""
    tuned = setup.run.method is not None and setup.checkpoint is None
    if tuned and setup.model.weight_format == "fp8" and not tool.says.reads_fp8:
        raise refusal("checkpoint_in_fp8", value=setup.weights, tool=tool)
    plan = _Plan(partial(_value, tool, setup))
    for item in tool.says.refusals:
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
        config=says.config,
    )


def _installation(tool: Tool, plan: _Plan, setup: Setup) -> tuple[tuple[str, ...], ...]:
    says, commands = tool.says, []
    first = setup.cuda.install if setup.cuda else setup.torch_install
    if says.pip and first:
        commands.append(("pip", "install", *first))
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
