"""Estimates side by side, whose steps on arrays become one step on longer arrays.

A step takes almost as long for one configuration as for a hundred. Tasks therefore pause where they
need one, until all others need one too. Each has a thread, and one thread works at a time.
"""

import contextvars
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from advisor.estimate.candidates import Candidates, Columns

Given = ParamSpec("Given")
Result = TypeVar("Result")
Found = TypeVar("Found", bound=Columns)

MOST_TASKS: Final = 64
MOST_ROWS: Final = 16_384
"""Of one step: this bounds the memory."""


class _Question(NamedTuple):
    """What a task waits for."""

    step: Callable[..., Columns]
    given: tuple[Any, ...]

    @property
    def rows(self) -> int:
        return next(len(one.layout.tensor) for one in self.given if isinstance(one, Candidates))

    @property
    def key(self) -> Hashable:
        """Questions with equal keys differ in numbers only; nouns are compared by identity."""
        return self.step, *(one.alike if hasattr(one, "alike") else id(one) for one in self.given)

    def answer(self) -> Columns:
        return self.step(*self.given)


class _Task:
    """A thread that works until it asks, and goes on with the answer."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.ended = self.given_up = False
        self.question: _Question | None = None
        self.answer: Columns | None = None
        self.result: object = None
        self.error: BaseException | None = None
        # Two locks hand the turn from one thread to the other; both are taken at first.
        self._go, self._paused = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._paused.acquire()
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run, work), daemon=True)

    def _run(self, work: Callable[[], object]) -> None:
        _RUNNING.set(self)
        try:
            self.result = work()
        except BaseException as error:  # noqa: BLE001 - raised again by `side_by_side`
            self.error = error
        self.ended = True
        self._paused.release()

    def advance(self) -> None:
        """Work until the next question or the end."""
        if self.question is None:
            self._thread.start()
        else:
            self._go.release()
        self._paused.acquire()

    def ask(self, question: _Question) -> Columns:
        """Wait for an answer."""
        self.question = question
        self._paused.release()
        self._go.acquire()
        if self.given_up:
            raise SystemExit
        found, self.answer = self.answer, None
        return found or question.answer()


_RUNNING: Final = contextvars.ContextVar[_Task | None]("advisor_side_by_side", default=None)


def together(step: Callable[Given, Found]) -> Callable[Given, Found]:
    """Let a step on candidates be taken by all tasks of :func:`side_by_side` at once.

    What else is given to it is the same for all, or says what makes it ``alike`` and is
    ``joined`` for numbers of rows.
    """

    @wraps(step)
    def asked(*given: Given.args, **named: Given.kwargs) -> Found:
        task = _RUNNING.get()
        if task is None or named:
            return step(*given, **named)
        return cast("Found", task.ask(_Question(step, given)))

    return asked


def side_by_side(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return the results of tasks in order, the same as one after the other."""
    if len(tasks) == 1:
        return [tasks[0]()]
    found: list[Result] = []
    for first in range(0, len(tasks), MOST_TASKS):
        running = [_Task(work) for work in tasks[first : first + MOST_TASKS]]
        _complete(running)
        for task in running:
            if task.error is not None:
                raise task.error
            found.append(cast("Result", task.result))
    return found


def _complete(tasks: Sequence[_Task]) -> None:
    try:
        while tasks := [task for task in tasks if not task.ended]:
            for task in tasks:
                task.advance()
            groups: dict[Hashable, list[_Task]] = {}
            for task in tasks:
                if not task.ended and task.question is not None:
                    groups.setdefault(task.question.key, []).append(task)
            for group in groups.values():
                _answer(group)
    finally:
        for task in tasks:
            if task.question is not None and not task.ended:
                task.given_up = True
                task.advance()


def _answer(tasks: Sequence[_Task]) -> None:
    """Answer questions of one key, a bounded number of rows at a time."""
    part: list[tuple[_Task, _Question]] = []
    rows = 0
    for task in tasks:
        if task.question is None or task.question.rows > MOST_ROWS // 2:
            continue  # it answers itself
        if rows + task.question.rows > MOST_ROWS:
            _joined(part)
            part, rows = [], 0
        part.append((task, task.question))
        rows += task.question.rows
    _joined(part)


def _joined(part: Sequence[tuple[_Task, _Question]]) -> None:
    if len(part) < 2:
        return
    questions = [question for _, question in part]
    sizes = [question.rows for question in questions]
    given = [
        columns[0].joined(columns, sizes) if hasattr(columns[0], "joined") else columns[0]
        for columns in zip(*(question.given for question in questions), strict=True)
    ]
    found = questions[0].step(*given)
    begin = 0
    for (task, _), size in zip(part, sizes, strict=True):
        task.answer = found.take(slice(begin, begin + size))
        begin += size
