"""Each serving program with the function that writes its command line."""

from collections.abc import Callable
from typing import Final

from advisor.export.engines.cluster import infinity, sglang, tei, tensorrt_llm, vllm
from advisor.export.engines.local import llama_cpp, ollama
from advisor.export.engines.servers import Servers
from advisor.export.script import Launch

_COMMANDS: Final[dict[str, Callable[[Servers], Launch]]] = {
    "vllm": vllm,
    "sglang": sglang,
    "tensorrt-llm": tensorrt_llm,
    "llama-cpp": llama_cpp,
    "ollama": ollama,
    "tei": tei,
    "infinity": infinity,
}


def server_launch(servers: Servers) -> Launch:
    """Return the command for one server of a plan."""
    return _COMMANDS[servers.program.name](servers)
