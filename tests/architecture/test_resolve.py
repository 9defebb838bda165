"""Every door that a model comes through."""

from __future__ import annotations

import json
from pathlib import Path

from advisor.architecture.resolve import resolve_model
from advisor.foundation.quantities import Evidence
from advisor.nouns.case import ModelSource

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


def test_unknown_but_familiar_models_are_assumed() -> None:
    model = resolve_model(ModelSource(config=LLAMA | {"model_type": "mystery"}))
    assert model.evidence is Evidence.ASSUMED
    assert model.total_parameters == COUNT
    assert "mystery" in model.assumptions[0]
