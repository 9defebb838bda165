"""Peaks of training networks of unlike layers against PyTorch's own accounting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.architecture.presets import load_preset
from advisor.architecture.table.model import SampleSize
from advisor.catalog.constants import load_calibration
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.training.memory import training_memory
from advisor.estimate.training.run import resolve_training
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import recipe_named
from advisor.nouns.workload import Pretraining

FACTS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "golden" / "networks.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    "fact",
    FACTS["peaks"],
    ids=lambda f: f"{f['preset']}-{f['batch']}-{f['precision']}-{f.get('attention')}",
)
def test_peak(fact: dict[str, Any]) -> None:
    model = load_preset(fact["preset"], SampleSize(image_size=fact.get("pixels", 224)))
    convolutional = fact["preset"].startswith(("resnet", "efficientnet"))
    workload = Pretraining.model_validate(
        {
            "optimizer": "sgd_momentum" if convolutional else "adamw",
            "global_batch": fact["batch"],
            "sequence_length": fact.get("tokens"),
            "attention": fact.get("attention", "flash"),
            "software": "huggingface",
        }
    )
    run = resolve_training(workload, model, recipe_named(fact["precision"]))
    # Nothing but tensors was accounted.
    facts = load_calibration().memory.model_copy(update={"workspace_bytes": 0.0})
    layout = LayoutArrays.of(ParallelLayout(micro_batch=fact["batch"]))
    allocated = training_memory(run, layout, facts).allocated[0]
    assert allocated == pytest.approx(fact["bytes"], rel=0.03)
