"""A second process that plans beside this one.

HiGHS holds Python's lock while it solves, so threads would wait for each other. Answers do not
depend on who computes them.
"""

import contextlib
import pickle
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

from advisor.foundation.processes import ended, receive, send, started, streams, usable_cores

Task = Callable[[], Any]
"""A ``functools.partial`` of a function of a module, so that it can be sent."""


@dataclass
class Helper:
    """Does tasks in a worker process if it is ``useful`` and a second core is there."""

    useful: bool
    _worker: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the worker, which imports the planner while this process goes on."""
        if self.useful and usable_cores() > 1:
            self._worker = started("advisor.fleet.helper")
        return self

    def __exit__(self, *_: object) -> None:
        """End the worker."""
        if self._worker is not None:
            ended(self._worker)

    @property
    def helps(self) -> bool:
        """Whether a worker is there."""
        return self._worker is not None

    def ask(self, tasks: Sequence[Task]) -> Callable[[], list[Any]]:
        """Hand tasks over, and return what waits for their answers.

        What the worker could not do is done here, and raises here. Wait for the answers before the
        next question.
        """
        sent = False
        if self._worker is not None and tasks:
            with contextlib.suppress(OSError):  # it died: seen below
                send(self._worker.stdin, pickle.dumps(tasks))
                sent = True

        def answers() -> list[Any]:
            message = receive(self._worker.stdout) if sent and self._worker else None
            done = [()] * len(tasks) if message is None else pickle.loads(message)
            return [one[0] if one else task() for one, task in zip(done, tasks, strict=True)]

        return answers

    def together(self, tasks: Sequence[tuple[float, Task]]) -> list[Any]:
        """Do tasks in both processes, each with its rough share of the work; answers in order."""
        if self._worker is None:
            return [task() for _, task in tasks]
        sides: tuple[list[int], list[int]] = ([], [])
        work = [0.0, 0.0]
        for at in sorted(range(len(tasks)), key=lambda at: (-tasks[at][0], at)):
            side = int(work[0] > work[1])
            sides[side].append(at)
            work[side] += tasks[at][0]
        here, there = sides
        theirs = self.ask([tasks[at][1] for at in there])
        found = {at: tasks[at][1]() for at in here}
        found |= dict(zip(there, theirs(), strict=True))
        return [found[at] for at in range(len(tasks))]


def _tried(task: Task) -> tuple[()] | tuple[Any]:
    """Return the answer of a task; nothing if it fails: the other process will see why."""
    try:
        return (task(),)
    except Exception:  # noqa: BLE001 - raised again where the task is done a second time
        return ()


def main() -> None:
    """Do tasks until the input ends."""
    # Loaded while the first tasks are prepared.
    for module in ("scipy.optimize", "scipy.sparse", "advisor.fleet.alternatives"):
        import_module(module)

    incoming, outgoing = streams()
    while (message := receive(incoming)) is not None:
        send(outgoing, pickle.dumps([_tried(task) for task in pickle.loads(message)]))


if __name__ == "__main__":
    main()
