"""What is published about models must come out of the operator table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.architecture.resolve import resolve_model
from advisor.nouns.case import ModelSource
from tests.cases import serve

FACTS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "known_truths.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["model"])
def test_published_counts(fact: dict[str, Any]) -> None:
    model = resolve_model(ModelSource(preset=fact["model"]))
    assert model.total_parameters == fact["parameters"], fact["source"]
    assert model.cache_elements_per_token * 2 == fact["kv_bytes_per_token"], fact["source"]
    if "active" in fact:
        assert model.active_parameters == pytest.approx(
            fact["active"], rel=fact["active_tolerance"]
        ), fact["source"]


@pytest.mark.parametrize(("weights", "gigabytes"), [("fp32", 28.0), ("fp16", 14.0)])
def test_seven_billion_parameters_weigh(weights: str, gigabytes: float) -> None:
    """The rule of thumb of every introduction: 28 GB in fp32, 14 GB in fp16."""
    estimate = advisor.estimate(
        serve({"parameters": 7e9}, "h100-sxm", 1, weight_format=weights, layout={})
    )
    assert estimate.parameters.total == 7_000_000_000
    assert estimate.memory.weights_bytes.expected / 1e9 == pytest.approx(gigabytes, rel=1e-9)
