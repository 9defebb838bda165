"""Every door that a model comes through."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from advisor.architecture import resolve
from advisor.architecture.resolve import resolve_model
from advisor.case import ModelSource
from advisor.errors import InputError
from advisor.quantities import Evidence

LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
COUNT = 8_030_261_248


def test_mapping_text_and_path_are_one_model(tmp_path: Path) -> None:
    text = json.dumps(LLAMA)
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    for config in (LLAMA, text, "\ufeff " + text, str(file), str(tmp_path)):
        assert resolve_model(ModelSource(config=config)).total_parameters == COUNT


def test_preset_and_count() -> None:
    assert resolve_model(ModelSource(preset="llama-3.1-8b")).total_parameters == COUNT
    assert resolve_model(ModelSource(parameters=7e9)).total_parameters == 7_000_000_000


def test_hub_ids_of_presets_need_no_network() -> None:
    model = resolve_model(ModelSource(hub="meta-llama/Llama-3.1-8B"))
    assert (model.name, model.total_parameters) == ("llama-3.1-8b", COUNT)


def test_other_hub_ids_need_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Paste the model's config\.json"):
        resolve_model(ModelSource(hub="someone/unknown"))


class HubError(OSError):
    pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A hub library that hands out one file, or fails where there is none."""
    file = tmp_path / "config.json"

    def hf_hub_download(repo: str, name: str, etag_timeout: float) -> str:
        if not file.exists():
            raise HubError(repo)
        return str(file)

    package, errors = ModuleType("huggingface_hub"), ModuleType("huggingface_hub.errors")
    package.hf_hub_download = hf_hub_download  # type: ignore[attr-defined]
    errors.HfHubHTTPError = HubError  # type: ignore[attr-defined]
    errors.HFValidationError = HubError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    monkeypatch.setattr(resolve, "find_spec", lambda name: object())
    return file


def test_hub_library_is_used_where_it_is_there(hub: Path) -> None:
    hub.write_text(json.dumps(LLAMA), encoding="utf-8")
    model = resolve_model(ModelSource(hub="someone/New-8B"))
    assert (model.name, model.hub_id) == ("New-8B", "someone/New-8B")
    assert model.total_parameters == COUNT


def test_hub_failures_are_told(hub: Path) -> None:
    with pytest.raises(InputError, match="could not be fetched"):
        resolve_model(ModelSource(hub="someone/New-8B"))


def test_unknown_but_familiar_models_are_assumed() -> None:
    model = resolve_model(ModelSource(config=LLAMA | {"model_type": "mystery"}))
    assert model.evidence is Evidence.ASSUMED
    assert model.total_parameters == COUNT
    assert "mystery" in model.assumptions[0]
