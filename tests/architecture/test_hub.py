"""Every answer of the hub, as huggingface_hub tells it, becomes a sentence with a way on.

The stand-in has the library's classes with their bases (``huggingface_hub/errors.py`` of 0.34 and
2.4, which tells the same answers by the same classes) and its signatures, so that no test needs a
network or the library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from advisor.architecture import resolve as hub
from advisor.architecture.resolve import resolve_model
from advisor.errors import InputError
from advisor.nouns.case import ModelSource

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


class HTTPError(Exception):
    """httpx's: no OSError."""


class ConnectTimeoutError(HTTPError):
    """httpx's."""


class HfHubHTTPError(HTTPError, OSError):
    def __init__(self, status: int) -> None:
        super().__init__(f"{status} Client Error. (Request ID: Root=1-abc)")
        self.response = SimpleNamespace(status_code=status)


class RepositoryNotFoundError(HfHubHTTPError):
    pass


class GatedRepoError(RepositoryNotFoundError):
    pass


class EntryNotFoundError(Exception):
    pass


class RemoteEntryNotFoundError(HfHubHTTPError, EntryNotFoundError):
    pass


class LocalEntryNotFoundError(FileNotFoundError, EntryNotFoundError):
    pass


class OfflineModeIsEnabledError(ConnectionError):
    pass


class HFValidationError(ValueError):
    pass


class Hub:
    """A hub that gives one answer, and the user's cache."""

    def __init__(self, folder: Path) -> None:
        self.answer: Exception | None = None
        self.size: int | None = 200
        self.breaks: Exception | None = None
        self.cached = folder / "config.json"
        self.downloads = 0

    def metadata(self, url: str, *, timeout: float) -> SimpleNamespace:
        assert url.endswith("/resolve/main/config.json")
        assert 0 < timeout <= 10
        if self.answer is not None:
            raise self.answer
        return SimpleNamespace(size=self.size)

    def download(
        self, hub_id: str, name: str, *, etag_timeout: float, local_files_only: bool
    ) -> str:
        assert name == "config.json"
        assert 0 < etag_timeout <= 10
        self.downloads += 1
        if self.breaks is not None:
            raise self.breaks
        if not self.cached.exists():
            assert local_files_only, "online, and nothing to hand out"
            raise LocalEntryNotFoundError("Cannot find the requested files in the disk cache")
        return str(self.cached)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    found = Hub(tmp_path)
    package, errors = ModuleType("huggingface_hub"), ModuleType("huggingface_hub.errors")
    names: dict[str, object] = {
        "errors": errors,
        "get_hf_file_metadata": found.metadata,
        "hf_hub_download": found.download,
        "hf_hub_url": lambda hub_id, name: f"https://hub.test/{hub_id}/resolve/main/{name}",
    }
    vars(package).update(names)
    for kind in (
        EntryNotFoundError,
        GatedRepoError,
        HFValidationError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    ):
        setattr(errors, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    monkeypatch.setattr(hub, "find_spec", lambda name: object())
    return found


def ask() -> InputError:
    with pytest.raises(InputError) as caught:
        resolve_model(ModelSource(hub="someone/New-8B"))
    assert caught.value.field == "model.hub"
    assert "Paste the model's config.json" in caught.value.remedy
    return caught.value


def test_a_configuration_is_fetched(library: Hub) -> None:
    library.cached.write_text(json.dumps(LLAMA), encoding="utf-8")
    model = resolve_model(ModelSource(hub="someone/New-8B"))
    assert (model.name, model.hub_id) == ("New-8B", "someone/New-8B")
    assert model.total_parameters == 8_030_261_248


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (GatedRepoError(403), "this repository is gated"),
        (GatedRepoError(401), "this repository is gated"),
        (RepositoryNotFoundError(401), "unknown on the hub, or private"),
        (RepositoryNotFoundError(404), "unknown on the hub, or private"),
        (RemoteEntryNotFoundError(404), "has no config.json"),
        (HFValidationError("Repo id must use alphanumeric chars"), "no hub id"),
        (HfHubHTTPError(401), "does not let you read this repository (HTTP 401)"),
        (HfHubHTTPError(403), "does not let you read this repository (HTTP 403)"),
    ],
)
def test_refusals_are_told_apart(library: Hub, answer: Exception, sentence: str) -> None:
    library.answer = answer
    assert sentence in ask().what
    assert library.downloads == 0


UNREACHABLE = {
    "timeout": (ConnectTimeoutError("timed out"), "the hub cannot be reached"),
    "network": (OSError("Network is unreachable"), "the hub cannot be reached"),
    "offline": (OfflineModeIsEnabledError("offline mode"), "the hub cannot be reached"),
    "503": (HfHubHTTPError(503), "the hub answered with HTTP 503"),
    "429": (HfHubHTTPError(429), "the hub answered with HTTP 429"),
}


@pytest.mark.parametrize(("answer", "sentence"), UNREACHABLE.values(), ids=UNREACHABLE)
def test_without_a_connection_the_cache_is_asked(
    library: Hub, answer: Exception, sentence: str
) -> None:
    library.answer = answer
    error = ask()
    assert error.what == f"{sentence}, and the model is not in the cache"
    assert "Request ID" not in str(error)

    library.cached.write_text(json.dumps(LLAMA), encoding="utf-8")
    model = resolve_model(ModelSource(hub="someone/New-8B"))
    assert model.total_parameters == 8_030_261_248


def test_a_large_file_is_not_downloaded(library: Hub) -> None:
    library.size = 5_000_001
    assert "has 5,000,001 bytes" in ask().what
    assert library.downloads == 0


def test_a_file_whose_size_the_hub_hides_is_bounded(library: Hub) -> None:
    library.size = None
    library.cached.write_bytes(b"{" + b" " * 6_000_000 + b"}")
    with pytest.raises(InputError, match=r"hub.s cache is too large"):
        resolve_model(ModelSource(hub="someone/New-8B"))


def test_a_download_that_breaks_off(library: Hub) -> None:
    library.breaks = ConnectTimeoutError("timed out")
    assert "the download broke off (ConnectTimeoutError)" in ask().what


def test_what_is_fetched_is_checked(library: Hub) -> None:
    library.cached.write_text("<html>", encoding="utf-8")
    with pytest.raises(InputError, match="not valid JSON"):
        resolve_model(ModelSource(hub="someone/New-8B"))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    error = ask()
    assert "huggingface_hub is not installed" in error.what
    assert "Install gpu-advisor[hub]" in error.remedy
