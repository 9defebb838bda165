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
from advisor.architecture.presets import find_preset, load_preset, refuse_unread
from advisor.architecture.table.model import ModelArchitecture, SampleSize
from advisor.errors import refusal
from advisor.foundation.files.reading import read_file
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
    raise refusal("no_model")


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
        raise refusal("pruned_weights_file", value=pruning)
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
    raise refusal("config_unreadable", value=name, reason=reason) from None


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
    "GatedRepoError": "hub_gated",
    "RepositoryNotFoundError": "hub_unknown",
    "EntryNotFoundError": "hub_without_config",
    "HFValidationError": "hub_wrong_id",
}
"""Refusal by the library's error; narrow ones first."""


def fetch_config(hub_id: str) -> bytes:
    """Return the ``config.json`` of a hub repository.

    The unparsed content, at most ``MAX_CONFIG_BYTES``. Raises InputError if the library is not
    installed, the hub cannot be reached, or the repository is unknown, private, gated, has no
    ``config.json``, or one that is too large.
    """
    if find_spec("huggingface_hub") is None:
        refuse_unread(hub_id)
        raise refusal("hub_not_installed", value=hub_id, paste=PASTE)
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
        raise refusal("hub_unreachable", value=hub_id, reason=reason, paste=PASTE) from None


def _unreachable(hub_id: str) -> str | None:
    """Return why the hub cannot be asked; None if it holds a ``config.json`` of usable size."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    try:
        size = get_hf_file_metadata(hf_hub_url(hub_id, FILE), timeout=TIMEOUT_S).size
    except (OSError, ValueError, _transport(errors)) as error:
        for name, entry in REFUSALS.items():
            if isinstance(error, getattr(errors, name)):
                raise refusal(entry, value=hub_id, paste=PASTE) from None
        if isinstance(error, ValueError):
            raise
        status = _status(error)
        if status in (401, 403):
            raise refusal("hub_forbidden", value=hub_id, status=status, paste=PASTE) from None
        return f"the hub answered with HTTP {status}" if status else "the hub cannot be reached"
    if size is not None and size > MAX_CONFIG_BYTES:
        raise refusal(
            "hub_config_too_large", value=hub_id, size=size, most=MAX_CONFIG_BYTES, remedy=PASTE
        )
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
