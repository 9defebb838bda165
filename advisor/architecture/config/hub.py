"""The ``config.json`` of a model on the Hugging Face hub, through ``huggingface_hub``.

Nothing else is fetched. The library writes the file atomically to the user's cache, so a model
that was fetched once needs no network.
"""

from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

from advisor.architecture.config.fields import MAX_CONFIG_BYTES
from advisor.errors import InputError
from advisor.foundation.files import read_file

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
