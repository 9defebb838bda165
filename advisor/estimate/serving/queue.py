"""A serving engine under a stated rate of requests: load, requests in flight and latencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Final

import numpy as np

from advisor.equations import Number
from advisor.equations.serving.queueing import (
    gamma_quantile,
    gated_cycle_s,
    many_servers_wait_s,
    state_probabilities,
    tail_quantile_s,
    weighted_quantile,
)
from advisor.equations.serving.shared_steps import (
    MOST_READ,
    added_time_s,
    token_time_variance,
    within_step_s,
)
from advisor.estimate.candidates import Floats
from advisor.estimate.serving.queued import PERCENTILES, SIGMAS, Queued, Rows
from advisor.foundation.record import record

NEVER: Final = 1e-9
"""Probability below which a state is left out."""
LIFETIME_SHARE: Final = float(np.sqrt(2 / 3))
"""Spread of a mean over one request's lifetime, over that of the state at one moment. Requests of
equal length are in flight together for a time that falls linearly to 0 after one lifetime, and the
mean of such a correlation, squared weights included, is 2/3."""


@record
class EngineCurve:
    """Engines in each number of requests in flight: one row each, one column for each state.

    Beyond an engine's limit, its figures are those at the limit: see :func:`within_limit`.
    """

    states: Floats
    """Increasing numbers of requests in flight, from 1."""
    completions_per_s: Floats
    """[requests/s]"""
    tpot_s: Floats
    """Time per output token, prompts of others included. [s]"""
    step_s: Floats
    """Step without prompts. [s]"""
    first_token_s: Floats
    """From the start of a prompt to its first token. [s]"""
    prompt_extra_s: Floats
    """What a prompt adds to the steps that carry it. [s]"""
    slots_per_step: Floats
    """Prompts that one full step carries, under 1 for long ones. One for each row."""
    length_s: Floats
    """Part of a prompt's time that grows with its length; the rest starts kernels and reads
    weights. One for each row. [s]"""
    steps_ahead: Floats
    """Steps after the running one that an arrival waits for. One for each row."""
    limit: Floats
    """Most requests in flight. One for each row."""
    need_bytes: Floats
    """Most memory that one request needs, and what is usable. One for each row. [bytes]"""
    usable_bytes: Floats

    @property
    def most_per_s(self) -> Floats:
        """Most that each engine completes within its limit. [requests/s]"""
        within = self.states <= np.maximum(self.limit, 1.0)[:, None]
        return np.asarray(np.where(within, self.completions_per_s, 0.0).max(axis=1))

    def take(self, rows: Rows) -> EngineCurve:
        """Return the selected engines."""
        return self._each(lambda name: getattr(self, name)[rows])

    def beside(self, others: Sequence[EngineCurve]) -> EngineCurve:
        """Return these engines with others after them."""
        curves = (self, *others)
        return self._each(lambda name: np.concatenate([getattr(one, name) for one in curves]))

    def _each(self, of: Callable[[str], Floats]) -> EngineCurve:
        """Return a curve with other figures: all but the states."""
        names = [item.name for item in fields(self) if item.name != "states"]
        return replace(self, **{name: of(name) for name in names})


@record
class Arrivals:
    """How requests arrive at one engine, and how their lengths spread."""

    rate_per_s: Floats
    """One for each engine. [requests/s]"""
    arrival_scv: float = 1.0
    """Squared coefficient of variation of the times between them; 1 for Poisson."""
    prompt_scv: float = 0.0
    """The same of prompt lengths."""
    chunk_scv: float = 0.0
    """The same as later tokens of others meet them: 0 where nobody states lengths, since engines
    cut long prompts into chunks."""
    answer_scv: float = 0.0
    """The same of answer lengths."""
    output_tokens: float = 256.0
    """Of an answer. [tokens]"""


def queued(curve: EngineCurve, arrivals: Arrivals) -> Queued:
    """Return the steady state of engines under arrivals.

    The number of requests in flight is a birth-death process with the completions of the curve
    (``equations.queueing``). A request waits for the end of the running step and for the prompts
    before it, then rides with the prompts that arrived with it; beyond the engine's limit it waits
    for another to leave. Later tokens share their steps with the prompts that arrive
    (``equations.shared_steps``). The tails are gamma distributions of the same mean and variance.
    """
    rate, most = arrivals.rate_per_s, curve.completions_per_s[:, -1]
    none, some, beyond = state_probabilities(
        states=curve.states,
        completions_per_s=curve.completions_per_s,
        rate_per_s=rate,
        arrival_scv=arrivals.arrival_scv,
        answer_scv=arrivals.answer_scv,
    )
    # What waits outside is in the last state for those inside.
    some = some.copy()
    some[:, -1] += beyond
    outside = (some * (curve.states >= curve.limit[:, None])).sum(axis=1)
    held, some = _reached(curve, some)
    # Bursts lengthen the wait of those that find the engine full.
    variation = (arrivals.arrival_scv + arrivals.answer_scv) / 2
    drain = variation / np.maximum(most - rate, 1e-300)
    steps = _steps(held, arrivals)
    ttft, varied, ttft_at = _first_token_times(held, steps, none, some, arrivals)
    tpot, tpot_at = _token_times(
        arrivals, steps, some * held.completions_per_s, waited_s=ttft, waited_variance=varied
    )
    stable = (rate < most) & (curve.limit >= 1)
    inside = np.minimum(held.states, curve.limit[:, None])

    def known(values: Floats) -> Floats:
        return np.where(stable, values, np.inf)

    return Queued(
        stable=stable,
        load=rate / np.maximum(most, 1e-300),
        rate_per_s=rate,
        in_flight=np.where(stable, (some * inside).sum(axis=1), curve.limit),
        outside=np.where(stable, outside, 1.0),
        ttft_s=known(ttft + outside * drain),
        tpot_s=known(tpot),
        ttft_at={
            name: known(value + tail_quantile_s(waiting=outside, mean_s=drain, share=share))
            for (name, share), value in zip(PERCENTILES.items(), ttft_at, strict=True)
        },
        tpot_at={name: known(value) for name, value in zip(PERCENTILES, tpot_at, strict=True)},
        full_tpot_s=curve.tpot_s[:, -1],
        busier=lambda factor, rows: queued(
            curve.take(rows), replace(arrivals, rate_per_s=rate[rows] * factor)
        ),
    )


def within_limit(curve: EngineCurve) -> EngineCurve:
    """Return engines whose figures beyond their limit are those at it."""
    limit = np.minimum(curve.limit, curve.states[-1])[:, None]
    last = np.argmax(curve.states >= limit, axis=1)[:, None]
    below = np.maximum(last - 1, 0)
    gap = np.maximum(curve.states[last] - curve.states[below], 1.0)
    part = np.where(last > 0, (limit - curve.states[below]) / gap, 1.0)
    beyond = np.arange(len(curve.states)) >= last

    def held(values: Floats) -> Floats:
        low, high = (np.take_along_axis(values, place, 1) for place in (below, last))
        return np.where(beyond, low + part * (high - low), values)

    return replace(
        curve,
        completions_per_s=np.maximum.accumulate(held(curve.completions_per_s), axis=1),
        tpot_s=held(curve.tpot_s),
        step_s=held(curve.step_s),
        first_token_s=held(curve.first_token_s),
        prompt_extra_s=held(curve.prompt_extra_s),
    )


def _reached(curve: EngineCurve, some: Floats) -> tuple[EngineCurve, Floats]:
    """Return engines and probabilities without the states that none of them reaches."""
    reached = np.flatnonzero(some.max(axis=0, initial=0.0) > NEVER)
    kept = max(int(reached[-1]) + 1 if len(reached) else 0, 2)
    trimmed = {
        item.name: value[..., :kept]
        for item in fields(curve)
        if (value := getattr(curve, item.name)) is curve.states or np.ndim(value) == 2
    }
    return replace(curve, **trimmed), some[:, :kept]


@record
class _Steps:
    """Steps of engines under arrivals, by state."""

    plain_s: Floats
    """Without prompts. [s]"""
    prompt_s: Floats
    """What a prompt adds. [s]"""
    longest_s: Floats
    """Full of prompts. [s]"""
    seen_s: Floats
    """Into which an arrival falls, on average. [s]"""
    seen_variance: Floats
    prompt_scv: Floats
    """Squared coefficient of variation of what a prompt adds."""
    chunk_scv: Floats
    """The same of what it adds to later tokens of others."""


def _steps(curve: EngineCurve, arrivals: Arrivals) -> _Steps:
    step, extra = curve.step_s, curve.prompt_extra_s
    longest = step + curve.slots_per_step[:, None] * extra
    share = np.minimum(curve.length_s[:, None] / np.maximum(extra, 1e-12), 1.0)
    scv, cut = (each * np.square(share) for each in (arrivals.prompt_scv, arrivals.chunk_scv))
    seen, varied = gated_cycle_s(
        step_s=step,
        prompt_s=extra,
        rate_per_s=arrivals.rate_per_s[:, None],
        prompt_scv=scv,
    )
    short = np.minimum(1.0, longest / seen)
    return _Steps(step, extra, longest, seen * short, varied * np.square(short), scv, cut)


def _token_times(
    arrivals: Arrivals, steps: _Steps, lived: Floats, *, waited_s: Floats, waited_variance: Floats
) -> tuple[Floats, Iterator[Floats]]:
    """Return the time per token: its mean, and its value at each percentile.

    Requests are counted where they complete (``lived``): one that meets many others is there for
    longer. What prompts add is a gamma distribution, cut off where they fill every step.
    """
    common = {
        "step_s": steps.plain_s,
        "prompt_s": steps.prompt_s,
        "rate_per_s": arrivals.rate_per_s[:, None],
    }
    added = np.asarray(
        added_time_s(
            **common,
            waited_s=waited_s[:, None],
            seen_step_s=steps.seen_s,
            arrival_scv=arrivals.arrival_scv,
            output_tokens=arrivals.output_tokens,
        )
    )
    each = token_time_variance(
        **common,
        waited_variance=waited_variance[:, None],
        prompt_scv=steps.chunk_scv,
        arrival_scv=arrivals.arrival_scv,
        output_tokens=arrivals.output_tokens,
    )
    room = steps.longest_s - steps.plain_s
    tpot = steps.plain_s + within_step_s(added_s=added, most_s=room)
    counted = np.maximum(lived.sum(axis=1), 1e-300)
    mean, plain, most, unbounded, random = (
        (lived * values).sum(axis=1) / counted
        for values in (tpot, steps.plain_s, room, added, each)
    )
    # Alone, an engine waits for a whole prompt, which no state beside it does.
    rising = np.minimum.accumulate(tpot[:, ::-1], axis=1)[:, ::-1]
    high = weighted_quantile(rising, lived, PERCENTILES["p95"]) - mean
    variance = random + np.square(LIFETIME_SHARE * high / SIGMAS["p95"])
    unbounded = np.maximum(unbounded, 1e-12)
    return mean, (
        plain + np.minimum(gamma_quantile(unbounded, variance, SIGMAS[name]), most)
        for name in PERCENTILES
    )


def _first_token_times(
    curve: EngineCurve, steps: _Steps, none: Floats, some: Floats, arrivals: Arrivals
) -> tuple[Floats, Floats, Iterator[Floats]]:
    """Return the time to the first token inside the engine: mean, variance, and each percentile."""
    wait, spread = _prompt_wait(curve, arrivals, steps, some)
    alone, later = curve.first_token_s[:, 0], curve.first_token_s + wait
    mean = none * alone + (some * later).sum(axis=1)
    square = none * alone**2 + (some * (np.square(later) + spread)).sum(axis=1)
    variance = np.maximum(square - mean**2, 0.0)
    varying = np.minimum(curve.length_s, curve.prompt_extra_s[:, 0])
    shift = alone - (varying if arrivals.prompt_scv > 0 else 0.0)
    above = np.maximum(mean - shift, 1e-9)
    tails = (shift + gamma_quantile(above, variance, SIGMAS[name]) for name in PERCENTILES)
    return mean, variance, tails


def _prompt_wait(
    curve: EngineCurve, arrivals: Arrivals, steps: _Steps, some: Floats
) -> tuple[Floats, Floats]:
    """Return mean and variance of the wait for the running step and for prompts, by state.

    An engine whose steps carry one prompt is a queue with one server, one whose steps carry all
    that wait is gated service. The places of a step that others can fill weigh the two. Only
    arrivals that find a request wait, and no more requests wait than are in flight (``some``).
    """
    rate, prompt_scv = arrivals.rate_per_s[:, None], steps.prompt_scv
    step, extra, seen = steps.plain_s, steps.prompt_s, steps.seen_s
    together = 1 - 1 / np.maximum(curve.slots_per_step[:, None], 1.0)
    work = np.minimum(rate * extra, MOST_READ)
    service = step / curve.slots_per_step[:, None] + extra

    def one_server(service_s: Floats) -> Number:
        return many_servers_wait_s(
            servers=1.0,
            service_s=service_s,
            load=np.minimum(rate * service_s, MOST_READ),
            arrival_scv=arrivals.arrival_scv,
            service_scv=prompt_scv,
        )

    # Gated service counts the prompts before a request already. A missing link makes both infinite.
    with np.errstate(invalid="ignore"):
        queue = one_server(service) - together * one_server(extra)
    busy = np.maximum(some.sum(axis=1), NEVER)[:, None]
    queue = np.clip(queue, 0.0, (some * curve.states).sum(axis=1)[:, None] * service)
    # The second moment of the wait for one server (Takacs 1962), as for M/G/1.
    load = np.minimum(rate * service, MOST_READ)
    third = (1 - together) * load * np.square(service) * (1 + prompt_scv) ** 3 / (3 * (1 - load))
    varied_queue = (2 * np.square(queue) + third) / busy - np.square(queue / busy)
    queue = queue / busy
    burst = extra * (arrivals.arrival_scv - 1) / 8 * (1 + 3 * together) / (1 - work)
    rest = together * seen + (1 - together) * step
    ahead = curve.steps_ahead[:, None] * step / (1 - work)
    wait = np.maximum(rest / 2 + ahead + together * work * seen + queue + burst, 0.0)
    varied = steps.seen_variance
    spread = (np.square(rest) + varied) / 12 + varied * (0.5 + work) ** 2
    spread = spread + together * work * seen * extra * (1 + prompt_scv)
    spread = spread + np.square(extra) * prompt_scv + varied_queue + 1.5 * np.square(burst)
    return wait, spread
