"""What vLLM is told on AWS's chips, whose plugin compiles one graph for each shape."""

import json

from advisor.export.engines.servers import Servers


def segment(servers: Servers) -> int | None:
    """Return the tokens of one step; None where the program takes prompts whole.

    Prompts are padded to a compiled size: the smallest that holds one, up to the plan's step.
    """
    if not servers.build.ranks:
        return servers.step_tokens
    sizes = servers.build.segments.get(servers.setup.accelerator.architecture)
    if not sizes:
        return None
    able = [size for size in sizes if size <= servers.step_tokens] or [min(sizes)]
    holding = (size for size in able if size >= servers.workload.input_tokens)
    return min(holding, default=max(able))


def config(servers: Servers) -> str | None:
    """Return the shapes to compile, one graph for prompts and one for answers, and its choices."""
    size = segment(servers)
    if size is None or not servers.build.ranks:
        return None
    plan = servers.setup.estimate
    spread = plan.layout.expert > 1
    shapes: dict[str, object] = {
        "kv_segment_size_buckets": [size],
        "num_batched_tokens_buckets": [size],
        "num_seqs_buckets": [servers.sequences],
        **({"quantization": "mxfp4"} if plan.precision == "mxfp4" else {}),
        **({"ep_degree": servers.cards * servers.ranks} if spread else {}),
    }
    return json.dumps({"neuron_config": shapes})


def unpacked(servers: Servers) -> str | None:
    """Return what unpacks a checkpoint of 4 bits to the plan's 16."""
    packed, wanted = servers.setup.model.weight_format, servers.setup.estimate.precision
    unpacks = servers.build.ranks and packed == "mxfp4" != wanted
    return json.dumps({"quantization_config": {}}) if unpacks else None
