"""The HTTP service, asked by a client that is generated from its own OpenAPI document."""

import asyncio
import json
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from jsonschema import Draft202012Validator

import advisor
from advisor.errors import InputError
from advisor.services import http
from advisor.services.http import RefusedError, Work
from advisor.services.questions import doors
from benchmarks.replicas import free_port, running
from tests.cases import tune

CASE: dict[str, Any] = tune("llama-3.1-8b", "l40s", 1, method="lora", tokens=50e6)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a service in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "advisor", "serve-api", "--port", str(port)]
    log = tmp_path_factory.mktemp("service") / "log"
    with running(command, f"http://127.0.0.1:{port}/health", log):
        yield f"http://127.0.0.1:{port}"


class Client:
    """Methods and checks that an OpenAPI document describes, and nothing else."""

    def __init__(self, address: str) -> None:
        self.address = address
        with urlopen(f"{address}/openapi.json", timeout=30) as response:
            self.document = json.load(response)
        self.operations = {
            operation["operationId"]: (path, method.upper(), operation)
            for path, methods in self.document["paths"].items()
            for method, operation in methods.items()
        }

    def ask(self, name: str, question: object = None) -> Any:
        path, method, operation = self.operations[name]
        if "requestBody" in operation:
            self.check(operation["requestBody"]["content"], question)
        status, answer = self.send(path, method, json.dumps(question).encode())
        self.check(operation["responses"][str(status)]["content"], answer)
        assert status == 200, answer
        return answer

    def send(self, path: str, method: str = "POST", body: bytes = b"") -> tuple[int, Any]:
        request = Request(self.address + path, data=body or None, method=method)
        try:
            with urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except HTTPError as error:
            return error.code, json.load(error)

    def check(self, content: dict[str, Any], value: object) -> None:
        schema = content["application/json"]["schema"]
        whole = {**schema, "components": self.document["components"]}
        Draft202012Validator(whole).validate(value)


@pytest.fixture(scope="module")
def client(address: str) -> Client:
    return Client(address)


def test_the_guide_shows_the_mistake_that_the_service_tells(client: Client, root: Path) -> None:
    guide = (root / "docs" / "services.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"```json\n({\"error\".*?)```", guide, re.DOTALL)
    case = {**CASE, "hardware": {"accelerator": "l40z"}}
    status, told = client.send("/v1/estimate", body=json.dumps(case).encode())
    assert (status, told) == (422, json.loads(shown))


def test_every_question_has_an_operation(client: Client) -> None:
    assert set(client.operations) == {*doors(), "health"}
    schema = client.operations["recommend"][2]["requestBody"]["content"]["application/json"]
    name = schema["schema"]["$ref"].rpartition("/")[2]
    case = client.document["components"]["schemas"][name]
    assert {"model", "workload", "hardware", "layout", "limits"} <= set(case["properties"])


@pytest.mark.parametrize("name", ["estimate", "own"])
def test_a_case_has_the_answer_of_python(client: Client, name: str) -> None:
    answer = client.ask(name, CASE)

    assert answer == json.loads(getattr(advisor, name)(CASE).to_json())


def test_a_recommendation_is_that_of_python(client: Client) -> None:
    case = {name: CASE[name] for name in ("model", "workload")} | {"limits": {"deadline_hours": 24}}

    answer = client.ask("recommend", case)

    assert answer == json.loads(advisor.recommend(case).to_json())


def test_cards_have_the_answer_of_python(client: Client) -> None:
    fits = client.ask("fits", {"accelerator": "rtx-4090"})
    compared = client.ask("compare", {"accelerators": ["l4", "l40s"]})
    catalog = client.ask("catalog")

    assert fits == json.loads(advisor.fits("rtx-4090").to_json())
    assert [card["accelerator"]["key"] for card in compared["cards"]] == ["l4", "l40s"]
    keys = {card.key for card in advisor.load_catalog().accelerators}
    assert {card["key"] for card in catalog["accelerators"]} == keys


def without(field: str, **update: object) -> dict[str, Any]:
    return {name: item for name, item in CASE.items() if name != field} | update


@pytest.mark.parametrize(
    ("path", "question", "field"),
    [
        ("estimate", without("workload"), "workload"),
        ("estimate", without("hardware"), "hardware"),
        ("estimate", CASE | {"hardware": {"accelerator": "nope"}}, "hardware.accelerator"),
        ("estimate", CASE | {"model": {"config": "/etc/passwd"}}, "model.config"),
        ("estimate", CASE | {"model": {"stack": "layers.yaml"}}, "model.stack"),
        ("recommend", CASE | {"model": {"hub": "org/name"}}, "model.hub"),
        (
            "recommend",
            without("hardware", workload={"kind": "serving", "demand": {"file": "/etc/passwd"}}),
            "workload.demand.file",
        ),
        ("own", CASE | {"nonsense": 1}, "nonsense"),
        ("fits", {"accelerator": "rtx-4090", "count": 0}, "count"),
        ("fits", {}, "accelerator"),
        ("fits", {"accelerator": "rtx-4090", "context_tokens": 10**9}, "context_tokens"),
        ("compare", {"accelerators": []}, "accelerators"),
        ("compare", ["l4"], ""),
    ],
)
def test_a_mistake_says_what_is_allowed(
    client: Client, path: str, question: object, field: str
) -> None:
    status, answer = client.send(f"/v1/{path}", body=json.dumps(question).encode())

    assert status == 422
    problem = answer["error"]
    client.check(client.operations[path][2]["responses"]["422"]["content"], answer)
    assert problem["field"] == field
    assert problem["what"]
    assert problem["allowed"]
    assert problem["remedy"]
    assert "Traceback" not in problem["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not json", 422),
        (b"\xff\xfe", 422),
        (b'{"a": 1, "a": 2}', 422),
        (b"[" * 100_000, 422),
        (b'{"model": {"parameters": NaN}}', 422),
        (b'"' + b"x" * 1_100_000 + b'"', 413),
    ],
)
def test_a_hostile_body_is_refused(client: Client, body: bytes, status: int) -> None:
    found, answer = client.send("/v1/estimate", body=body)

    assert found == status
    assert answer["error"]["message"]


def test_equal_questions_are_computed_once_and_others_wait_within_bounds() -> None:
    started, go = threading.Semaphore(0), threading.Event()
    door = doors()["estimate"]
    question = advisor.load_case(CASE)
    answer = advisor.estimate(question)

    def slow(_: object) -> Any:
        started.release()
        assert go.wait(60)
        return answer

    door = replace(door, ask=slow)
    work = Work(1, waiting=1)
    first = work.answer(door, question)
    assert started.acquire(timeout=30)
    again = work.answer(door, question)
    other = work.answer(door, advisor.load_case(CASE | {"objective": "fastest"}))
    with pytest.raises(RefusedError, match="2 questions are under way"):
        work.answer(door, advisor.load_case(CASE | {"objective": "best_value"}))
    go.set()

    assert again is first
    assert first.result(60) == other.result(60) == answer.to_json(indent=None)
    assert work.answer(door, question).done()
    work.end()


def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    begun: queue.Queue[object] = queue.Queue()
    go = threading.Event()
    answer = advisor.estimate(CASE)

    def slow(question: object) -> Any:
        begun.put(question)
        assert go.wait(60)
        return answer

    door = replace(doors()["estimate"], ask=slow)
    questions = [
        advisor.load_case(CASE | {"objective": aim})
        for aim in ("cheapest", "fastest", "best_value")
    ]
    work = Work(1, waiting=2)
    first, left, shared = (work.answer(door, question) for question in questions)
    assert work.answer(door, questions[2]) is shared
    assert begun.get(timeout=30) == questions[0]
    for future in (first, left, shared):
        work.leave(future)
    assert work.running == 2
    go.set()

    assert first.result(60) == shared.result(60) == answer.to_json(indent=None)
    assert left.cancelled()
    assert (begun.get(timeout=30), begun.qsize()) == (questions[2], 0)
    work.end()


@contextmanager
def slow_door(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    go = threading.Event()

    def wait(_: object) -> Any:
        go.wait(60)
        raise InputError("late", value=1, allowed="", remedy="")

    known = {name: replace(door, ask=wait) for name, door in doors().items()}
    monkeypatch.setattr(http, "doors", lambda: known)
    yield go
    go.set()


async def asked(app: Callable[..., Any], path: str, question: object) -> tuple[int, Any]:
    """Ask an ASGI application without a server."""
    import httpx

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://local") as client:
        response = await client.post(path, content=json.dumps(question))
        return response.status_code, response.json()


def test_an_answer_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_door(monkeypatch):
        app = http.create_app(timeout_s=0.2)
        status, answer = asyncio.run(asked(app, "/v1/estimate", CASE))

    assert status == 504
    assert "no answer within 0.2 s" in answer["error"]["message"]
