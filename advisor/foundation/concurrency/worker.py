"""A worker process: the first message is a function, each other one what to answer with it.

``python -m advisor.foundation.concurrency.worker`` is started by :func:`processes.started` alone,
and ends with its input. A function that holds the catalog in use gives all workers the same prices.
"""

import contextlib
import pickle

from advisor.foundation.concurrency.processes import streams


def main() -> None:
    """Answer messages until the input ends."""
    incoming, outgoing = streams()
    with contextlib.suppress(EOFError):
        answer = pickle.load(incoming)  # from the parent process
        while True:
            pickle.dump(answer(pickle.load(incoming)), outgoing)
            outgoing.flush()


if __name__ == "__main__":
    main()
