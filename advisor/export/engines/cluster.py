"""Command lines of the servers for datacenters: vLLM, SGLang, TensorRT-LLM, TEI and Infinity."""

import json
from typing import Final

from advisor.estimate.batch.forward import generates
from advisor.estimate.hardware.card_formats import cache_format, stored_format
from advisor.export.engines.servers import Servers, weights_of
from advisor.export.formats import cannot
from advisor.export.quoting import yaml_text
from advisor.export.script import Launch, Options, Variable
from advisor.export.versions import pip_install
from advisor.nouns.techniques import Speculation, drafted, reserved_rank

RANK: Final = Variable("NODE_RANK")
FIRST_HOST: Final = Variable("MASTER_ADDR")
MEETING: Final = Variable("MEETING_POINT")
FURTHER: Final = Variable("@")
"""Options that differ between the machines of a server."""
GROUP_PORT: Final = 13_345
"""Port on which the machines of one server meet. Assumed free."""
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
DEVICES: Final = {"metal": "mps", "cpu": "cpu"}
"""Infinity's ``--device``; CUDA and ROCm are ``cuda``."""
OPEN_HOST: Final = "0.0.0.0"
"""All addresses of the machine."""
LOOKED_UP: Final = 4
"""Tokens of the longest n-gram that is looked up in the prompt. Assumed: vLLM's own examples."""
FREE_SHARE: Final = 0.9
"""TensorRT-LLM's share of the memory that weights leave free (KvCacheConfig's default)."""


def launch_of(
    servers: Servers,
    program: tuple[str, ...],
    options: Options,
    *,
    before: tuple[str, ...] = (),
    files: dict[str, str] | None = None,
    notes: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
) -> Launch:
    """Return a server's launch with what its program installs and its image."""
    card = servers.setup.accelerator
    build = servers.program.backends[servers.backend]
    packages = (*build.install, *weights_of(servers).extra)
    return Launch(
        program=program,
        options=options,
        install=(pip_install(*packages),) if packages else (),
        image=build.image_for(card) or "",
        image_extra=(pip_install(*weights_of(servers).extra),) if weights_of(servers).extra else (),
        before=before,
        files=files or {},
        environment=environment or {},
        notes=(*notes, *((build.note,) if build.note else ())),
    )


def check_stored(servers: Servers) -> None:
    """Refuse weights that the program cannot make and that no checkpoint is named for."""
    setup, program = servers.setup, servers.program
    wanted = setup.estimate.precision
    if not weights_of(servers).stored or wanted == setup.model.weight_format or setup.checkpoint:
        return
    made = [name for name, item in program.weights.items() if not item.stored]
    raise cannot(
        f"{program.title} cannot convert weights to {wanted} while loading",
        value=setup.weights,
        allowed=f"--checkpoint with weights in {wanted}, or --weights with one of "
        + ", ".join(made),
        remedy="Add --checkpoint with the hub id of a checkpoint in that format.",
    )


def _stated(words: tuple[str, ...]) -> Options:
    """Return options from the words of the table, each with its value."""
    return tuple(zip(words[::2], words[1::2], strict=True))


def _formats(servers: Servers, cache_option: str) -> Options:
    """Return the options for the formats of weights and of keys and values."""
    setup, stated = servers.setup, weights_of(servers)
    card, wanted = setup.accelerator, setup.estimate.precision
    own = stored_format(card, "bf16")
    computed = wanted if wanted in DTYPES else own
    # A checkpoint in fewer bits states its format itself.
    told = wanted in DTYPES or (wanted != setup.model.weight_format and not setup.checkpoint)
    options = _stated(stated.options if told else ())
    if wanted not in DTYPES and own != "bf16":
        options += (("--dtype", DTYPES[own]),)
    cache = cache_format(servers.workload, card)
    if cache != computed and (value := servers.program.cache[cache]):
        options += ((cache_option, value),)
    return options


def vllm(servers: Servers) -> Launch:
    """Return vLLM's command for one server."""
    check_stored(servers)
    setup, layout = servers.setup, servers.setup.estimate.layout
    facts, work = setup.calibration.serving, servers.workload
    large = setup.accelerator.memory_reported_bytes >= facts.large_memory_bytes
    batched = work.step_tokens or (facts.batched_tokens if large else facts.small_batched_tokens)
    options: Options = (
        ("--tensor-parallel-size", str(layout.tensor)),
        ("--pipeline-parallel-size", str(layout.pipeline)),
        ("--data-parallel-size", str(servers.copies)),
        ("--max-model-len", str(servers.context)),
        ("--max-num-seqs", str(servers.sequences)),
        ("--max-num-batched-tokens", str(batched)),
        ("--gpu-memory-utilization", f"{facts.memory_fraction:g}"),
        *_formats(servers, "--kv-cache-dtype"),
        ("--port", str(servers.program.port)),
    )
    if layout.expert > 1:
        options += (("--enable-expert-parallel",),)
    if not generates(setup.model):
        options += (("--runner", "pooling"),)
    if work.speculation:
        drafts = {"method": work.speculation.value, "num_speculative_tokens": drafted(work)}
        if work.speculation is Speculation.NGRAM:
            drafts["prompt_lookup_max"] = LOOKED_UP
        options += (("--speculative-config", json.dumps(drafts)),)
    if work.adapters:
        options += (
            ("--enable-lora",),
            ("--max-loras", str(work.adapters)),
            ("--max-lora-rank", str(reserved_rank(work))),
        )
    across, before = _vllm_machines(servers)
    return launch_of(servers, ("vllm", "serve", setup.weights), (*options, *across), before=before)


def _vllm_machines(servers: Servers) -> tuple[Options, tuple[str, ...]]:
    """Return the options that join machines, and the lines that set those of each machine."""
    if servers.machines == 1:
        return (), ()
    if servers.copies > 1:
        local = servers.copies // servers.machines
        options: Options = (
            ("--data-parallel-size-local", str(local)),
            ("--data-parallel-address", FIRST_HOST),
            ("--data-parallel-rpc-port", str(GROUP_PORT)),
        )
        start = f'--headless --data-parallel-start-rank "$((NODE_RANK * {local}))"'
    else:
        options = (
            ("--nnodes", str(servers.machines)),
            ("--node-rank", RANK),
            ("--master-addr", FIRST_HOST),
        )
        start = "--headless"
    lines = ("set --", f'[ "$NODE_RANK" = 0 ] || set -- {start}')
    return (*options, (FURTHER,)), lines


def sglang(servers: Servers) -> Launch:
    """Return SGLang's command for one server."""
    check_stored(servers)
    setup, layout = servers.setup, servers.setup.estimate.layout
    spread, work = layout.expert > 1, servers.workload
    options: Options = (
        ("--model-path", setup.weights),
        ("--tp-size", str(layout.tensor * (servers.copies if spread else 1))),
        ("--pp-size", str(layout.pipeline)),
        ("--dp-size", str(servers.copies)),
        *(
            (("--enable-dp-attention",), ("--ep-size", str(servers.copies * layout.tensor)))
            if spread
            else ()
        ),
        ("--context-length", str(servers.context)),
        ("--max-running-requests", str(servers.sequences * servers.copies)),
        *_formats(servers, "--kv-cache-dtype"),
        ("--host", OPEN_HOST),
        ("--port", str(servers.program.port)),
        ("--enable-metrics",),
    )
    if work.step_tokens:
        options += (("--chunked-prefill-size", str(work.step_tokens)),)
    if work.speculation is Speculation.NGRAM:
        options += (
            ("--speculative-algorithm", "NGRAM"),
            ("--speculative-num-draft-tokens", str(drafted(work))),
        )
    elif work.speculation:
        options += (
            ("--speculative-algorithm", "NEXTN"),
            ("--speculative-num-steps", str(drafted(work))),
            ("--speculative-eagle-topk", "1"),
            ("--speculative-num-draft-tokens", str(drafted(work) + 1)),
        )
    if work.adapters:
        options += (
            ("--enable-lora",),
            ("--max-loras-per-batch", str(work.adapters)),
            ("--max-lora-rank", str(reserved_rank(work))),
            ("--lora-target-modules", "all"),
        )
    before: tuple[str, ...] = ()
    if servers.machines > 1:
        before = (f'{MEETING.name}="$MASTER_ADDR:{GROUP_PORT}"',)
        options += (
            ("--nnodes", str(servers.machines)),
            ("--node-rank", RANK),
            ("--dist-init-addr", MEETING),
        )
    return launch_of(servers, ("python3", "-m", "sglang.launch_server"), options, before=before)


def tensorrt_llm(servers: Servers) -> Launch:
    """Return TensorRT-LLM's command for one server, with its file of options."""
    check_stored(servers)
    setup, layout = servers.setup, servers.setup.estimate.layout
    if servers.machines > 1:
        raise cannot(
            "a server of TensorRT-LLM that spans machines needs MPI, which this file lacks",
            value=f"{servers.machines} machines",
            allowed=f"a copy on up to {setup.per_machine} accelerators",
            remedy="Choose --to vllm or sglang, or fewer accelerators for a copy (--tensor).",
        )
    facts, work = setup.calibration.serving, servers.workload
    content: dict[str, object] = {
        "tensor_parallel_size": layout.tensor * servers.copies,
        "pipeline_parallel_size": layout.pipeline,
        "max_batch_size": servers.sequences * servers.copies,
        "max_num_tokens": work.step_tokens or facts.batched_tokens,
        "max_seq_len": servers.context,
        "kv_cache_config": {
            "free_gpu_memory_fraction": FREE_SHARE,
            "dtype": servers.program.cache[cache_format(servers.workload, setup.accelerator)]
            or "auto",
        },
    }
    if work.step_tokens:
        content["enable_chunked_prefill"] = True
    if work.speculation:
        content["speculative_config"] = {
            "decoding_type": "NGram",
            "max_draft_len": drafted(work),
            "max_matching_ngram_size": LOOKED_UP,
        }
    if servers.copies > 1:
        content["moe_expert_parallel_size"] = layout.tensor * servers.copies
        content["enable_attention_dp"] = True
    options: Options = (
        ("--backend", "pytorch"),
        ("--config", "serve.yaml"),
        ("--host", OPEN_HOST),
        ("--port", str(servers.program.port)),
    )
    return launch_of(
        servers, ("trtllm-serve", setup.weights), options, files={"serve.yaml": yaml_text(content)}
    )


def tei(servers: Servers) -> Launch:
    """Return the command of Text Embeddings Inference for one server.

    A published base model names no pooling, without which TEI does not start.
    """
    setup, batch = servers.setup, servers.sequences
    options: Options = (
        ("--model-id", setup.weights),
        *_stated(weights_of(servers).options),
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
        *_stated(weights_of(servers).options),
        ("--engine", "torch"),
        ("--device", DEVICES.get(servers.backend, "cuda")),
        ("--host", OPEN_HOST),
        ("--port", str(servers.program.port)),
    )
    return launch_of(servers, ("infinity_emb", "v2"), options)
