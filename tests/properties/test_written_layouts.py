"""Every layout that the search picks for training is one that a file of the plan's card writes."""

import random
from contextlib import suppress
from typing import Any, Final

import pytest

import advisor
from advisor.errors import InputError
from advisor.estimate.results import Estimate
from tests.pairs import covering
from tests.properties.test_software_search import SOFTWARE, VENDORS, beyond

pytestmark = pytest.mark.slow
DRAWN: Final = 300
TRIED: Final = 100
"""With them 95 % of the pairs of settings that 300 try."""
PARTS: Final = 4
MODELS: Final = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen3-8b",
    "qwen3-30b-a3b",
    "gemma-3-4b",
    "mistral-7b-v0.3",
    "gpt-oss-20b",
    "llama-3.2-1b",
)
LENGTHS: Final = (2048, 8192, 32768, 65536, 131072)
FILES: Final = (
    "torchrun",
    "accelerate",
    "axolotl",
    "llama-factory",
    "unsloth",
    "torchtitan",
    "maxtext",
    "gaudi",
    "mlx-lm",
)


OWN: Final = {"trl": ("torchrun", "accelerate"), "llama-factory": ("llama-factory",)}
"""Files of a tool that a case names: no other tool's file starts what it plans."""


def random_case(number: int) -> dict[str, Any]:
    """Return a case of training; the number is its seed."""
    draw = random.Random(number)
    kind = draw.choice(["pretraining", "fine_tuning", "fine_tuning", "fine_tuning"])
    workload: dict[str, Any] = {
        "kind": kind,
        "sequence_length": draw.choice(LENGTHS),
        "tokens": draw.choice([2e7, 5e7, 1e9]),
    }
    if kind == "fine_tuning":
        workload["method"] = draw.choice(["full", "lora", "lora", "qlora"])
        if draw.random() < 0.2:
            workload["preference"] = "dpo"
    if draw.random() < 0.3:
        workload["software"] = draw.choice((*SOFTWARE, "trl", "llama-factory"))
    limits: dict[str, Any] = {"max_accelerators": draw.choice([1, 8, 16])}
    if draw.random() < 0.3:
        limits["vendors"] = draw.sample(VENDORS, 1)
    if draw.random() < 0.3:
        keys = ("h100-sxm", "a100-sxm-80gb", "rtx-4090", "mi300x", "b200-sxm", "gaudi2")
        limits = {"owned": [{"accelerator": draw.choice(keys), "count": draw.choice([2, 8])}]}
    return {"model": {"preset": draw.choice(MODELS)}, "workload": workload, "limits": limits}


def placed(case: dict[str, Any], plan: Estimate) -> dict[str, Any]:
    """Return the case of a plan's work on its cards, in any layout."""
    return {
        **{name: part for name, part in case.items() if name != "limits"},
        "hardware": {"accelerator": plan.accelerator, "count": plan.count},
    }


def writes(case: dict[str, Any]) -> bool:
    """Return whether some file of its software starts a case."""
    if case["workload"].get("software") == "megatron" and "method" in case["workload"]:
        return False  # of adapters it has no file; TRL's is of another layout
    for to in OWN.get(case["workload"].get("software"), FILES):
        with suppress(InputError):
            advisor.export(case, to, checkpoint="a/checkpoint")
            return True
    return False


@pytest.mark.parametrize("part", range(PARTS))
def test_a_file_divides_the_model_as_the_plan_does(part: int) -> None:
    """Where any layout of the work has a file; some work has none on some cards."""
    written = 0
    for case in covering(map(random_case, range(DRAWN)), TRIED)[part::PARTS]:
        try:
            answer = advisor.recommend(case, brief=True)
        except InputError:
            continue
        for each in answer.plans[:1]:
            plan = each.estimate
            assert beyond(each, case) == [], (case, each.sentence)
            layout = plan.layout.model_dump(exclude={"gpu_layers", "cpu_expert_layers"})
            found = writes({**placed(case, plan), "layout": layout})
            assert found or not writes(placed(case, plan)), (case, plan.layout)
            written += found
    assert written >= 5
