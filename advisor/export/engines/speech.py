"""What faster-whisper and whisper.cpp are told of the weights of Whisper."""

from advisor.export.engines.servers import Servers, weights_of
from advisor.export.quoting import shell_word
from advisor.export.training.model_names import launch_models


def name(servers: Servers) -> str:
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


def making(servers: Servers) -> tuple[str, ...]:
    """Return how to make weights that nobody publishes for the program."""
    made = ggml(servers)
    if _published(servers) is not None or made == servers.setup.checkpoint:
        return ()
    make = f"Make {shell_word(made)} once of {servers.setup.weights}: models/convert-h5-to-ggml.py"
    return (f"{make} of whisper.cpp, then whisper-quantize if it has fewer than 16 bits.",)


def _published(servers: Servers) -> str | None:
    stated = servers.setup.checkpoint
    return None if stated else launch_models().whisper.of(servers.setup.named)
