"""The layouts that are searched, against those that people published with a measurement."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.reading import read_table
from advisor.calibration.tables.row_layouts import row_node
from advisor.calibration.tables.training_rows import settled_run
from advisor.catalog.constants import load_calibration
from advisor.catalog.nodes import node_for
from advisor.errors import AdvisorError
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.training.memory_report import evaluate_memory
from advisor.estimate.training.report import evaluate_run_hours
from advisor.estimate.training.run import TrainingRun, resolve_training
from advisor.nouns.case import ModelSource
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import ParallelLayout, Schedule
from advisor.nouns.precision import RECIPES
from advisor.nouns.workload import Pretraining
from advisor.planning.search.layout_space import LayoutSpace
from advisor.planning.search.layouts import layout_grid
from advisor.planning.search.systems import System
from advisor.planning.search.training import search_training
from tests.cases import pretrain
from tests.planning.ties import loses_nothing

DEGREES = ("data", "tensor", "pipeline", "context", "expert", "micro_batch")
Run = tuple[str, TrainingRun, ParallelLayout, Accelerator, Node]


@lru_cache
def engine() -> Engine:
    return shipped_engine()


@lru_cache
def published(root: Path) -> tuple[Run, ...]:
    """Runs whose table states the layout: those that the engine has a model for."""
    found = []
    for row in read_table(root / "data" / "measurements" / "training_runs.csv"):
        if not row.cell("tensor_parallel") or not row.cell("pipeline_parallel"):
            continue
        try:
            run, layout = settled_run(row, engine())
        except AdvisorError:
            continue
        accelerator = engine().accelerator(row)
        node = row_node(row, node_for(accelerator, None))
        found.append((row.cell("id"), run, layout, accelerator, node))
    return tuple(found)


def test_every_published_layout_is_searched(root: Path) -> None:
    runs = published(root)
    assert len(runs) >= 600
    missing, seen = {}, set()
    for name, run, layout, _, _ in runs:
        if (run, layout) in seen:
            continue
        seen.add((run, layout))
        grid = layout_grid(run, [layout.accelerators]).layouts
        same = [getattr(grid, degree) == getattr(layout, degree) for degree in DEGREES]
        # More chunks of a stage idle less, hold less and send nothing that is not hidden.
        same.append(grid.virtual_stages >= layout.virtual_stages)
        if not np.all(same, axis=0).any():
            missing[name] = layout
    assert missing == {}


def test_no_published_layout_is_faster_than_the_one_found(root: Path) -> None:
    """By our own model, of those that fit. Each arrangement of a model once; near ties go to the
    simpler one."""
    calibration = engine().calibration
    faster, seen = {}, set()
    for name, run, layout, accelerator, node in published(root):
        if layout.schedule is Schedule.DUALPIPE:
            continue
        divided = layout.tensor * layout.pipeline * layout.context * layout.expert > 1
        key = (run, layout, accelerator.key)
        if not divided or key in seen:
            continue
        seen.add(key)
        kernels, _ = calibration.kernels_for(accelerator)
        candidates = Candidates(
            layout=LayoutArrays.of(layout),
            hardware=HardwareArrays.of(accelerator, node, kernels, compute=run.recipe.compute),
        )
        need = evaluate_memory(run, candidates.layout, calibration)
        if float(need[0]) > accelerator.memory_reported_bytes:
            continue
        hours, _ = evaluate_run_hours(run, candidates, calibration)
        count = layout.accelerators
        space = LayoutSpace(run, [count], calibration)
        system = System(accelerator, node, (), (count,), owned=True)
        found = search_training(run, [system], space, calibration).found
        assert found, name
        chosen = found[0].layouts.layout(found[0].row)
        ratio, layers = float(hours[0]) / found[0].time, run.architecture.num_hidden_layers
        if not loses_nothing(chosen, layout, ratio=ratio, layers=layers):
            faster[name] = layout
    assert len(seen) >= 100
    assert faster == {}


def test_embedding_and_head_may_fill_chunks_of_their_own() -> None:
    """Megatron Bridge cuts the 126 layers of Llama 3.1 405B into 16 x 8 parts on 256 GB200."""
    case = pretrain("llama-3.1-405b", "gb200", 256, sequence_length=8192, global_batch=1536)
    cut = {"data": 4, "tensor": 4, "pipeline": 16, "virtual_stages": 8}
    assert advisor.estimate({**case, "layout": cut}).time is not None
    with pytest.raises(advisor.InputError, match="at most 128 stages"):
        advisor.estimate({**case, "layout": {**cut, "virtual_stages": 9}})


def test_experts_exchange_beside_computation_where_the_stack_can() -> None:
    """Megatron-Core overlaps two micro-batches; it needs virtual stages and recomputes no layer."""
    work = {"kind": "pretraining", "tokens": 1e12, "global_batch": 1024}
    case = {
        "model": {"preset": "deepseek-v3"},
        "workload": work,
        "hardware": {"accelerator": "h100-sxm", "count": 1024},
    }
    found = advisor.estimate(case)
    assert found.layout is not None
    assert found.layout.schedule is Schedule.OVERLAPPED
    assert found.layout.pipeline == 1 or found.layout.virtual_stages > 1
    plain = [item for item in found.neighbours if item.layout.schedule is Schedule.PLAIN]
    assert [item.change for item in plain] == ["schedule 1f1b_overlapped to 1f1b"]
    assert plain[0].time_ratio > 1.05
    assert plain[0].memory_bytes < found.memory.total_bytes.high
    for software in ("compiled", "huggingface"):
        other = advisor.estimate({**case, "workload": {**work, "software": software}})
        assert other.layout is not None
        assert other.layout.schedule is Schedule.PLAIN


@pytest.mark.parametrize(
    "told",
    [
        {"data": 16, "expert": 1},
        {"data": 8, "pipeline": 2, "expert": 8, "virtual_stages": 1},
        {"data": 16, "expert": 8, "recompute": "full"},
    ],
)
def test_an_overlap_that_no_software_runs_is_refused(told: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="1f1b_overlapped needs expert > 1, virtual_stages > 1"):
        ParallelLayout(schedule=Schedule.OVERLAPPED, **told)


def test_memory_of_a_layout_does_not_depend_on_those_evaluated_with_it() -> None:
    """61 layers: the ends of 2 x 16 chunks give up a layer each, and so do those of 8 x 2."""
    architecture = advisor.resolve_model(ModelSource(preset="deepseek-v3"))
    run = resolve_training(Pretraining(tokens=1e12), architecture, RECIPES["bf16_mixed"])
    two, eight = (
        ParallelLayout(data=256, pipeline=pipeline, virtual_stages=chunks, expert=64)
        for pipeline, chunks in ((2, 16), (8, 2))
    )
    calibration = load_calibration()
    alone = evaluate_memory(run, LayoutArrays.of(two), calibration)
    beside = evaluate_memory(run, LayoutArrays.stack([two, eight]), calibration)
    assert beside[0] == alone[0]
