"""What llama.cpp and Ollama, which read GGUF files, are told of weights and layers."""

from advisor.estimate.serving.unlike import bytes_by_card
from advisor.export.engines.servers import Servers, weights_of
from advisor.export.script import Options
from advisor.nouns.hardware import Segment, UnlikeCards
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.published_weights import listed_weights


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
    listed = listed_weights().names.values()
    whole = ":" in checkpoint or any(checkpoint in formats.values() for formats in listed)
    return True, checkpoint if whole else f"{checkpoint}:{form}"


def _stem(servers: Servers) -> str:
    return servers.setup.slug.removeprefix("serve-")
