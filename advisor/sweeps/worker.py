"""A worker process of a sweep: reads chunks of cases, writes their rows, ends with its input.

``python -m advisor.sweeps.worker`` is started by the sweep alone. Its first message is the catalog
in use, so that all workers have the same prices.
"""

import json
import pickle

from advisor.foundation.processes import receive, send, streams


def main() -> None:
    """Answer chunks until the input ends."""
    from advisor.sweeps.rows import answer_rows, as_text

    incoming, outgoing = streams()
    first = receive(incoming)
    if first is None:
        return
    catalog = pickle.loads(first)  # from the parent process
    while (message := receive(incoming)) is not None:
        send(outgoing, as_text(answer_rows(json.loads(message), catalog)).encode())


if __name__ == "__main__":
    main()
