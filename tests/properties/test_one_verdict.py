"""The doors give one verdict: the same card, model and setting fit alike, at the same speed."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

import advisor
from advisor.architecture.presets import load_preset
from advisor.architecture.titles import short_list
from advisor.estimate.results import Estimate
from advisor.planning.fits import request
from tests.cases import serve, tune

pytestmark = pytest.mark.slow
LISTED = 70
"""Questions that `fits` answers too."""
QUESTIONS = 130
"""With those whose setting only the other doors can state."""
CARDS = (
    "rtx-3060-12gb",
    "rtx-3090",
    "rtx-3090+rtx-3060-12gb",
    "rtx-4090",
    "rtx-5090",
    "rx-7900-xtx",
    "arc-b580",
    "apple-m4-max",
    "dgx-spark-gb10",
    "jetson-agx-orin-64gb",
    "core-i9-14900k",
    "l4",
    "a100-sxm-80gb",
    "h100-sxm",
    "mi300x",
)
SEVERAL = ("rtx-3090", "rtx-4090", "rx-7900-xtx", "h100-sxm")
"""Cards of which two are asked about, too."""
HOMES = (
    "rtx-3060-12gb",
    "rtx-3090",
    "rtx-4090",
    "rtx-4090-laptop",
    "rtx-5070-ti",
    "rx-7900-xtx",
    "arc-b580",
    "rtx-3090+rtx-3060-12gb",
    "h100-sxm-mig-3g-40gb",
    "apple-m1-max",
    "apple-m4-max",
    "ryzen-ai-max-395",
    "dgx-spark-gb10",
)
"""Cards that people own, asked about with a computer or formats of their own."""
HELD = ("qwen3-30b-a3b", "glm-4.5-air", "gpt-oss-20b", "gpt-oss-120b", "qwen3-32b", "llama-3.3-70b")
"""Mixtures, and dense models that small cards hold in part."""
COMPUTERS: tuple[dict[str, float], ...] = (
    {},
    {"memory_bytes": 32e9},
    {"memory_bytes": 64e9, "memory_bandwidth_bytes_per_s": 51.2e9},
    {"memory_bytes": 128e9, "display_bytes": 1.5e9},
)
FORMATS: tuple[dict[str, Any], ...] = (
    {},
    {"weight_format": "q4_k_m"},
    {"weight_format": "q3_k_m", "kv_cache_format": "fp8"},
    {"kv_cache_format": "fp8"},
)
MODELS = 5
CONTEXTS = (2048, 8192, 32768)
OUTPUT = 256


class Question(NamedTuple):
    """One card, model and setting."""

    card: str
    cards: int
    model: str
    context: int
    concurrency: int
    computer: dict[str, float] | None = None
    formats: dict[str, Any] | None = None

    @property
    def case(self) -> dict[str, Any]:
        asked = serve(
            self.model,
            input_tokens=self.context - OUTPUT,
            output_tokens=OUTPUT,
            concurrency=self.concurrency,
            **(self.formats or {}),
        )
        return asked | {"host": self.computer or {}}


class Said(NamedTuple):
    """What a door says."""

    fits: bool
    weights: str
    software: str
    on_host: bool
    tpot_ms: float | None


def questions() -> list[Question]:
    """Return random questions: five models on each of a few settings, then each its own setting."""
    chosen = random.Random(17)
    found: list[Question] = []
    while len(found) < LISTED:
        card = chosen.choice(CARDS)
        count = chosen.choice((1, 1, 2)) if card in SEVERAL else 1
        context, concurrency = chosen.choice(CONTEXTS), chosen.choice((1, 2, 8))
        for model in chosen.sample(short_list(), MODELS):
            # Phi-4 has fewer positions than the longest context.
            longest = load_preset(model).max_position_embeddings or context
            found.append(Question(card, count, model, min(context, longest), concurrency))
    while len(found) < QUESTIONS:
        setting = (chosen.choice(CONTEXTS), chosen.choice((1, 1, 2)))
        computer, formats = chosen.choice(COMPUTERS), chosen.choice(FORMATS)
        question = Question(
            chosen.choice(HOMES), 1, chosen.choice(HELD), *setting, computer, formats
        )
        # Its weights are 4-bit as published, and no other format is served.
        if not (question.model.startswith("gpt-oss") and "weight_format" in formats):
            found.append(question)
    return found


def said(found: Estimate) -> Said:
    assert found.serving is not None
    assert found.software is not None
    layout = found.layout
    return Said(
        found.memory.fits,
        found.precision,
        found.software.name,
        layout.gpu_layers is not None or layout.cpu_expert_layers > 0,
        found.serving.tpot_ms.expected if found.memory.fits else None,
    )


def by_fits(question: Question) -> Said:
    card, count, model_name, context, concurrency, *_ = question
    with pytest.MonkeyPatch.context() as patch:  # its other models answer other questions
        patch.setattr(request, "short_list", lambda: [model_name])
        found = advisor.fits(
            card, count=count, context_tokens=context, concurrency=max(2, concurrency)
        )
    [model] = found.models
    served = model.served if question.concurrency == 1 else model.served_together
    if served is None:
        return Said(False, "", "", False, None)
    speed = served.tokens_per_s
    layout = served.layout
    return Said(
        served.fits,
        served.weight_format,
        served.software,
        layout.gpu_layers is not None or layout.cpu_expert_layers > 0,
        None if speed is None else 1e3 / speed.expected,
    )


def by_recommend(question: Question, **limits: Any) -> Said | None:
    """Return what the search plans on exactly these cards; None if it plans none."""
    case = question.case | {"limits": limits}
    found = advisor.recommend(case, brief=True)
    plans = [plan.estimate for ranking in found.rankings for plan in ranking.plans]
    same_count = [said(item) for item in plans if item.count == question.cards]
    return same_count[0] if same_count else None


def same(one: Said, other: Said) -> bool:
    if not one.fits and not other.fits:
        return True
    return one[:4] == other[:4] and one.tpot_ms == pytest.approx(other.tpot_ms, rel=1e-6)


TUNED = 4, 5
"""Settings of fine-tuning, and questions on each."""
SMALL = ("llama-3.2-3b", "qwen3-4b", "llama-3.1-8b", "qwen3-14b", "gpt-oss-20b")
TRAINERS = ("rtx-4060", "rtx-3060-12gb", "rtx-5070-ti", "rtx-4090", "l40s", "rx-7900-xtx")


def test_every_door_fine_tunes_under_one_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits tells of sequences on the card alone; the others also of its host's memory."""
    monkeypatch.setattr("advisor.planning.fits.request.short_list", lambda: SMALL)
    chosen, wrong, tools = random.Random(18), list[tuple[object, ...]](), set[str]()
    settings = [(chosen.choice(TRAINERS), chosen.choice((2048, 16384))) for _ in range(TUNED[0])]
    for card, length in settings:
        models = {one.preset: one for one in advisor.fits(card, context_tokens=length).models}
        for _ in range(TUNED[1]):
            model, method = chosen.choice(SMALL), chosen.choice(("lora", "qlora"))
            work = tune(model, method=method, sequence_length=length)
            owned = [{"accelerator": card, "count": 1}]
            case = work | {"hardware": owned[0], "limits": {"owned": owned}}
            found = advisor.estimate(case)
            assert found.software is not None
            name = found.software.name if found.memory.fits else ""
            tools.add(name)
            planned = advisor.recommend(work | {"limits": {"owned": owned}}, brief=True).plans
            by_search = [one.estimate.software.name for one in planned if one.estimate.software]
            trained = {fit.method.value: fit for fit in models[model].trained}.get(method)
            alone = name if not found.layout.offload else ""
            told = trained.software if trained is not None and trained.fits else ""
            if [name] * bool(name) != by_search[:1] or alone != told:
                wrong.append((model, card, method, length, name, by_search, told))
    assert not wrong, "\n".join(map(str, wrong[:5]))
    assert {"trl", "unsloth", ""} <= tools


@pytest.fixture(scope="module")
def answers() -> list[tuple[Question, Said]]:
    found = []
    for question in questions():
        hardware = {"accelerator": question.card, "count": question.cards}
        found.append((question, said(advisor.estimate(question.case | {"hardware": hardware}))))
    return found


def test_what_fits_says_what_estimate_says(answers: list[tuple[Question, Said]]) -> None:
    # Two answers that nothing fits are the same without a word on the speed.
    assert sum(answer.fits for _, answer in answers) >= QUESTIONS / 2
    doors = [(question, answer, by_fits(question)) for question, answer in answers[:LISTED]]
    wrong = [item for item in doors if not same(item[1], item[2])]
    assert not wrong, "\n".join(map(str, wrong[:5]))


def test_the_search_and_owning_say_what_estimate_says_of_owned_cards(
    answers: list[tuple[Question, Said]],
) -> None:
    wrong: list[tuple[object, ...]] = []
    settings = answers[LISTED:]
    assert sum(answer.on_host for _, answer in settings) >= len(settings) / 5
    for question, rented in (*answers[:LISTED:5], *settings[::3]):
        owned = [{"accelerator": question.card, "count": question.cards}]
        case = question.case | {"hardware": owned[0], "limits": {"owned": owned}}
        found = advisor.estimate(case)
        answer = said(found)
        if question.cards == 1 and not answer.on_host and not same(answer, rented):
            wrong.append((question, answer, rented))
        planned = by_recommend(question, owned=owned)
        if question.cards == 1 and not same(answer, planned or answer._replace(fits=False)):
            wrong.append((question, answer, planned))
        if not answer.fits:
            with pytest.raises(advisor.InputError, match="does not fit"):
                advisor.own(case | {"owning": {"purchase_usd": 1000}})
            continue
        speed = advisor.own(case | {"owning": {"purchase_usd": 1000}}).processors[0].tokens_per_s
        assert found.serving is not None
        assert speed is not None
        if speed.expected != pytest.approx(found.serving.output_tokens_per_s.expected):
            wrong.append((question, found.serving.output_tokens_per_s, speed))
    assert not wrong, "\n".join(map(str, wrong[:5]))
