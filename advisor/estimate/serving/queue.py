"""A serving engine under a stated rate of requests: load, requests in flight and latencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.equations.queueing import (
    gamma_quantile,
    gated_cycle_s,
    many_servers_wait_s,
    state_probabilities,
    tail_quantile_s,
    weighted_quantile,
)
from advisor.estimate.candidates import Floats

PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
SIGMAS: Final = {"p50": 0.0, "p95": 1.6448536269514722, "p99": 2.3263478740408408}
"""The same percentiles of the normal distribution. [sigmas]"""
LIFETIME_SHARE: Final = float(np.sqrt(2 / 3))
"""Spread of a mean over one request's lifetime, over that of the state at one moment. Requests of
equal length are in flight together for a time that falls linearly to 0 after one lifetime, and the
mean of such a correlation, squared weights included, is 2/3."""


@dataclass(frozen=True, slots=True)
class EngineCurve:
    """Engines in each number of requests in flight: one row each, one column for each state."""

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
    limit: Floats
    """Most requests in flight. One for each row."""
    need_bytes: Floats
    """Most memory that one request needs, and what is usable. One for each row. [bytes]"""
    usable_bytes: Floats

    @property
    def slots(self) -> Floats:
        """Prompts that share a full step, at least 1."""
        return np.maximum(self.slots_per_step, 1.0)

    @property
    def most_per_s(self) -> Floats:
        """Most that each engine completes within its limit. [requests/s]"""
        within = self.states <= np.maximum(self.limit, 1.0)[:, None]
        return np.asarray(np.where(within, self.completions_per_s, 0.0).max(axis=1))

    def take(self, rows: NDArray[np.intp]) -> EngineCurve:
        """Return the selected engines."""
        return replace(
            self,
            **{
                item.name: getattr(self, item.name)[rows]
                for item in fields(self)
                if item.name != "states"
            },
        )

    def beside(self, other: EngineCurve) -> EngineCurve:
        """Return these engines with others after them."""
        return replace(
            self,
            **{
                item.name: np.concatenate([getattr(self, item.name), getattr(other, item.name)])
                for item in fields(self)
                if item.name != "states"
            },
        )


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrive at one engine, and how their lengths spread."""

    rate_per_s: Floats
    """One for each engine. [requests/s]"""
    arrival_scv: float = 1.0
    """Squared coefficient of variation of the times between them; 1 for Poisson."""
    prompt_scv: float = 0.0
    """The same of prompt lengths."""
    answer_scv: float = 0.0
    """The same of answer lengths."""
    output_tokens: float = 256.0
    """Of an answer. [tokens]"""


@dataclass(frozen=True, slots=True)
class Queued:
    """Steady state of engines under arrivals, one element each."""

    stable: NDArray[np.bool_]
    """Whether the engine keeps up; otherwise all times are infinite."""
    load: Floats
    """Arrivals over the most that the engine completes."""
    rate_per_s: Floats
    """Arrivals. [requests/s]"""
    in_flight: Floats
    """Mean number of requests in the engine."""
    outside: Floats
    """Share of requests that wait for another to leave the engine."""
    ttft_s: Floats
    """Mean. [s]"""
    tpot_s: Floats
    """Mean. [s]"""
    ttft_at: dict[str, Floats]
    """By percentile. [s]"""
    tpot_at: dict[str, Floats]
    """By percentile. [s]"""

    def latencies(self, at: str) -> tuple[Floats, Floats]:
        """Return time per token and time to the first, of the mean or at a percentile. [s]"""
        if at in PERCENTILES:
            return self.tpot_at[at], self.ttft_at[at]
        return self.tpot_s, self.ttft_s


def queued(curve: EngineCurve, arrivals: Arrivals) -> Queued:
    """Return the steady state of engines under arrivals.

    Parameters
    ----------
    curve : EngineCurve
        Of engines in a closed system.
    arrivals : Arrivals
        At each engine.

    Notes
    -----
    The number of requests in flight is a birth-death process with the completions of the curve
    (``equations.queueing``). A request waits for the end of the running step, then rides with the
    prompts that arrived with it (gated service); full steps of prompts are servers of their own;
    beyond the engine's limit it waits for another to leave. The tail of the time to the first
    token is a gamma distribution of the same mean and variance.
    """
    held = _within_limit(curve)
    rate, most = arrivals.rate_per_s, held.completions_per_s[:, -1]
    none, some, beyond = state_probabilities(
        states=curve.states,
        completions_per_s=held.completions_per_s,
        rate_per_s=rate,
        arrival_scv=arrivals.arrival_scv,
        answer_scv=arrivals.answer_scv,
    )
    # What waits outside is in the last state for those inside.
    some = some.copy()
    some[:, -1] += beyond
    tpot, tpot_at = _token_times(held, some, arrivals)
    outside = (some * (curve.states >= curve.limit[:, None])).sum(axis=1)
    # Bursts lengthen the wait of those that find the engine full.
    variation = (arrivals.arrival_scv + arrivals.answer_scv) / 2
    drain = variation / np.maximum(most - rate, 1e-300)
    ttft, ttft_at = _first_token_times(held, none, some, arrivals)
    stable = (rate < most) & (curve.limit >= 1)
    inside = np.minimum(curve.states, curve.limit[:, None])

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
    )


def _within_limit(curve: EngineCurve) -> EngineCurve:
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


def _token_times(
    curve: EngineCurve, some: Floats, arrivals: Arrivals
) -> tuple[Floats, Iterator[Floats]]:
    """Return the time per token: its mean, and its value at each percentile."""
    # Requests are counted where they complete: one that meets many others is there for longer.
    lived = some * curve.completions_per_s
    counted = np.maximum(lived.sum(axis=1), 1e-300)
    mean = (lived * curve.tpot_s).sum(axis=1) / counted
    # Prompts of others fall into one lifetime in a random number.
    prompts = (lived * np.square(curve.prompt_extra_s)).sum(axis=1) / counted
    random = (
        prompts * (1 + arrivals.prompt_scv) * mean * arrivals.rate_per_s / arrivals.output_tokens
    )
    rising = np.maximum.accumulate(curve.tpot_s, axis=1)

    def at(name: str, share: float) -> Floats:
        value = LIFETIME_SHARE * (weighted_quantile(rising, lived, share) - mean)
        further = SIGMAS[name] * np.sqrt(random)
        return np.asarray(mean + (np.hypot(value, further) if SIGMAS[name] else value))

    return mean, (at(name, share) for name, share in PERCENTILES.items())


def _first_token_times(
    curve: EngineCurve, none: Floats, some: Floats, arrivals: Arrivals
) -> tuple[Floats, Iterator[Floats]]:
    """Return the time to the first token inside the engine: its mean, and at each percentile."""
    wait, spread = _prompt_wait(curve, arrivals)
    alone, later = curve.first_token_s[:, 0], curve.first_token_s + wait
    mean = none * alone + (some * later).sum(axis=1)
    square = none * alone**2 + (some * (np.square(later) + spread)).sum(axis=1)
    variance = np.maximum(square - mean**2, 0.0)
    shift = alone - (curve.prompt_extra_s[:, 0] if arrivals.prompt_scv > 0 else 0.0)
    above = np.maximum(mean - shift, 1e-9)
    return mean, (shift + gamma_quantile(above, variance, SIGMAS[name]) for name in PERCENTILES)


def _prompt_wait(curve: EngineCurve, arrivals: Arrivals) -> tuple[Floats, Floats]:
    """Return mean and variance of the wait for the running step and for prompts, by state."""
    step, extra = curve.step_s, curve.prompt_extra_s
    rate, prompt_scv = arrivals.rate_per_s[:, None], arrivals.prompt_scv
    seen, varied = gated_cycle_s(
        step_s=step, prompt_s=extra, rate_per_s=rate, prompt_scv=prompt_scv
    )
    work = np.minimum(rate * extra, 0.99)
    slots = curve.slots[:, None]
    together = 1 - 1 / slots
    service = step / curve.slots_per_step[:, None] + extra
    queue = many_servers_wait_s(
        servers=slots,
        service_s=slots * service,
        load=np.minimum(rate * service, 0.99),
        arrival_scv=arrivals.arrival_scv,
        service_scv=prompt_scv,
    )
    queue = np.minimum(queue, curve.states * service)
    burst = extra * (arrivals.arrival_scv - 1) / 4 * (1 + together) / (1 - work)
    # A prompt that fills a step is waited for as such: only the rest of a plain step comes first.
    rest = together * seen + (1 - together) * step
    wait = np.maximum(rest / 2 + together * work * seen + queue + burst, 0.0)
    spread = (np.square(rest) + varied) / 12 + varied * (0.5 + work) ** 2
    spread = spread + together * work * seen * extra * (1 + prompt_scv)
    spread = spread + np.square(extra) * prompt_scv + np.square(queue) + np.square(burst)
    return wait, spread
