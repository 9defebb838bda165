"""The MCP server, asked by the SDK's own client over standard input and output."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

mcp = pytest.importorskip("mcp")

CASE: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 50e6},
}
ON_L40S = CASE | {"hardware": {"accelerator": "l40s", "count": 1}}


async def talk() -> dict[str, Any]:
    """One conversation: the tools, and the result of several calls."""
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "advisor", "mcp"], env=dict(os.environ)
    )
    async with mcp.Client(mcp.stdio_client(server), read_timeout_seconds=120) as client:
        return {
            "tools": (await client.list_tools()).tools,
            "recommend": await client.call_tool("recommend", CASE),
            "estimate": await client.call_tool("estimate", ON_L40S),
            "details": await client.call_tool("estimate", ON_L40S | {"details": True}),
            "fits": await client.call_tool("fits", {"accelerator": "rtx-4090"}),
            "compare": await client.call_tool("compare", {"accelerators": ["l4", "l40s"]}),
            "catalog": await client.call_tool("catalog", {}),
            "own": await client.call_tool("own", ON_L40S),
            "mistake": await client.call_tool("estimate", CASE),
            "file": await client.call_tool("estimate", ON_L40S | {"model": {"config": "/etc/x"}}),
            "unknown": await client.call_tool("nonsense", {}),
        }


@pytest.fixture(scope="module")
def heard() -> dict[str, Any]:
    return asyncio.run(talk())


def text(result: Any) -> str:
    return "\n".join(item.text for item in result.content)


def test_the_tools_carry_the_schema_of_a_case(heard: dict[str, Any]) -> None:
    tools = {tool.name: tool.input_schema for tool in heard["tools"]}

    assert set(tools) == {"recommend", "estimate", "own", "fits", "compare", "catalog"}
    assert {"model", "workload", "limits", "details"} <= set(tools["recommend"]["properties"])
    assert "accelerator" in tools["fits"]["required"]


@pytest.mark.parametrize("name", ["recommend", "estimate", "fits", "compare", "own", "catalog"])
def test_a_tool_answers(heard: dict[str, Any], name: str) -> None:
    assert not heard[name].is_error
    assert len(text(heard[name])) < 60_000


def test_answers_are_those_of_the_terminal(heard: dict[str, Any]) -> None:
    import advisor

    answer = " ".join(text(heard["recommend"]).split())
    assert " ".join(advisor.recommend(CASE).answer.split())[:60] in answer
    assert "L40S" in text(heard["estimate"])
    assert len(text(heard["details"])) > 2 * len(text(heard["estimate"]))


def test_mistakes_are_sentences(heard: dict[str, Any]) -> None:
    for name, said in (
        ("mistake", "hardware is missing"),
        ("file", "names a file"),
        ("unknown", "no tool 'nonsense'"),
    ):
        assert heard[name].is_error
        assert said in text(heard[name])


def test_a_line_that_is_no_message_has_an_answer_of_json_rpc() -> None:
    lines = ["not json", '{"a": 1}', '{"jsonrpc": "2.0", "id": 7, "method": "ping"}']
    server = subprocess.Popen(
        [sys.executable, "-m", "advisor", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        server.stdin.write("\n".join(lines) + "\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in lines]
        server.stdin.close()

    wrong = [one["error"]["code"] for one in answers if one["id"] is None]
    assert wrong == [-32700, -32600]  # JSON-RPC 2.0, section 5.1
    assert [one["result"] for one in answers if one["id"] == 7] == [{}]
