"""The command of each serving program, from its description and the values of a plan."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from math import floor
from typing import Any, Final

from advisor.architecture.families.diffusion import beside_parameters
from advisor.architecture.table.model import Unit
from advisor.errors import refusal
from advisor.estimate.batch.forward import inputs_per_answer, passes_per_answer
from advisor.estimate.hardware.card_formats import cache_format, stored_format
from advisor.estimate.serving.heads import heads_of
from advisor.estimate.tools.duty import duty_of
from advisor.export.engines import gguf, neuron, speech
from advisor.export.engines.programs import predicts_tokens, scores_text
from advisor.export.engines.servers import Servers, weights_of
from advisor.export.filling import Filler, at_path
from advisor.export.quoting import shell_word, yaml_text
from advisor.export.script import Launch, Options
from advisor.export.training.model_names import launch_models
from advisor.export.training.words import chats
from advisor.export.versions import image_source, pip_install
from advisor.foundation.formatting import memory
from advisor.foundation.resources import data_path
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.tools import tool_choice
from advisor.nouns.techniques import Speculation, drafted, reserved_rank


def reads(servers: Servers) -> str:
    """Return what the server of a network is sent: texts, pairs of them, or images."""
    model = servers.setup.model
    if model.unit is Unit.IMAGE:
        return "images"
    return "pairs" if scores_text(model) else "texts"


def task(servers: Servers) -> str:
    """Return the task for which the exporters of Optimum write a network."""
    if servers.setup.model.family in tool_choice().speech:
        return "automatic-speech-recognition-with-past"
    names = {"images": "image-classification", "pairs": "text-classification"}
    name = names.get(reads(servers))
    # Weights of sentence-transformers bring their own pooling, which the library then keeps.
    return "feature-extraction" if name is None else f"{name} --library transformers"


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


GROUP_PORT: Final = 13_345
"""Port on which the machines of one server meet. Assumed free."""
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
SERVERS: Final = "servers"
"""Folder of ``data`` with the scripts of tools that have no server of their own."""
STARTED: Final = "serve.py"
LOOKED_UP: Final = 4
"""Tokens of the longest n-gram that is looked up in the prompt. Assumed: vLLM's own examples."""


def _where(condition: object, value: object) -> object:
    """Return a value under a condition, else None."""
    return value if condition else None


def _static_share(servers: Servers) -> str:
    """Return the share of the memory free at the start that holds weights and cache."""
    held, card = servers.setup.estimate.memory, servers.setup.accelerator
    context = held.context_bytes.expected
    steps = held.activations_bytes.high + held.logits_bytes.high + held.workspace_bytes.high
    static = held.usable_bytes - context - steps
    return f"{floor(1000 * static / (card.memory_reported_bytes - context)) / 1000:g}"


def _memory_fraction(servers: Servers) -> str:
    """Return the share of all the memory that the engine fills."""
    card, share = servers.setup.accelerator, servers.setup.calibration.serving.memory_fraction
    return f"{share * card.memory_free_bytes / card.memory_reported_bytes:.3g}"


def _cache(servers: Servers) -> str:
    return servers.program.cache[cache_format(servers.workload, servers.setup.accelerator)]


def _own_cache(servers: Servers) -> str | None:
    """Return the format of keys and values where it is not the one that the program would take.

    That is the computed one, or what NVIDIA's files in 4 bits name (``kv_cache_scheme``, mostly
    fp8, which vLLM's ``resolve_kv_cache_dtype_string`` takes).
    """
    card, wanted = servers.setup.accelerator, servers.setup.estimate.precision
    computed = wanted if wanted in DTYPES else stored_format(card, "bf16")
    told = WEIGHT_FORMATS[wanted].compute == "fp4" and wanted != servers.setup.model.weight_format
    same = cache_format(servers.workload, card) == computed
    return None if same and not told else _cache(servers) or None


def _weights(servers: Servers) -> Options:
    """Return the options for the format of weights, and for the one that computes."""
    setup, wanted = servers.setup, servers.setup.estimate.precision
    own = stored_format(setup.accelerator, "bf16")
    # A checkpoint in fewer bits states its format itself.
    told = wanted in DTYPES or (wanted != setup.model.weight_format and not setup.checkpoint)
    options = _stated(servers) if told else ()
    if wanted not in DTYPES and own != "bf16":
        options += (("--dtype", DTYPES[own]),)
    return options


def _stated(servers: Servers) -> Options:
    """Return options from the words of the table, each with its value."""
    words = weights_of(servers).options
    return tuple(zip(words[::2], words[1::2], strict=True))


def _copies_apart(servers: Servers) -> bool:
    """Whether one server runs copies on several machines."""
    return servers.machines > 1 and servers.copies > 1


def _parser(servers: Servers, kind: str) -> str | None:
    """Return how the program reads a part of a chat model's answers; None if nothing is known."""
    named = servers.setup.named or ""
    found = launch_models().parsers[f"{servers.program.name}-{kind}"].of(named)
    return found if found and chats(named) and servers.setup.model.generates else None


def _own_code(servers: Servers) -> str | None:
    """Return a note on code of the model's repository that the server has to run."""
    named = servers.setup.named
    found = launch_models().own_code.of(named)
    return f"The {found} of {named} is code of its repository: read it first." if found else None


def _further(servers: Servers) -> str:
    """Return what a shell adds to vLLM's options on each machine but the first."""
    start, local = "--headless", servers.copies // servers.machines
    if _copies_apart(servers):
        start += f' --data-parallel-start-rank "$((NODE_RANK * {local}))"'
    return f'[ "$NODE_RANK" = 0 ] || set -- {start}'


def _vllm_drafts(servers: Servers) -> str | None:
    method = servers.workload.speculation
    if method is None:
        return None
    drafts = {"method": method.value, "num_speculative_tokens": drafted(servers.workload)}
    looked_up = {"prompt_lookup_max": LOOKED_UP} if method is Speculation.NGRAM else {}
    heads = {} if (path := _heads_path(servers)) is None else {"model": path}
    return json.dumps(drafts | looked_up | heads)


def _heads_path(servers: Servers) -> str | None:
    """Return the hub id of published heads that the plan drafts with."""
    drafts = servers.workload.speculation is Speculation.EAGLE3
    return heads_of(servers.setup.model)[servers.program.name] if drafts else None


def _tensorrt_drafts(servers: Servers) -> dict[str, object] | None:
    if servers.workload.speculation is None:
        return None
    length = drafted(servers.workload)
    sizes = {"max_draft_len": length, "max_matching_ngram_size": LOOKED_UP}
    return {"decoding_type": "NGram", **sizes}


def _chain(servers: Servers) -> int | None:
    """Return the tokens that a chain of heads drafts; None without heads."""
    method = servers.workload.speculation
    return None if method in (None, Speculation.NGRAM) else drafted(servers.workload)


FACTS: Final[Mapping[str, Callable[[Servers], object]]] = {
    "adapter_rank": lambda one: reserved_rank(one.workload),
    "all_sequences": lambda one: one.sequences * one.copies,
    "all_tensor": lambda one: _tensor(one) * one.copies,
    "batch_tokens": lambda one: one.sequences * one.workload.input_tokens,
    "batched": lambda one: one.step_tokens,
    "cache": _cache,
    "cache_or_auto": lambda one: _cache(one) or "auto",
    "card_order": gguf.order,
    "chunked": lambda one: _where(one.workload.step_tokens, True),
    "compile_s": lambda one: one.build.compile_s or None,
    "copies_apart": _copies_apart,
    "drafted": lambda one: drafted(one.workload),
    "folder": lambda one: f"{one.setup.slug.removeprefix('serve-')}-{one.setup.estimate.precision}",
    "expert_cards": lambda one: one.copies * _tensor(one),
    "further": _further,
    "gguf": gguf.file,
    "ggml": speech.ggml,
    "ggml_made": speech.ggml_made,
    "ggml_making": speech.making,
    "guidance": guidance,
    "gguf_from": gguf.source,
    "gpu_layers_or_999": lambda one: gguf.layers(one) or "999",  # Ollama takes no word for all
    "gpu_layers_or_all": lambda one: gguf.layers(one) or "all",
    "group_port": lambda one: GROUP_PORT,
    # Optimum computes 16-bit ONNX on a card.
    "half": lambda one: (
        " --dtype fp16 --device cuda" if one.setup.estimate.precision == "fp16" else ""
    ),
    "heads_path": _heads_path,
    "heads_kind": lambda one: "EAGLE3" if _heads_path(one) else "NEXTN",
    "heads_chain": _chain,
    "heads_drafted": lambda one: drafted(one.workload) + 1,
    "image_size": lambda one: one.setup.model.sample and one.setup.model.sample.image_size,
    "in_turn": in_turn,
    "looked_up": lambda _: LOOKED_UP,
    "images": lambda one: _where(
        one.workload.images_per_request, json.dumps({"image": one.workload.images_per_request})
    ),
    "layout": lambda one: one.setup.estimate.layout,
    "local_copies": lambda one: one.copies // one.machines,
    "makers": lambda one: " ".join(pip_install(*one.program.makers)[2:]),
    "making": gguf.making,
    "neuron_config": neuron.config,
    "memory_fraction": _memory_fraction,
    "one_copy_apart": lambda one: one.machines > 1 and one.copies == 1,
    "own_cache": _own_cache,
    "parts": parts,
    "passes": lambda one: passes_per_answer(one.setup.model, one.workload),
    "reads": reads,
    "ranks": lambda one: _tensor(one) * one.ranks,
    "segment": neuron.segment,
    "several_cards": lambda one: _where(one.cards > 1, "1"),
    "own_code": _own_code,
    "several_copies": lambda one: _where(one.copies > 1, True),
    "shared_tensor": lambda one: _tensor(one) * (one.copies if _spread(one) else 1),
    "slot_tokens": lambda one: one.sequences * one.context,
    "sound_name": speech.name,
    "split": gguf.split,
    "takes_batches": lambda one: (
        one.program.tool.at_once(duty_of(one.workload, one.setup.model)) is None
    ),
    "stated_weights": _stated,
    "static_share": _static_share,
    "step_tokens": lambda one: (
        one.workload.step_tokens or one.setup.calibration.serving.batched_tokens
    ),
    "task": task,
    "tensorrt_drafts": _tensorrt_drafts,
    "text_length": lambda one: _where(
        one.setup.model.unit is Unit.TOKEN, one.workload.input_tokens
    ),
    "thought_parser": lambda one: _parser(one, "thoughts"),
    "tokenizer_mode": lambda one: _parser(one, "tokenizers"),
    "tool_parser": lambda one: _parser(one, "tools"),
    "together": lambda one: _where(one.copies > 1, _tensor(one) * one.copies),
    "unpacked": neuron.unpacked,
    "unpooled": lambda one: predicts_tokens(one.setup.model) and one.setup.checkpoint is None,
    "vllm_drafts": _vllm_drafts,
    "weight_options": _weights,
    "weight_words": lambda one: " ".join(weights_of(one).options),
    "weights_word": lambda one: shell_word(one.setup.weights),
}
"""Values that descriptions name; a path of fields starts at the servers."""


def _tensor(servers: Servers) -> int:
    return servers.setup.estimate.layout.tensor


def _spread(servers: Servers) -> bool:
    """Whether copies share experts."""
    return servers.setup.estimate.layout.expert > 1


def _value(servers: Servers, path: str) -> Any:
    first, *further = path.split(".")
    fact = FACTS.get(first)
    return at_path(fact(servers) if fact else getattr(servers, first), further)


def server_launch(servers: Servers) -> Launch:
    """Return the command for one server of a plan."""
    _check(servers)
    says, plan, stated = servers.program, Filler(partial(_value, servers)), weights_of(servers)
    build, duty = servers.build, duty_of(servers.workload, servers.setup.model)
    extra = (*says.extras.get(duty, ()), *stated.extra)
    whole = {name.partition("[")[0] for name in extra if "[" in name}
    packages = (*(name for name in build.install if name not in whole), *extra)
    added = packages if build.bare else extra
    image = build.image_for(servers.setup.accelerator) or ""
    made = image_source(image)
    making = () if made == f"docker pull {image}" else (f"Make the image once: {made}",)
    board = says.on_board(servers.setup.accelerator)
    brought = f"Install it on the board: {board}" if board else build.note
    return Launch(
        program=plan.texts(says.command),
        options=plan.options(says.options),
        install=_installed(servers, packages),
        image=image,
        image_extra=_installed(servers, added),
        once=plan.texts(says.once),
        before=plan.texts(says.before),
        files=_scripts(says.scripts.get(duty))
        | {name: _file(plan.filled(content)) for name, content in says.files.items()},
        environment={
            name: text for name, value in says.environment.items() for text in plan.texts((value,))
        },
        notes=(*making, *plan.texts(says.notes), *((brought,) if brought else ())),
    )


def _installed(servers: Servers, packages: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the commands of pip, with PyTorch first where plain pip brings that of other cards."""
    first = servers.setup.torch_first if "torch" in packages else ()
    rest = tuple(name for name in packages if not (first and name == "torch"))
    torch = (("pip", "install", *first),) if first else ()
    return (*torch, pip_install(*rest)) if rest else torch


def _scripts(script: str | None) -> dict[str, str]:
    """Return the files of a server of our own, by the names under which a file writes them."""
    names = {} if script is None else {"batches.py": "batches.py", STARTED: script}
    return {name: data_path(f"{SERVERS}/{file}").read_text("utf-8") for name, file in names.items()}


def _file(content: str | dict[str, object]) -> str:
    """Return a file's text: YAML of the values that the plan has, or the text itself."""
    if isinstance(content, str):
        return content
    return yaml_text({name: value for name, value in content.items() if value is not None})


def _check(servers: Servers) -> None:
    """Refuse machines that the program does not join, and weights that it cannot make."""
    setup, program = servers.setup, servers.program
    wanted = setup.estimate.precision
    kept = program.stored_on(setup.accelerator)
    made = [n for n in program.weights if program.serves(setup.accelerator, n) and n not in kept]
    named = wanted == setup.model.weight_format or setup.checkpoint
    stated, held = weights_of(servers), setup.estimate.memory
    wide = WEIGHT_FORMATS["bf16"].bytes_per_parameter / WEIGHT_FORMATS[wanted].bytes_per_parameter
    loaded = wide * held.weights_bytes.expected
    if stated.whole and not named and loaded > held.usable_bytes:
        raise refusal(
            "weights_loaded_whole",
            servers=servers,
            wanted=wanted,
            loaded=memory(loaded),
            usable=memory(held.usable_bytes),
        )
    if wanted in kept and not named:
        made += [name for name in kept if program.published(setup.accelerator, setup.model, name)]
        raise refusal(
            "weights_not_converted",
            value=setup.weights,
            servers=servers,
            wanted=wanted,
            formats=made,
        )
    if program.whole_layers and (experts := setup.estimate.layout.cpu_expert_layers):
        raise refusal("experts_stay", value=experts, servers=servers)
    if servers.machines > 1 and (servers.build.alone or not program.joins):
        raise refusal(
            "machines_not_joined", remedy=servers.build.alone or program.alone, servers=servers
        )
