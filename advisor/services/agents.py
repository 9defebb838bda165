"""The MCP server (optional extra ``mcp``): the questions of the facade as tools of an assistant.

An assistant reads what a person reads on the terminal: an answer as JSON would fill its memory.
"""

import asyncio
import io
from typing import Any, Final, Self

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from advisor import __version__
from advisor.errors import MAX_PART, AdvisorError, shortened
from advisor.foundation.noun import Noun
from advisor.services.questions import Door, asked, doors
from advisor.terminal.console import SCREENS, new_console, show

WIDTH: Final = 100
TIMEOUT_S: Final = 60.0
AT_ONCE: Final = 2
INSTRUCTIONS: Final = (
    "Sizes hardware for AI work. Ask `catalog` for the keys of accelerators. `recommend` takes a "
    "case with model and workload, and optional limits; `estimate` and `own` also take hardware. "
    "Figures are ranges that aim to hold eight times out of ten; repeat the range and the date of "
    "a price. Set `details` for every term, rejected accelerator and source."
)


def create_server() -> Server[Any]:
    """Return the server with a tool for each question."""
    known, limiter = doors(), anyio.CapacityLimiter(AT_ONCE)

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(door) for door in known.values()])

    async def call_tool(_: Any, call: types.CallToolRequestParams) -> types.CallToolResult:
        door = known.get(call.name)
        try:
            if door is None:
                raise AdvisorError(f"no tool {call.name!r}; there are: {', '.join(known)}")
            content = dict(call.arguments or {})
            details = content.pop("details", False) is True
            question = asked(door, content)
            with anyio.fail_after(TIMEOUT_S):
                text = await anyio.to_thread.run_sync(
                    _text, door, question, details, limiter=limiter, abandon_on_cancel=True
                )
        except TimeoutError:
            return _said(f"no answer within {TIMEOUT_S:g} s; ask a smaller question", wrong=True)
        except AdvisorError as error:
            return _said(str(error), wrong=True)
        except Exception as error:  # noqa: BLE001 - no traceback reaches an assistant
            what = shortened(f"{type(error).__name__}: {error}", MAX_PART)
            return _said(f"a defect of the program: {what}", wrong=True)
        return _said(text)

    return Server(
        "gpu-advisor",
        version=__version__,
        title="GPU advisor",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def run() -> None:
    """Serve on standard input and output until they end."""

    async def serve() -> None:
        server = create_server()
        async with stdio_server() as (reading, writing):
            read: Any = _Readable(reading, writing)
            await server.run(read, writing, server.create_initialization_options())

    asyncio.run(serve())


class _Readable:
    """A stream of messages that answers what is no message; the SDK would drop it."""

    def __init__(self, reading: Any, writing: Any) -> None:
        self._reading, self._writing = reading, writing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reading, name)

    async def __aenter__(self) -> Self:
        await self._reading.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._reading.__aexit__(*error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        while isinstance(message := await self._reading.__anext__(), Exception):
            await self._writing.send(SessionMessage(_unreadable(message)))
        found: SessionMessage = message
        return found


def _unreadable(error: Exception) -> types.JSONRPCError:
    """Return the answer to a line that is no JSON, or no message of the protocol."""
    json = not isinstance(error, ValidationError) or error.errors()[0]["type"] == "json_invalid"
    code, what = (
        (types.PARSE_ERROR, "Parse error: a message is one line of JSON")
        if json
        else (types.INVALID_REQUEST, "Invalid request: not a message of JSON-RPC 2.0")
    )
    return types.JSONRPCError(
        jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=what)
    )


def _tool(door: Door) -> types.Tool:
    schema = door.question.model_json_schema()
    details = {"type": "boolean", "default": False, "description": "show every term and source"}
    schema["properties"] = {**schema.get("properties", {}), "details": details}
    return types.Tool(
        name=door.name,
        title=door.name.capitalize(),
        description=door.summary,
        input_schema=schema,
        annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )


def _said(text: str, *, wrong: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=wrong)


def _text(door: Door, question: Noun, details: bool) -> str:
    """Return an answer as the terminal prints it."""
    answer = door.ask(question)
    if type(answer).__name__ not in SCREENS:
        return answer.to_json(indent=None)
    file = io.StringIO()
    show(new_console(file, width=WIDTH), answer, everything=details)
    return file.getvalue()
