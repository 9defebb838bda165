"""Names of software in a case: what a field takes, and what a person is told about it."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from advisor.foundation.resources import entry_names
from advisor.nouns.inputs import Input, Reads
from advisor.nouns.software.stacks import SOFTWARE, known_stacks
from advisor.nouns.software.tools import TOOLS, known_tools, spelled, tool_choice, tool_named

Names = Callable[[], Iterable[str]]


def _known(found: str | None, what: str, name: str, known: Iterable[str]) -> str:
    """Return what was found for a name; raise ``ValueError`` if nothing has it."""
    if found is None:
        raise ValueError(f"unknown {what} {name!r}; choose one of {', '.join(known)}")
    return found


def _training(name: str) -> str:
    if name in known_stacks():
        return name
    tool = known_tools().get(spelled(name))
    return _known(tool.name if tool and tool.training else None, "software", name, training_names())


def _serving(name: str) -> str:
    tool = known_tools().get(spelled(name))
    return _known(tool.name if tool and tool.serving else None, "engine", name, serving_names())


def training_names() -> dict[str, str]:
    """Return the names that ``--software`` takes, with titles: stacks first, then tools."""
    stacks = {name: stack.title for name, stack in known_stacks().items()}
    tools = known_tools().values()
    return stacks | {
        tool.name: tool.title for tool in tools if tool.training and tool.name not in stacks
    }


def serving_names() -> dict[str, str]:
    """Return the names that ``--engine`` takes, with titles."""
    return {tool.name: tool.title for tool in known_tools().values() if tool.serving}


def frameworks() -> tuple[str, ...]:
    """Return the libraries below the tools, each once."""
    return tuple(dict.fromkeys(tool.framework for tool in known_tools().values()))


def vendors() -> tuple[str, ...]:
    """Return the vendors of the backends, each once."""
    names = (name for item in tool_choice().backends.values() for name in item.vendors)
    return tuple(dict.fromkeys(names))


def _vendor(name: str) -> str:
    found = next((item for item in vendors() if item.casefold() == name.casefold()), None)
    return _known(found, "vendor", name, vendors())


def _framework(name: str) -> str:
    found = name.casefold() if name.casefold() in frameworks() else None
    return _known(found, "framework", name, frameworks())


def _listed(names: Names) -> Any:
    """Return the part of a type that lists its names in the schema."""
    return Field(json_schema_extra=lambda schema: schema.update(enum=list(names())))


SoftwareName = Annotated[str, AfterValidator(_training), _listed(training_names)]
"""Name of a stack or of a training tool: checked, and listed in the schema."""
EngineName = Annotated[str, AfterValidator(_serving), _listed(serving_names)]
"""Name of a serving tool."""
ToolName = Annotated[
    str, AfterValidator(lambda name: tool_named(name).name), _listed(lambda: entry_names(TOOLS))
]
"""Name of a tool."""
FrameworkName = Annotated[str, AfterValidator(_framework), _listed(frameworks)]
"""Name of a library below tools."""
VendorName = Annotated[str, AfterValidator(_vendor), _listed(vendors)]
"""Vendor of accelerators."""


def _asks(told: str, flag: str, label: str, names: Names, **more: Any) -> Input:
    """Return what a person is told about a field that names software."""
    return Input(
        told, flag, label, reads=Reads.CHOICE, metavar="NAME", choices=names, many=True, **more
    )


TRAINED_BY: Final = _asks(
    "what runs the training: a tool (trl, unsloth, axolotl, megatron-core, maxtext) or a class of "
    f"tools ({', '.join(entry_names(SOFTWARE))}); gpu-advisor software lists all tools",
    "--software",
    "Software",
    training_names,
    labels=training_names,
    blank="Usual for card and task",
)
SERVED_BY: Final = _asks(
    "what serves: vllm, sglang, tensorrt-llm, llama-cpp, tei, faster-whisper, diffusers ...; "
    "gpu-advisor software lists them all",
    "--engine",
    "Engine",
    serving_names,
    labels=serving_names,
    blank="Usual for card and model",
)
VENDORS: Final = _asks(
    "allow only accelerators of this vendor: NVIDIA, AMD", "--vendor", "Vendors", vendors
)
FRAMEWORKS: Final = _asks(
    "allow only software on this framework: pytorch, jax, mlx, ggml",
    "--framework",
    "Frameworks",
    frameworks,
)
ALLOWED: Final = _asks(
    "allow only this software: trl, vllm; gpu-advisor software lists them all",
    "--allow-software",
    "Software allowed",
    known_tools,
    labels=lambda: {name: tool.title for name, tool in known_tools().items()},
)
