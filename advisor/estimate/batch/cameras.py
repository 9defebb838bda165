"""Cameras that the hardware carries, from the rate of images."""

from collections.abc import Iterator

from advisor.equations.bursts import periodic_wait_share
from advisor.estimate.results import ServingEstimate
from advisor.foundation.units import MILLISECOND
from advisor.nouns.workload import Serving

TAIL = 0.01
"""Share of the frames that may be answered later than stated."""
MOST_STREAMS = 2000
"""Beyond it the tail is not computed: the formula sums over all streams."""


def camera_notes(workload: Serving, serving: ServingEstimate) -> Iterator[str]:
    """Yield how many cameras the hardware carries; nothing where no camera is stated."""
    frames, rate = workload.frames_per_s, serving.images_per_s
    if frames is None or rate is None:
        return
    low, expected, high = (int(value / frames) for value in (rate.low, rate.expected, rate.high))
    if not high:
        yield f"one camera of {frames:g} frames/s is more than the hardware carries"
        return
    said = f"the hardware carries {expected:,} cameras ({low:,}–{high:,}) of {frames:g} frames/s"
    # A replica serves its share of the cameras; frames of a batch wait for each other.
    each, service_s = low // serving.replicas, serving.tpot_ms.high * MILLISECOND
    if workload.concurrency == serving.replicas and 1 <= each <= MOST_STREAMS:
        tail = _tail(each, 1.0 / (frames * service_s)) * service_s / MILLISECOND
        said += f"; with {low:,} of them 99 % of the frames are answered within {tail:.3g} ms"
    elif workload.concurrency > serving.replicas:
        said += "; latency is stated for batches of one (--concurrency 1)"
    yield f"{said}; decoding and resizing of frames left out"


def _tail(streams: int, period: float) -> float:
    """Return the latency that 99 % of the frames stay under. [services]"""
    low, high = 0.0, float(streams)
    for _ in range(30):
        middle = (low + high) / 2
        over = periodic_wait_share(streams=streams - 1, period=period, wait=middle)
        low, high = (middle, high) if over > TAIL else (low, middle)
    return 1.0 + high
