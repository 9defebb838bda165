"""The collection of garbage, which an answer does without."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collection of garbage, if it is on.

    An answer makes thousands of objects, keeps most of them and leaves nothing to collect; going
    through them again and again took a twelfth of its time. Of answers side by side, the first that
    ends lets the collector in again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
