"""What servers of encoders, image networks and diffusion models are told."""

from typing import Final

from advisor.architecture.families.diffusion import beside_parameters
from advisor.architecture.table.model import Unit
from advisor.estimate.batch.forward import inputs_per_answer
from advisor.export.engines.programs import predicts_tokens
from advisor.export.engines.servers import Servers
from advisor.foundation.formatting import memory
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.tools import tool_choice

HALF: Final = "fp16"


def classifies(servers: Servers) -> bool:
    """Whether a network of text scores it instead of embedding it."""
    model = servers.setup.model
    return not predicts_tokens(model) and model.operators[-1].out_features < model.hidden_size


def reads(servers: Servers) -> str:
    """Return what the server of a network is sent: texts, pairs of them, or images."""
    if servers.setup.model.unit is Unit.IMAGE:
        return "images"
    return "pairs" if classifies(servers) else "texts"


def task(servers: Servers) -> str:
    """Return the task for which the exporters of Optimum write a network."""
    if servers.setup.model.family in tool_choice().speech:
        return "automatic-speech-recognition-with-past"
    names = {"images": "image-classification", "pairs": "text-classification"}
    name = names.get(reads(servers))
    # Weights of sentence-transformers bring their own pooling, which the library then keeps.
    return "feature-extraction" if name is None else f"{name} --library transformers"


def length(servers: Servers) -> int | None:
    """Return the most tokens of a text; None for images."""
    return servers.workload.input_tokens if servers.setup.model.unit is Unit.TOKEN else None


def folder(servers: Servers) -> str:
    """Return the folder of the converted network."""
    return f"{servers.setup.slug.removeprefix('serve-')}-{servers.setup.estimate.precision}"


def half(servers: Servers) -> str:
    """Return what makes Optimum write 16-bit ONNX, which it computes on a card."""
    return " --dtype fp16 --device cuda" if servers.setup.estimate.precision == HALF else ""


def guidance(servers: Servers) -> int | None:
    """Return the scale that switches guidance off; None where the pipeline's own holds."""
    model = servers.setup.model
    return 1 if model.guided and inputs_per_answer(model, servers.workload) == 1 else None


def in_turn(servers: Servers) -> bool:
    """Whether the parts of a pipeline take turns on the card, for they do not fit together."""
    memory_used, more = servers.setup.estimate.memory, _beside_bytes(servers)
    return more is None or memory_used.needed_bytes + more > memory_used.usable_bytes


def parts(servers: Servers) -> str:
    """Return a note on the parts of a pipeline that the estimate leaves out."""
    more = _beside_bytes(servers)
    size = "" if more is None else f", {memory(more)},"
    if in_turn(servers):
        return f"Text encoders and the decoder of latents{size} wait in the host's memory in turn."
    return f"Text encoders and the decoder of latents{size} come on top on the card."


def _beside_bytes(servers: Servers) -> float | None:
    """Return the size of the parts beside the network; None if they are not known. [bytes]"""
    setup = servers.setup
    count = None if setup.checkpoint else beside_parameters(setup.model)
    form = WEIGHT_FORMATS[setup.estimate.precision]
    return None if count is None else count * form.bytes_per_parameter
