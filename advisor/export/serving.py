"""Options that make vLLM serve as planned."""

from __future__ import annotations

from math import ceil
from typing import Final

from advisor.export.formats import cannot
from advisor.export.script import Launch, Options
from advisor.export.setup import Setup
from advisor.export.versions import image_of, pip_install
from advisor.nouns.workload import Serving

PORT: Final = 8000
"""vLLM's default port."""
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Weight format -> ``--dtype``."""
QUANTIZED_ON_LOADING: Final = {"fp8": "fp8", "nf4": "bitsandbytes"}
"""Weight format -> ``--quantization``, for formats that vLLM makes from a 16-bit checkpoint."""


def vllm_launch(setup: Setup) -> Launch:
    """Return the server command for one machine.

    Raises
    ------
    InputError
        If a copy of the model spans machines, or vLLM cannot make the weight format.
    """
    workload, layout = setup.workload, setup.estimate.layout
    assert isinstance(workload, Serving)
    copy = layout.tensor * layout.pipeline
    ranks = setup.per_machine // copy
    if setup.per_machine % copy or layout.expert > ranks:
        raise cannot(
            "one copy of the model spans machines",
            value=copy * layout.expert,
            allowed=f"a divisor of the {setup.per_machine} accelerators of a machine",
            remedy="Choose a smaller --tensor, or other cards.",
        )
    facts = setup.calibration.serving
    large = setup.accelerator.memory_reported_bytes >= facts.large_memory_bytes
    batched = facts.batched_tokens if large else facts.small_batched_tokens
    options: Options = (
        ("--tensor-parallel-size", str(layout.tensor)),
        ("--pipeline-parallel-size", str(layout.pipeline)),
        ("--data-parallel-size", str(ranks)),
        ("--max-model-len", str(workload.input_tokens + workload.output_tokens)),
        ("--max-num-seqs", str(ceil(workload.concurrency / layout.data))),
        ("--max-num-batched-tokens", str(batched)),
        ("--gpu-memory-utilization", f"{facts.memory_fraction:g}"),
        *_formats(setup, workload),
        ("--port", str(PORT)),
    )
    if layout.expert > 1:
        options += (("--enable-expert-parallel",),)
    return Launch(
        program=("vllm", "serve", setup.weights),
        options=options,
        install=(pip_install("vllm"),),
        image=image_of("vllm", setup.accelerator.vendor),
    )


def _formats(setup: Setup, workload: Serving) -> Options:
    """Return the options for the number formats of weights and cache."""
    wanted, stored = setup.estimate.precision, setup.model.weight_format
    options: Options = ()
    if wanted in DTYPES:
        options = (("--dtype", DTYPES[wanted]),)
    elif wanted != stored and setup.checkpoint is None:
        if wanted not in QUANTIZED_ON_LOADING:
            raise cannot(
                f"vLLM cannot convert weights to {wanted} while loading",
                value=setup.weights,
                allowed=f"--checkpoint with weights in {wanted}, or --weights with one of "
                + ", ".join((*DTYPES, *QUANTIZED_ON_LOADING)),
                remedy="Add --checkpoint with the hub id of a checkpoint in that format.",
            )
        options = (("--quantization", QUANTIZED_ON_LOADING[wanted]),)
    if workload.kv_cache_format == "fp8":
        options += (("--kv-cache-dtype", "fp8"),)
    return options
