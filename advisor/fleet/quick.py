"""Portfolios of the common questions, each from three inputs."""

from collections.abc import Mapping
from typing import Any, Final

from advisor.architecture.presets import find_preset
from advisor.architecture.titles import model_title
from advisor.fleet.portfolio import Portfolio
from advisor.foundation.names import check_known
from advisor.foundation.noun import Noun, shipped
from advisor.foundation.parsing import parse_amount
from advisor.nouns.case_files import load_as

FILE: Final = "common_questions.yaml"


class _Question(Noun):
    """A question that needs no portfolio file, with the inputs that nobody states."""

    tune: str
    serve: str = ""
    """Empty: what is tuned."""
    people: float
    portfolio: dict[str, Any]
    """With ``{names}`` of the inputs."""


class _Questions(Noun):
    questions: dict[str, _Question]
    example: str
    """A portfolio of two workloads."""


common_questions = shipped(FILE, _Questions)


def example_portfolio() -> str:
    """Return the text of a portfolio of two workloads."""
    return common_questions().example


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

    ``question``: ``home`` (fine-tune one model and run another), ``lab`` (a group of people) or
    ``chatbot`` (one server or the cloud). ``budget_usd``: for all machines. [USD] ``people``: in
    the lab, or chatting at the same time. ``tune``, ``serve``: presets or counts of parameters
    of the models that are fine-tuned and served.
    """
    known = common_questions().questions
    check_known(question, known, what="question", field="--ask")
    asked = known[question]
    tuned = tune or asked.tune
    served = serve or asked.serve or tuned
    group = people or asked.people
    given = {
        "tune": _source(tuned),
        "tune_title": _title(tuned),
        "serve": _source(served),
        "serve_title": _title(served),
        "people": int(group) if question == "chatbot" else f"{group:g}",
        "busy": max(1, round(group / 2)),
        "some": group / 2,
    }
    content = _filled(asked.portfolio, given)
    if budget_usd is not None:
        content["budget"] = {"purchase_usd": budget_usd}
    return load_as(Portfolio, content)


def _filled(content: Any, given: Mapping[str, Any]) -> Any:
    """Return a template with its ``{names}`` filled in; one that stands alone keeps its kind."""
    if isinstance(content, dict):
        return {name: _filled(part, given) for name, part in content.items()}
    if isinstance(content, list):
        return [_filled(part, given) for part in content]
    if not isinstance(content, str):
        return content
    if content.startswith("{") and content[1:-1] in given:
        return given[content[1:-1]]
    return content.format_map(given)


def _source(model: str) -> dict[str, object]:
    """Return the model of a case: a preset, or a count of parameters such as ``70B``."""
    if model[:1].isdigit():
        return {"parameters": parse_amount(model, field="--tune or --serve")}
    return {"preset": model}


def _title(model: str) -> str:
    """Return how people write a preset; a name that is none stays, for the message about it."""
    preset = find_preset(model)
    return model_title(preset) if preset else model
