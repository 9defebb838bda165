"""Command lines of the servers that read whole sequences: TEI and Infinity."""

from __future__ import annotations

from typing import Final

from advisor.export.engines.cluster import OPEN_HOST, launch_of
from advisor.export.engines.servers import Servers, weights_of
from advisor.export.script import Launch, Options

DEVICES: Final = {"metal": "mps", "cpu": "cpu"}
"""Infinity's ``--device``; CUDA and ROCm are ``cuda``."""


def _dtype(servers: Servers) -> Options:
    words = weights_of(servers).options
    return tuple(zip(words[::2], words[1::2], strict=True))


def tei(servers: Servers) -> Launch:
    """Return the command of Text Embeddings Inference for one server.

    A published base model names no pooling, without which TEI does not start.
    """
    setup, batch = servers.setup, servers.sequences
    options: Options = (
        ("--model-id", setup.weights),
        *_dtype(servers),
        *((("--pooling", "mean"),) if setup.checkpoint is None else ()),
        ("--max-batch-requests", str(batch)),
        ("--max-batch-tokens", str(batch * servers.workload.input_tokens)),
        ("--auto-truncate",),
        ("--hostname", OPEN_HOST),
        ("--port", str(servers.program.port)),
    )
    return launch_of(servers, ("text-embeddings-router",), options)


def infinity(servers: Servers) -> Launch:
    """Return Infinity's command for one server."""
    setup = servers.setup
    options: Options = (
        ("--model-id", setup.weights),
        ("--batch-size", str(servers.sequences)),
        *_dtype(servers),
        ("--engine", "torch"),
        ("--device", DEVICES.get(servers.backend, "cuda")),
        ("--host", OPEN_HOST),
        ("--port", str(servers.program.port)),
    )
    return launch_of(servers, ("infinity_emb", "v2"), options)
