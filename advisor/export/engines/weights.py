"""What single programs are told of weights: GGUF files, Whisper's sizes, graphs of AWS's chips."""

import json

from advisor.estimate.serving.unlike import bytes_by_card
from advisor.export.engines.servers import Servers, weights_of
from advisor.export.quoting import shell_word
from advisor.export.script import Options
from advisor.export.training.model_names import launch_models
from advisor.nouns.hardware import Segment, UnlikeCards
from advisor.nouns.precision import WEIGHT_FORMATS


def file(servers: Servers) -> Options:
    """Return the option that names the weights: a hub id, or a file."""
    from_hub, weights = _weights(servers)
    return (("-hf" if from_hub else "-m", weights),)


def source(servers: Servers) -> str:
    """Return the weights as a Modelfile names them."""
    from_hub, weights = _weights(servers)
    if from_hub:
        return f"hf.co/{weights}"
    return weights if weights.startswith(("/", "./", "../")) else f"./{weights}"


def layers(servers: Servers) -> str | None:
    """Return the layers on the cards, the output counted as one; None where all are."""
    if servers.setup.accelerator.segment is Segment.CPU:
        return "0"
    held = servers.setup.estimate.layout.gpu_layers
    return None if held is None else str(held)


def split(servers: Servers) -> Options:
    """Return how the layers are divided over cards; the shares of unlike cards are stated."""
    setup = servers.setup
    if not isinstance(setup.accelerator, UnlikeCards):
        return (("-sm", "layer" if servers.cards > 1 else "none"),)
    form = WEIGHT_FORMATS[setup.estimate.precision]
    held = bytes_by_card(setup.accelerator, setup.model, servers.workload, form)
    shares = ",".join(f"{100 * part / sum(held):.0f}" for part in held)
    return (("-sm", "layer"), ("-ts", shares))


def order(servers: Servers) -> str | None:
    """Return the order in which shares of unlike cards are stated."""
    card = servers.setup.accelerator
    if not isinstance(card, UnlikeCards):
        return None
    names = ", ".join(part.name for part in card.parts)
    return f"-ts lists {names}: llama-server --list-devices shows the order of yours."


def making(servers: Servers) -> tuple[str, ...]:
    """Return how to make the file of weights, unless the case names one."""
    if servers.setup.checkpoint is not None:
        return ()
    whole, form = f"{_stem(servers)}-bf16.gguf", weights_of(servers).gguf
    _, made = _weights(servers)
    make = "Make the weights once, with llama.cpp's tools, in a folder with "
    make += servers.setup.named or "the model"
    lines = [
        f"{make}; or name a published file with --checkpoint org/name-GGUF:",
        f"  python3 convert_hf_to_gguf.py FOLDER --outtype bf16 --outfile {whole}",
    ]
    if made != whole:
        lines.append(f"  llama-quantize {whole} {made} {form}")
    return tuple(lines)


def _weights(servers: Servers) -> tuple[bool, str]:
    """Return whether the weights come from the hub, and their hub id or file."""
    checkpoint, form = servers.setup.checkpoint, weights_of(servers).gguf
    if checkpoint is None:
        return False, f"{_stem(servers)}-{form.lower()}.gguf"
    is_file = checkpoint.endswith(".gguf") or checkpoint.startswith((".", "/"))
    if is_file or checkpoint.count("/") != 1:
        return False, checkpoint
    # The hub finds a file by its format, but for MXFP4; a published name is whole.
    listed = launch_models().quantized.names.values()
    whole = ":" in checkpoint or any(checkpoint in formats.values() for formats in listed)
    return True, checkpoint if whole else f"{checkpoint}:{form}"


def _stem(servers: Servers) -> str:
    return servers.setup.slug.removeprefix("serve-")


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


def sound_name(servers: Servers) -> str:
    """Return the size under which converted weights are published, else the stated weights."""
    return _published(servers) or servers.setup.weights


def ggml(servers: Servers) -> str:
    """Return the file of weights of whisper.cpp."""
    published, stated = _published(servers), servers.setup.checkpoint
    if published is None and stated is not None and stated.endswith(".bin"):
        return stated
    form = "" if not (words := weights_of(servers).options) else f"-{words[0]}"
    return f"ggml-{published or servers.setup.slug.removeprefix('serve-')}{form}.bin"


def ggml_made(servers: Servers) -> tuple[str, ...]:
    """Return the shell lines that fetch the published weights and pack them."""
    published, made = _published(servers), ggml(servers)
    if published is None:
        return ()
    whole = f"ggml-{published}.bin"
    address = f"https://huggingface.co/ggerganov/whisper.cpp/resolve/main/{whole}"
    lines = [f"[ -f {whole} ] || curl -L --fail --output {whole} {address}"]
    if made != whole:
        [kind] = weights_of(servers).options
        lines.append(f"[ -f {made} ] || whisper-quantize {whole} {made} {kind}")
    return tuple(lines)


def ggml_making(servers: Servers) -> tuple[str, ...]:
    """Return how to make weights that nobody publishes for the program."""
    made = ggml(servers)
    if _published(servers) is not None or made == servers.setup.checkpoint:
        return ()
    make = f"Make {shell_word(made)} once of {servers.setup.weights}: models/convert-h5-to-ggml.py"
    return (f"{make} of whisper.cpp, then whisper-quantize if it has fewer than 16 bits.",)


def _published(servers: Servers) -> str | None:
    stated = servers.setup.checkpoint
    return None if stated else launch_models().whisper.of(servers.setup.named)
