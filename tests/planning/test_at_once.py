"""Engines that compute one request at a time: every door says so.

whisper.cpp 1.9.3, examples/server/server.cpp (one mutex around the model), and openvino-genai
2026.4.1, WhisperPipeline.generate (one sound).
"""

from typing import Any

import pytest

import advisor
from tests.cases import serve

WHISPER = "whisper-large-v3"


@pytest.mark.parametrize(
    ("card", "engine"), [("rtx-4090", "whisper-cpp"), ("apple-m4-max", None), ("arc-b580", None)]
)
def test_an_open_load_is_what_the_engine_computes_together(card: str, engine: str | None) -> None:
    fields: dict[str, Any] = {} if engine is None else {"engine": engine}
    found = advisor.estimate(serve(WHISPER, card, 1, **fields))
    assert found.memory.fits
    assert found.serving is not None
    assert found.serving.max_concurrency == 1
    assert found.workload.startswith("serve 1 request ")
    owned = {"owned": [{"accelerator": card, "count": 1}]}
    plan = advisor.recommend(serve(WHISPER, limits=owned, **fields)).plans[0].estimate
    assert plan.serving is not None
    assert plan.serving.output_tokens_per_s == found.serving.output_tokens_per_s


def test_a_stated_load_takes_as_many_replicas() -> None:
    answer = advisor.recommend(serve(WHISPER, engine="whisper-cpp", concurrency=3))
    assert {plan.estimate.layout.data for plan in answer.plans} == {3}


def test_what_the_memory_holds_is_no_way_around_it() -> None:
    found = advisor.estimate(serve(WHISPER, "rtx-4090", 1, engine="whisper-cpp", concurrency=8))
    assert not found.memory.fits
    assert found.crowded == "whisper.cpp runs 1 request at once on these cards"
    assert found.ways_out[0].change.startswith("serve 1 request at a time")


def test_engines_with_batches_keep_the_usual_load() -> None:
    for engine in ("vllm", "faster-whisper"):
        found = advisor.estimate(serve(WHISPER, "rtx-4090", 1, engine=engine))
        assert "8 concurrent requests" in found.workload
