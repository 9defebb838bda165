"""Every recommended plan uses only what the table of software offers on that card."""

import random
from typing import Any, Final

import pytest

import advisor
from advisor.catalog import load_catalog
from advisor.nouns.precision import RECIPES
from advisor.nouns.software.tools import Status, known_tools
from advisor.planning.results import Plan
from tests.pairs import covering

pytestmark = pytest.mark.slow
CARDS = {card.key: card for card in load_catalog().accelerators}
DRAWN: Final = 300
TRIED: Final = 120
"""With them 85 % of the pairs of settings that 300 try."""
PARTS: Final = 3
TEXT: Final = ("llama-3.1-8b", "qwen3-8b", "gpt2", "mixtral-8x7b", "gemma-3-4b", "llama-3.1-70b")
OTHERS: Final = (
    "resnet-50",
    "bert-base",
    "whisper-large-v3",
    "t5-base",
    "sdxl-unet",
    "lstm-4x1024",
)
SOFTWARE: Final = ("deepspeed", "unsloth", "axolotl", "torchtitan", "megatron", "liger", "plain")
ENGINES: Final = ("vllm", "sglang", "tensorrt-llm", "lmdeploy", "llama-cpp", "mlx-lm")
VENDORS: Final = ("NVIDIA", "AMD", "Intel", "Google", "AWS")


def random_case(number: int) -> dict[str, Any]:
    """Return a case; the number is its seed."""
    draw = random.Random(number)
    model = draw.choice(TEXT if draw.random() < 0.75 else OTHERS)
    limits: dict[str, Any] = {"max_accelerators": draw.choice([1, 8, 16])}
    if draw.random() < 0.5:
        limits["vendors"] = draw.sample(VENDORS, draw.choice([1, 2]))
    if draw.random() < 0.1:
        limits["frameworks"] = [draw.choice(["pytorch", "jax", "ggml"])]
    if draw.random() < 0.2:
        card = draw.choice(sorted(CARDS))
        limits = {"owned": [{"accelerator": card, "count": draw.choice([1, 2, 8])}]}
    kind = draw.choice(["pretraining", "fine_tuning", "fine_tuning", "serving", "serving"])
    workload: dict[str, Any] = {"kind": kind}
    if kind == "serving":
        workload["concurrency"] = draw.choice([1, 16])
        if draw.random() < 0.3 and model in TEXT:
            workload["engine"] = draw.choice(ENGINES)
        if draw.random() < 0.2 and model in TEXT:
            workload["weight_format"] = draw.choice(["fp8", "w4a16", "q4_k_m", "mxfp4"])
    else:
        if model in TEXT:
            workload["tokens"] = 1e7
        if kind == "fine_tuning":
            adapts = model in TEXT
            workload["method"] = draw.choice(["full", "lora", "qlora"]) if adapts else "full"
            if adapts and draw.random() < 0.2:
                workload["preference"] = draw.choice(["dpo", "orpo"])
        if draw.random() < 0.3:
            workload["software"] = draw.choice(SOFTWARE)
        if draw.random() < 0.2:
            workload["optimizer"] = draw.choice(["adamw_8bit", "sgd_momentum", "adafactor"])
    return {"model": {"preset": model}, "workload": workload, "limits": limits}


def beyond(plan: Plan, case: dict[str, Any]) -> list[str]:
    """Return what a plan uses beyond its tool, in the terms of the table."""
    estimate, workload = plan.estimate, case["workload"]
    used = estimate.software
    if used is None:
        return ["no software"]
    tool, card = known_tools()[used.name], CARDS[estimate.accelerator]
    found = tool.support(card)
    if found is None or tool.status is Status.RETIRED:
        return [f"{tool.name} does not run on {card.key}"]
    wrong = [] if used.title in plan.sentence else ["the sentence does not name it"]
    if workload["kind"] == "serving":
        if not found[1].serves(card, estimate.precision):
            wrong.append(f"weights in {estimate.precision}")
        divides = tool.serving.divides if tool.serving else ()
        degrees = ("tensor", "pipeline", "expert")
        return wrong + [
            name for name in degrees if getattr(estimate.layout, name) > 1 and name not in divides
        ]
    offer = tool.training
    assert offer is not None
    method = workload.get("method")
    wrong += offer.lacking(estimate.layout, four_bit=method == "qlora")
    if RECIPES[estimate.precision].compute not in offer.computes:
        wrong.append(estimate.precision)
    adapts = case["model"]["preset"] in TEXT and method is not None
    if adapts and (method not in offer.methods or method in found[1].without):
        wrong.append(method)
    if workload.get("preference", "dpo") not in ({*offer.preference} | {"dpo"}):
        wrong.append(workload["preference"])
    if workload.get("optimizer", "adamw") not in offer.optimizers:
        wrong.append(workload["optimizer"])
    return wrong


@pytest.mark.parametrize("part", range(PARTS))
def test_a_plan_uses_only_what_its_software_offers(part: int) -> None:
    plans, named = 0, set()
    for case in covering(map(random_case, range(DRAWN)), TRIED)[part::PARTS]:
        try:
            found = advisor.recommend(case)
        except advisor.InputError:
            continue
        for plan in (plan for ranking in found.rankings for plan in ranking.plans):
            plans += 1
            assert beyond(plan, case) == [], (case, plan.sentence)
            named.add(plan.estimate.software and plan.estimate.software.name)
        for item in found.rejections:
            assert item.code != "software" or (item.message and item.remedy)
    assert plans >= 20
    # The property says something: few of its cases name many tools.
    assert len(named) >= 8, named
