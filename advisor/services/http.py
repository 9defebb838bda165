"""The HTTP service (optional extra ``api``): one address for each question of the facade."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from advisor import __version__, api, errors
from advisor.foundation.concurrency.sharing import Shelf
from advisor.foundation.files.structured import NotPlainError, read_json
from advisor.foundation.noun import Noun
from advisor.nouns.case_files import MAX_CASE_BYTES
from advisor.services.questions import Door, asked, doors

AT_ONCE: Final = 4
"""Questions computed at once. They share a core, so that a heavy one slows the others, no more."""
WAITING: Final = 32
"""Questions that may wait for a free worker."""


class RefusedError(errors.AdvisorError):
    """A request that the service does not answer, with its HTTP status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Work:
    """Answers questions, ``workers`` at once while ``waiting`` others may wait.

    Equal questions are computed once.
    """

    def __init__(self, workers: int, waiting: int = WAITING) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="answers")
        self._most, self._lock, self._shelf = workers + waiting, threading.RLock(), Shelf()
        self._running: dict[bytes, Future[str]] = {}
        self._asked = Counter[Future[str]]()

    @property
    def running(self) -> int:
        """Questions that are computed or wait."""
        return len(self._running)

    def answer(self, door: Door, question: Noun) -> Future[str]:
        """Return the future answer as JSON text.

        Raises ``RefusedError`` if as many are under way as the service takes.
        """
        place = self._place(door, question)
        kept = self._shelf.find(place)
        if isinstance(kept, str):
            done: Future[str] = Future()
            done.set_result(kept)
            return done
        with self._lock:
            if place in self._running:
                self._asked[self._running[place]] += 1
                return self._running[place]
            if len(self._running) >= self._most:
                busy = f"{len(self._running)} questions are under way. Ask again in a few seconds."
                raise RefusedError(busy, status=BUSY)
            # Registered first: a quick answer must find itself there when it ends.
            future = self._running[place] = self._pool.submit(self._computed, place, door, question)
            self._asked[future] = 1
        future.add_done_callback(lambda _: self._forget(place))
        return future

    def leave(self, future: Future[str]) -> None:
        """Wait no longer: what nobody waits for is not begun.

        What has begun is finished, and kept for those who ask again.
        """
        with self._lock:
            if future in self._asked:
                self._asked[future] -= 1
                if not self._asked[future]:
                    future.cancel()

    def end(self) -> None:
        """Drop what waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _forget(self, place: bytes) -> None:
        with self._lock:
            if (future := self._running.pop(place, None)) is not None:
                del self._asked[future]

    def _computed(self, place: bytes, door: Door, question: Noun) -> str:
        ask: Callable[[Noun], Noun] = door.ask
        text = ask(question).to_json(indent=None)
        self._shelf.keep(place, text)
        return text

    def _place(self, door: Door, question: Noun) -> bytes:
        asked = [door.name, api.load_catalog().prices.fetched_at, question.model_dump_json()]
        return sha256(json.dumps(asked).encode(errors="backslashreplace")).digest()


REQUEST_S: Final = 10.0
"""A connection without a whole request head is closed after this time."""
ANSWER_S: Final = 60.0
"""A request whose answer is not read whole after this time is given up."""
TICK_S: Final = 1.0
TIMEOUT_S: Final = 30.0
READ_S: Final = 10.0
"""A body has to arrive within this time."""
MOST_CONNECTIONS: Final = 256
"""Of one process; more are refused with 503."""
REFS: Final = "#/components/schemas/{model}"
UNPROCESSABLE, TOO_LARGE, SLOW, BUSY, LATE, DEFECT = 422, 413, 408, 503, 504, 500
FAILURES: Final = (UNPROCESSABLE, TOO_LARGE, SLOW, BUSY, LATE, DEFECT)


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with limits of time; uvicorn itself waits for a first request without end."""

    _timer: asyncio.TimerHandle | None = None
    _busy = False
    _since = 0.0
    """When the connection began to wait for what it waits for. [s]"""

    def connection_made(self, transport: Any) -> None:
        """Watch a new connection."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the watch."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        self._busy, self._since = False, self.loop.time()
        super().on_response_complete()

    def _watch(self) -> None:
        now = self.loop.time()
        cycle: RequestResponseCycle | None = self.cycle
        busy = cycle is not None and not cycle.response_complete
        if busy != self._busy:
            self._busy, self._since = busy, now
        if now - self._since > (ANSWER_S if busy else REQUEST_S):
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(TICK_S, self._watch)


class Problem(BaseModel):
    """What is wrong, the value, what is allowed, and the next step."""

    message: str
    """All of it in one sentence."""
    what: str
    value: str = ""
    allowed: str = ""
    remedy: str = ""
    field: str = ""
    """Dotted path of the input."""


def _problem(status: int, error: Exception, **more: str) -> JSONResponse:
    message = str(error)
    found = Problem(message=message, what=more.pop("what", message), **more)
    headers = {"Retry-After": "2"} if status == BUSY else None
    return JSONResponse({"error": found.model_dump()}, status, headers=headers)


def _refused(error: errors.InputError) -> JSONResponse:
    return _problem(
        UNPROCESSABLE,
        error,
        what=error.what,
        value=errors.shown(error.value),
        allowed=error.allowed,
        remedy=error.remedy,
        field=error.field,
    )


async def _body(request: Request) -> bytes:
    """Return the body of a request, read within bounds of size and time."""
    content = bytearray()
    try:
        async with asyncio.timeout(READ_S):
            async for part in request.stream():
                content += part
                if len(content) > MAX_CASE_BYTES:
                    most = f"the body is too large; allowed: up to {MAX_CASE_BYTES:,} bytes"
                    raise RefusedError(most, status=TOO_LARGE)
    except TimeoutError:
        slow = f"the body did not arrive within {READ_S:g} s. Send it again."
        raise RefusedError(slow, status=SLOW) from None
    return bytes(content)


def _question(door: Door, body: bytes) -> Noun:
    """Return the question of a body."""
    try:
        content = read_json(body.decode("utf-8"))
    except (NotPlainError, UnicodeDecodeError) as error:
        reason = error.what if isinstance(error, NotPlainError) else "it is not UTF-8"
        raise errors.refusal("body_not_json", reason=reason, value=body[:60]) from None
    return asked(door, content)


def create_app(*, timeout_s: float = TIMEOUT_S) -> FastAPI:
    """Return the service; an answer may take ``timeout_s``, its time in the queue included."""
    work = Work(AT_ONCE)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        work.end()

    app = FastAPI(
        title="GPU advisor",
        version=__version__,
        summary="Which accelerators, how many, arranged how, for how long, at what cost",
        lifespan=lifespan,
    )

    def add(door: Door) -> None:
        async def endpoint(request: Request) -> Response:
            return await _answered(work, door, request, timeout_s)

        app.add_api_route(
            f"/v1/{door.name}",
            endpoint,
            methods=["GET" if door.name == "catalog" else "POST"],
            operation_id=door.name,
            summary=door.summary,
            response_class=JSONResponse,
        )

    for door in doors().values():
        add(door)

    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    app.add_api_route("/health", health, methods=["GET"], operation_id="health")
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


async def _answered(work: Work, door: Door, request: Request, timeout_s: float) -> Response:
    """Answer one request; every failure has a status and a sentence."""
    found: Future[str] | None = None
    try:
        body = b"{}" if request.method == "GET" else await _body(request)
        # In a thread: a large body takes a second to check, and others go on meanwhile.
        question = await asyncio.to_thread(_question, door, body)
        found = work.answer(door, question)
        # Shielded: others may wait for the same answer.
        text = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(found)), timeout_s)
    except errors.InputError as error:
        return _refused(error)
    except (RefusedError, errors.CatalogError, errors.ResourceError) as error:
        return _problem(getattr(error, "status", DEFECT), error)
    except TimeoutError:
        if found is not None:
            work.leave(found)
        late = errors.AdvisorError(
            f"no answer within {timeout_s:g} s. Ask again, or ask a smaller question."
        )
        return _problem(LATE, late)
    except Exception as error:  # noqa: BLE001 - no traceback reaches a client
        what = errors.shortened(f"{type(error).__name__}: {error}", errors.MAX_PART)
        return _problem(DEFECT, errors.AdvisorError(f"a defect of the program: {what}"))
    return Response(text, media_type="application/json")


def _described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the schema of every question and answer."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes
    )
    known = doors()
    models = [(door.question, "validation") for door in known.values()]
    answers = [(door.answer, "serialization") for door in known.values()]
    names, schemas = models_json_schema(
        [*dict.fromkeys([*models, *answers]), (Problem, "serialization")],  # type: ignore[list-item]
        ref_template=REFS,
    )
    document.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
    error = names[Problem, "serialization"]
    refused = {
        "description": "What is wrong, the value, what is allowed, and the remedy",
        "content": _json({"type": "object", "properties": {"error": error}}),
    }
    wrong = {str(status): refused for status in FAILURES}
    for door in known.values():
        for operation in document["paths"][f"/v1/{door.name}"].values():
            answer = names[door.answer, "serialization"]
            operation["responses"] = {
                "200": {"description": "The answer", "content": _json(answer)},
                **wrong,
            }
            if door.name != "catalog":
                question = names[door.question, "validation"]
                operation["requestBody"] = {"required": True, "content": _json(question)}
    app.openapi_schema = document
    return document


def serve(*, host: str, port: int, processes: int) -> None:
    """Serve until interrupted.

    Each process computes a few questions at once, on one core, and keeps its answers.
    """
    import uvicorn

    from advisor.services.http import TimedProtocol

    uvicorn.run(
        "advisor.services.http:create_app",
        factory=True,
        host=host,
        port=port,
        workers=processes,
        log_level="warning",
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=5,
        http=TimedProtocol,
    )


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
