"""A worker process of a sweep: reads chunks of cases, writes their rows, ends with its input.

``python -m advisor.sweeps.worker`` is started by the sweep alone. Its first message is the catalog
in use, so that all workers have the same prices.
"""

import json
import os
import pickle
import struct
import sys
from typing import IO, Final

LENGTH: Final = struct.Struct(">Q")
"""Before each message: its length. [bytes]"""


def send(stream: IO[bytes] | None, message: bytes) -> None:
    """Write one message."""
    assert stream is not None
    stream.write(LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def receive(stream: IO[bytes] | None) -> bytes | None:
    """Read one message; None where the other end is gone."""
    assert stream is not None
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    [size] = LENGTH.unpack(head)
    message = stream.read(size)
    return message if len(message) == size else None


def main() -> None:
    """Answer chunks until the input ends."""
    from advisor.sweeps.rows import answer_rows, as_text

    incoming, outgoing = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints, of Python or of C, must not get between the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    first = receive(incoming)
    if first is None:
        return
    catalog = pickle.loads(first)  # from the parent process
    while (message := receive(incoming)) is not None:
        send(outgoing, as_text(answer_rows(json.loads(message), catalog)).encode())


if __name__ == "__main__":
    main()
