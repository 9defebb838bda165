"""Finds the architecture from the user's preset, configuration, hub id or parameter count.

Each reader is imported on first use, so that a process starts fast.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

from pydantic import ValidationError

from advisor.architecture.config.fields import MAX_CONFIG_BYTES, load_config_text
from advisor.architecture.presets import find_preset, load_preset
from advisor.architecture.table.model import ModelArchitecture, SampleSize
from advisor.errors import InputError
from advisor.foundation.files import read_file
from advisor.foundation.names import holds_content
from advisor.nouns.case import ModelSource
from advisor.nouns.case_files import input_error

IN_FOLDER: Final = ("config.json", "model.safetensors.index.json", "model.safetensors")
"""Files that are read from a folder; the first one found is used."""


def resolve_model(source: ModelSource, sample: SampleSize | None = None) -> ModelArchitecture:
    """Return the architecture that a case names.

    ``sample`` is the size of one input, for networks whose table depends on it. Raises InputError
    if the preset is unknown, the configuration or weights file is unusable, the hub cannot be
    reached or the family is not supported.
    """
    try:
        return _resolved(source, sample)
    except ValidationError as error:  # a text or size from a file, which a noun refuses
        raise input_error(error) from None


def _resolved(source: ModelSource, sample: SampleSize | None) -> ModelArchitecture:
    pruning = source.pruning or 0.0
    if source.preset is not None:
        return load_preset(source.preset, sample, pruning)
    if source.config is not None:
        return _from_config(source.config, sample, pruning)
    if source.hub is not None:
        return _from_hub(source.hub, sample, pruning)
    if source.parameters is not None:
        from advisor.architecture.parameter_count import architecture_from_parameters

        return architecture_from_parameters(source.parameters, source.shape, pruning)
    if source.stack is not None:
        return _from_stack(source.stack, sample, pruning)
    raise InputError(
        "model is empty",
        value=None,
        allowed="preset, config, hub, parameters or stack",
        remedy="Add e.g. model: {preset: llama-3.1-8b}.",
        field="model",
    )


def _from_config(
    config: str | Mapping[str, object], sample: SampleSize | None, pruning: float
) -> ModelArchitecture:
    """Return the architecture of a mapping, a JSON text, or a configuration or weights file."""
    from advisor.architecture.config.huggingface import architecture_from_config

    if isinstance(config, Mapping):
        return architecture_from_config(config, sample=sample, pruning=pruning)
    if holds_content(config):
        content = load_config_text(config.lstrip("\ufeff"))
        return architecture_from_config(content, sample=sample, pruning=pruning)
    from advisor.architecture.weights.tensor_table import read_start
    from advisor.architecture.weights.weights_file import (
        SNIFFED_BYTES,
        architecture_from_weights,
        is_weights_file,
    )

    path = _located(config)
    start = read_start(path, SNIFFED_BYTES)
    if is_weights_file(path, start) and pruning:
        raise InputError(
            "pruning does not apply to a weights file, whose tensors are fixed",
            value=pruning,
            allowed="0",
            remedy="Leave out model.pruning, or give the config.json of the unpruned model.",
            field="model.pruning",
        )
    if is_weights_file(path, start):
        return architecture_from_weights(path, start)
    content = load_config_text(read_start(path, MAX_CONFIG_BYTES + 1))
    return architecture_from_config(content, sample=sample, pruning=pruning)


def _from_stack(
    given: str | Mapping[str, object], sample: SampleSize | None, pruning: float
) -> ModelArchitecture:
    from advisor.architecture.stack.reading import read_stack

    name, stack = read_stack(given)
    notes: tuple[str, ...] = ()
    if pruning:
        from advisor.architecture.pruning import pruned

        stack, note = pruned(stack, pruning)
        notes = (note,)
    return stack.architecture(
        name=name, family="custom stack", source="stack", sample=sample, assumptions=notes
    )


def _located(name: str) -> Path:
    """Return the file of a path: in a folder, the configuration or otherwise the weights."""
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            inside = (path / item for item in IN_FOLDER)
            path = next((item for item in inside if item.is_file()), path / IN_FOLDER[0])
        regular, there = path.is_file(), path.exists()
    except (OSError, ValueError, RuntimeError) as error:
        _unreadable(name, error.__class__.__name__)
    if not regular:
        _unreadable(name, "it is no regular file" if there else "FileNotFoundError")
    return path


def _unreadable(name: str, reason: str) -> NoReturn:
    raise InputError(
        f"the config file cannot be read ({reason})",
        value=name,
        allowed="a readable config.json, .safetensors or .gguf file",
        remedy="Give the path of such a file, or paste the text of a config.json, "
        "which starts with '{'.",
        field="model.config",
    ) from None


def _from_hub(hub_id: str, sample: SampleSize | None, pruning: float) -> ModelArchitecture:
    if find_preset(hub_id) is not None:
        return load_preset(hub_id, sample, pruning)
    from advisor.architecture.config.huggingface import architecture_from_config

    config = load_config_text(fetch_config(hub_id))
    return architecture_from_config(
        config, name=hub_id.rpartition("/")[2], hub_id=hub_id, sample=sample, pruning=pruning
    )


FILE: Final = "config.json"
TIMEOUT_S: Final = 10.0
"""Longest time to wait for the hub's answer. [s]"""

PASTE: Final = "Paste the model's config.json, or give its parameter count."

REFUSALS: Final = {
    "GatedRepoError": (
        "this repository is gated: its owner grants access to each user",
        "a repository that you may read",
        "Ask for access on its page and log in with 'hf auth login'.",
    ),
    "RepositoryNotFoundError": (
        "this repository is unknown on the hub, or private",
        "organisation/name of a public repository",
        "Correct the id, or log in with 'hf auth login' if it is private.",
    ),
    "EntryNotFoundError": (
        "this repository has no config.json",
        "a repository of a transformers model",
        "Give the id of the model from which it was made.",
    ),
    "HFValidationError": ("this is no hub id", "organisation/name", "Correct the id."),
}
"""What is wrong, what is allowed and the remedy, by the library's error; narrow ones first."""


def fetch_config(hub_id: str) -> bytes:
    """Return the ``config.json`` of a hub repository.

    The unparsed content, at most ``MAX_CONFIG_BYTES``. Raises InputError if the library is not
    installed, the hub cannot be reached, or the repository is unknown, private, gated, has no
    ``config.json``, or one that is too large.
    """
    if find_spec("huggingface_hub") is None:
        _refuse(
            hub_id,
            "this hub id is not among the presets, and huggingface_hub is not installed",
            "a preset's hub id",
            "Install gpu-advisor[hub] to fetch it. " + PASTE,
        )
    unreachable = _unreachable(hub_id)
    from huggingface_hub import errors, hf_hub_download

    try:
        path = hf_hub_download(
            hub_id, FILE, etag_timeout=TIMEOUT_S, local_files_only=unreachable is not None
        )
        # Another program may have written the cache, so it is read with bounds too.
        return read_file(
            Path(path).resolve(),
            most=MAX_CONFIG_BYTES,
            name="the config.json in the hub's cache",
            remedy=PASTE,
            field="model.hub",
        )
    except (OSError, _transport(errors), errors.EntryNotFoundError) as error:
        reason = unreachable or f"the download broke off ({error.__class__.__name__})"
        _refuse(
            hub_id,
            f"{reason}, and the model is not in the cache",
            "a connection, or a model fetched before",
            f"Try again later. {PASTE}",
        )


def _unreachable(hub_id: str) -> str | None:
    """Return why the hub cannot be asked; None if it holds a ``config.json`` of usable size."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    try:
        size = get_hf_file_metadata(hf_hub_url(hub_id, FILE), timeout=TIMEOUT_S).size
    except (OSError, ValueError, _transport(errors)) as error:
        for name, (what, allowed, remedy) in REFUSALS.items():
            if isinstance(error, getattr(errors, name)):
                _refuse(hub_id, what, allowed, f"{remedy} {PASTE}")
        if isinstance(error, ValueError):
            raise
        status = _status(error)
        if status in (401, 403):
            _refuse(
                hub_id,
                f"the hub does not let you read this repository (HTTP {status})",
                "a repository that you may read",
                f"Log in with 'hf auth login'. {PASTE}",
            )
        return f"the hub answered with HTTP {status}" if status else "the hub cannot be reached"
    if size is not None and size > MAX_CONFIG_BYTES:
        what = f"the repository's config.json has {size:,} bytes"
        _refuse(hub_id, what, f"at most {MAX_CONFIG_BYTES:,} bytes", PASTE)
    return None


def _transport(errors: ModuleType) -> type[Exception]:
    """Return the base of HTTP errors: httpx's from version 1 on, earlier that of requests.

    Connection failures derive from it or from OSError.
    """
    base: type[Exception] = errors.HfHubHTTPError.__bases__[0]
    return base


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, if it holds a response."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _refuse(hub_id: str, what: str, allowed: str, remedy: str) -> NoReturn:
    raise InputError(
        what, value=hub_id, allowed=allowed, remedy=remedy, field="model.hub"
    ) from None
