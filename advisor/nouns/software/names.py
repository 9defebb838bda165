"""Names of software in a case: what a field takes, and what a person is told about it."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from advisor.foundation.resources import entry_names
from advisor.nouns.inputs import Input, Reads
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.software.tools import TOOLS, known_tools, spelled, tool_choice, tool_named


def _training(name: str) -> str:
    """Return a stack's or a training tool's name.

    Raise ``ValueError`` if nothing that trains has it.
    """
    if name in known_stacks():
        return name
    found = known_tools().get(spelled(name))
    if found is None or found.training is None:
        msg = f"unknown software {name!r}; choose one of {', '.join(training_names())}"
        raise ValueError(msg)
    return found.name


def _serving(name: str) -> str:
    """Return a serving tool's name; raise ``ValueError`` if nothing that serves has it."""
    found = known_tools().get(spelled(name))
    if found is None or found.serving is None:
        msg = f"unknown engine {name!r}; choose one of {', '.join(serving_names())}"
        raise ValueError(msg)
    return found.name


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
    if found is not None:
        return found
    msg = f"unknown vendor {name!r}; choose one of {', '.join(vendors())}"
    raise ValueError(msg)


def _vendor_schema(schema: dict[str, Any]) -> None:
    schema["enum"] = list(vendors())


def _any(name: str) -> str:
    return tool_named(name).name


def _framework(name: str) -> str:
    if name.casefold() in frameworks():
        return name.casefold()
    msg = f"unknown framework {name!r}; choose one of {', '.join(frameworks())}"
    raise ValueError(msg)


def _training_schema(schema: dict[str, Any]) -> None:
    schema["enum"] = list(training_names())


def _serving_schema(schema: dict[str, Any]) -> None:
    schema["enum"] = list(serving_names())


def _tool_schema(schema: dict[str, Any]) -> None:
    schema["enum"] = list(entry_names(TOOLS))


def _framework_schema(schema: dict[str, Any]) -> None:
    schema["enum"] = list(frameworks())


SoftwareName = Annotated[str, AfterValidator(_training), Field(json_schema_extra=_training_schema)]
"""Name of a stack or of a training tool: checked, and listed in the schema."""
EngineName = Annotated[str, AfterValidator(_serving), Field(json_schema_extra=_serving_schema)]
"""Name of a serving tool."""
ToolName = Annotated[str, AfterValidator(_any), Field(json_schema_extra=_tool_schema)]
"""Name of a tool."""
FrameworkName = Annotated[
    str, AfterValidator(_framework), Field(json_schema_extra=_framework_schema)
]
"""Name of a library below tools."""
VendorName = Annotated[str, AfterValidator(_vendor), Field(json_schema_extra=_vendor_schema)]
"""Vendor of accelerators."""

TRAINED_BY: Final = Input(
    "what runs the training: a tool (trl, unsloth, axolotl, megatron-core, maxtext) or a class of "
    "tools (huggingface, plain, deepspeed, compiled, megatron, liger); gpu-advisor software lists "
    "them all",
    "--software",
    "Software",
    reads=Reads.CHOICE,
    metavar="NAME",
    choices=training_names,
    labels=training_names,
    many=True,
    blank="Usual for card and task",
)
SERVED_BY: Final = Input(
    "what serves: vllm, sglang, tensorrt-llm, llama-cpp, tei, faster-whisper, diffusers ...; "
    "gpu-advisor software lists them all",
    "--engine",
    "Engine",
    reads=Reads.CHOICE,
    metavar="NAME",
    choices=serving_names,
    labels=serving_names,
    many=True,
    blank="Usual for card and model",
)
VENDORS: Final = Input(
    "allow only accelerators of this vendor: NVIDIA, AMD",
    "--vendor",
    "Vendors",
    reads=Reads.CHOICE,
    metavar="NAME",
    choices=vendors,
    many=True,
)
FRAMEWORKS: Final = Input(
    "allow only software on this framework: pytorch, jax, mlx, ggml",
    "--framework",
    "Frameworks",
    reads=Reads.CHOICE,
    metavar="NAME",
    choices=frameworks,
    many=True,
)
ALLOWED: Final = Input(
    "allow only this software: trl, vllm; gpu-advisor software lists them all",
    "--allow-software",
    "Software allowed",
    reads=Reads.CHOICE,
    metavar="NAME",
    choices=known_tools,
    labels=lambda: {name: tool.title for name, tool in known_tools().items()},
    many=True,
)
