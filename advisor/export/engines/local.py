"""Command lines of llama.cpp and Ollama, which read GGUF files."""

from typing import Final

from advisor.estimate.hardware.card_formats import cache_format
from advisor.estimate.serving.unlike import bytes_by_card
from advisor.export.engines.cluster import OPEN_HOST, launch_of
from advisor.export.engines.servers import Servers, weights_of
from advisor.export.formats import cannot
from advisor.export.script import Launch, Options
from advisor.nouns.hardware import Segment, UnlikeCards
from advisor.nouns.precision import WEIGHT_FORMATS

IMAGE_FOLDER: Final = "/app"
"""Where llama.cpp's images keep their programs (.devops/cuda.Dockerfile)."""
ALL_LAYERS: Final = 999
"""More layers than any model has: Ollama takes no word for all."""


def llama_cpp(servers: Servers) -> Launch:
    """Return llama.cpp's command for one server.

    ``-c`` counts the tokens of all slots together. ``-fit off`` keeps the stated sizes.
    """
    _check_machine(servers)
    setup, slots = servers.setup, servers.sequences
    cache = servers.program.cache[cache_format(servers.workload, setup.accelerator)]
    from_hub, weights = _weights(servers)
    experts = setup.estimate.layout.cpu_expert_layers
    options: Options = (
        ("-hf" if from_hub else "-m", weights),
        ("-c", str(slots * servers.context)),
        ("-np", str(slots)),
        ("-ngl", _layers(servers, everything="all")),
        *((("--n-cpu-moe", str(experts)),) if experts else ()),
        *_split(servers),
        ("-fa", "on"),
        ("--cache-type-k", cache),
        ("--cache-type-v", cache),
        ("-fit", "off"),
        *_steps(servers),
        ("--metrics",),
        ("--host", OPEN_HOST),
        ("--port", str(servers.program.port)),
    )
    return launch_of(
        servers,
        ("llama-server",),
        options,
        before=(f'export PATH="$PATH:{IMAGE_FOLDER}"',),
        notes=(*_making(servers, from_hub), *_order(servers)),
    )


def _steps(servers: Servers) -> Options:
    """Return the tokens of one step, where the case states them."""
    tokens = servers.workload.step_tokens
    return (("-b", str(tokens)), ("-ub", str(tokens))) if tokens else ()


def _split(servers: Servers) -> Options:
    """Return how the layers are divided over cards; the shares of unlike cards are stated."""
    setup = servers.setup
    if not isinstance(setup.accelerator, UnlikeCards):
        return (("-sm", "layer" if servers.cards > 1 else "none"),)
    form = WEIGHT_FORMATS[setup.estimate.precision]
    held = bytes_by_card(setup.accelerator, setup.model, servers.workload, form)
    shares = ",".join(f"{100 * part / sum(held):.0f}" for part in held)
    return (("-sm", "layer"), ("-ts", shares))


def _order(servers: Servers) -> tuple[str, ...]:
    card = servers.setup.accelerator
    if not isinstance(card, UnlikeCards):
        return ()
    names = ", ".join(part.name for part in card.parts)
    return (f"-ts lists {names}: llama-server --list-devices shows the order of yours.",)


def ollama(servers: Servers) -> Launch:
    """Return Ollama's command for one server, with its Modelfile and its settings."""
    _check_machine(servers)
    setup, name = servers.setup, servers.setup.slug
    from_hub, weights = _weights(servers)
    local = weights if weights.startswith(("/", "./", "../")) else f"./{weights}"
    modelfile = (
        f"FROM {f'hf.co/{weights}' if from_hub else local}\n"
        f"PARAMETER num_ctx {servers.context}\n"
        f"PARAMETER num_gpu {_layers(servers, everything=str(ALL_LAYERS))}\n"
    )
    cache = servers.program.cache[cache_format(servers.workload, setup.accelerator)]
    environment = {
        "OLLAMA_HOST": f"{OPEN_HOST}:{servers.program.port}",
        "OLLAMA_CONTEXT_LENGTH": str(servers.context),
        "OLLAMA_NUM_PARALLEL": str(servers.sequences),
        "OLLAMA_FLASH_ATTENTION": "1",
        "OLLAMA_KV_CACHE_TYPE": cache,
        "OLLAMA_MAX_LOADED_MODELS": "1",
        "OLLAMA_KEEP_ALIVE": "-1",
    }
    if servers.cards > 1:
        environment["OLLAMA_SCHED_SPREAD"] = "1"
    waiting = "for _ in $(seq 600); do ollama list > /dev/null 2>&1 && break; sleep 1; done"
    return launch_of(
        servers,
        ("ollama", "serve"),
        (),
        files={"Modelfile": modelfile},
        environment=environment,
        notes=(*_making(servers, from_hub), f"The model's name is {name}: ollama run {name}"),
        before=(f"({waiting}; ollama create {name} -f Modelfile) &",),
    )


def _layers(servers: Servers, *, everything: str) -> str:
    """Return the layers on the cards, the output counted as one."""
    if servers.setup.accelerator.segment is Segment.CPU:
        return "0"
    layers = servers.setup.estimate.layout.gpu_layers
    return everything if layers is None else str(layers)


def _quantised(servers: Servers) -> str:
    """Return the name of the weight format in GGUF files."""
    return weights_of(servers).gguf


def _weights(servers: Servers) -> tuple[bool, str]:
    """Return whether the weights come from the hub, and their hub id or file."""
    checkpoint = servers.setup.checkpoint
    if checkpoint is None:
        return False, f"{_stem(servers)}-{_quantised(servers).lower()}.gguf"
    is_file = checkpoint.endswith(".gguf") or checkpoint.startswith((".", "/"))
    if is_file or checkpoint.count("/") != 1:
        return False, checkpoint
    return True, f"{checkpoint}:{_quantised(servers)}"


def _stem(servers: Servers) -> str:
    return servers.setup.slug.removeprefix("serve-")


def _making(servers: Servers, from_hub: bool) -> tuple[str, ...]:
    """Return how to make the file of weights, unless the case names one."""
    if from_hub or servers.setup.checkpoint is not None:
        return ()
    whole, form = f"{_stem(servers)}-bf16.gguf", _quantised(servers)
    _, file = _weights(servers)
    source = servers.setup.model.hub_id or "the model"
    make = f"Make the weights once, with llama.cpp's tools, in a folder with {source}"
    lines = [
        f"{make}; or name a published file with --checkpoint org/name-GGUF:",
        f"  python3 convert_hf_to_gguf.py FOLDER --outtype bf16 --outfile {whole}",
    ]
    if file != whole:
        lines.append(f"  llama-quantize {whole} {file} {form}")
    return tuple(lines)


def _check_machine(servers: Servers) -> None:
    if servers.machines > 1:
        raise cannot(
            f"{servers.program.title} does not join machines",
            value=f"{servers.machines} machines",
            allowed=f"up to {servers.setup.per_machine} accelerators",
            remedy="Choose --weights in fewer bits, or a card with more memory, on one machine.",
        )
