"""Portfolios of the common questions, each from three inputs."""

from enum import StrEnum
from typing import Any, Final

from advisor.architecture.presets import find_preset
from advisor.architecture.titles import model_title
from advisor.fleet.portfolio import Portfolio
from advisor.foundation.names import check_known
from advisor.nouns.case_files import load_as

DEFAULT_MODELS: Final = {"tune": "llama-3.1-8b", "serve": "qwen3-32b", "lab": "llama-3.1-70b"}
CHAT_TPOT_MS: Final = 100.0
"""Ten tokens a second: faster than people read. [ms]"""
AT_ONCE: Final = 0.5
"""Share of a group of people who work at the same time. Assumed."""
RUN_TOKENS: Final = 10e6
"""Of one fine-tuning run: about 10,000 examples of 1,000 tokens. Assumed."""
OFFICE_NOISE_DBA: Final = 50.0


class Question(StrEnum):
    """Questions that need no portfolio file."""

    HOME = "home"
    """What to buy to fine-tune one model and run another at home."""
    LAB = "lab"
    """What a group buys for its people."""
    CHATBOT = "chatbot"
    """One server or the cloud for a chatbot and its weekly fine-tune."""


def quick_portfolio(
    question: str,
    *,
    budget_usd: float | None = None,
    people: float | None = None,
    tune: str | None = None,
    serve: str | None = None,
) -> Portfolio:
    """Return the portfolio of a common question, for ``plan_fleet``.

    Raises InputError if the question or a model is unknown, or an input is out of bounds.

    Parameters
    ----------
    question : str
        ``home`` (fine-tune one model and run another), ``lab`` (a group of people) or ``chatbot``
        (one server or the cloud).
    budget_usd : float, optional
        For all machines. [USD]
    people : float, optional
        In the lab, or chatting at the same time.
    tune, serve : str, optional
        Presets of the models that are fine-tuned and served.
    """
    check_known(question, Question, what="question", field="--ask")
    tuned = tune or DEFAULT_MODELS["tune"]
    makers = {Question.HOME: _home, Question.LAB: _lab, Question.CHATBOT: _chatbot}
    content = makers[Question(question)](tuned, serve, people)
    if budget_usd is not None:
        content["budget"] = {"purchase_usd": budget_usd}
    return load_as(Portfolio, content)


def _home(tune: str, serve: str | None, _: float | None) -> dict[str, Any]:
    chat = _chat(serve or DEFAULT_MODELS["serve"], 1, weights="w4a16")
    return {
        "name": "At home",
        "means": {"rent": False, "used": True},
        "site": {"noise_dba": OFFICE_NOISE_DBA, "machines": 2},
        "workloads": [
            {
                "name": f"chat with {_title(serve or DEFAULT_MODELS['serve'])}",
                "case": chat,
                "hours": "office",
            },
            {
                "name": f"fine-tune {_title(tune)}",
                "case": _tune(tune, "qlora"),
                "runs_per_month": 4,
            },
        ],
    }


def _lab(tune: str, serve: str | None, people: float | None) -> dict[str, Any]:
    group = people or 12
    model = serve or DEFAULT_MODELS["lab"]
    busy = max(1.0, round(AT_ONCE * group))
    return {
        "name": f"A lab of {group:g}",
        "means": {"rent": False},
        "workloads": [
            {"name": "people at work", "case": _tune(tune, "lora"), "people": busy},
            {
                "name": f"fine-tune {_title(tune)}",
                "case": _tune(tune, "full"),
                "runs_per_month": group / 2,
            },
            {
                "name": f"chat with {_title(model)}",
                "case": _chat(model, int(busy), weights="w4a16"),
            },
        ],
    }


def _chatbot(tune: str, serve: str | None, people: float | None) -> dict[str, Any]:
    model = serve or tune
    return {
        "name": "A chatbot and its weekly fine-tune",
        "workloads": [
            {"name": f"chatbot on {_title(model)}", "case": _chat(model, int(people or 16))},
            {
                "name": f"weekly fine-tune of {_title(tune)}",
                "case": _tune(tune, "lora"),
                "runs_per_month": 52 / 12,
                "preemptible": True,
            },
        ],
    }


def _title(model: str) -> str:
    """Return how people write a preset; a name that is none stays, for the message about it."""
    preset = find_preset(model)
    return model_title(preset) if preset else model


def _chat(model: str, at_once: int, *, weights: str | None = None) -> dict[str, Any]:
    workload: dict[str, Any] = {"kind": "serving", "concurrency": max(1, at_once)}
    if weights:
        workload["weight_format"] = weights
    return {
        "model": {"preset": model},
        "workload": workload,
        "limits": {"max_tpot_ms": CHAT_TPOT_MS},
    }


def _tune(model: str, method: str) -> dict[str, Any]:
    return {
        "model": {"preset": model},
        "workload": {"kind": "fine_tuning", "method": method, "tokens": RUN_TOKENS},
        "limits": {"deadline_hours": 72},
    }
