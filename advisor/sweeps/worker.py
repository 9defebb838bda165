"""A worker process of a sweep: reads chunks of cases, writes their rows, ends with its input.

``python -m advisor.sweeps.worker`` is started by the sweep alone. Its first message is the catalog
in use, so that all workers have the same prices.
"""

import contextlib
import pickle

from advisor.foundation.processes import streams


def main() -> None:
    """Answer chunks until the input ends."""
    from advisor.sweeps.rows import answer_rows

    incoming, outgoing = streams()
    with contextlib.suppress(EOFError):
        catalog = pickle.load(incoming)  # from the parent process
        while True:
            pickle.dump(answer_rows(pickle.load(incoming), catalog), outgoing)
            outgoing.flush()


if __name__ == "__main__":
    main()
