import math
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from advisor.equations.collectives import direct_all_reduce_time_s
from advisor.equations.flops import attended_keys
from advisor.equations.serving.bursts import in_step_wait_s, start_burst_s
from advisor.equations.serving.engine import (
    cache_share,
    experts_touched,
    mean_attended_tokens,
    prefill_wait_s,
    request_rate_per_s,
    time_per_output_token_s,
)

times = st.floats(1e-4, 10.0)
counts = st.integers(1, 1000)


@pytest.mark.parametrize(
    ("heads", "tensor", "share"),
    [(8, 1, 1.0), (8, 4, 0.25), (8, 8, 0.125), (8, 16, 0.125), (4, 8, 0.25), (1, 8, 1.0)],
)
def test_heads_are_replicated_not_split(heads: int, tensor: int, share: float) -> None:
    assert cache_share(heads=heads, tensor_parallel=tensor) == share


def test_uneven_heads_fill_the_fullest_rank() -> None:
    # Ten heads over four ranks: 3 + 3 + 2 + 2.
    assert cache_share(heads=10, tensor_parallel=4) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("first", "last", "window", "mean"),
    [
        (0, 1000, math.inf, 500),
        (1000, 2000, math.inf, 1500),
        (0, 1000, 1000, 500),
        (1000, 2000, 1000, 1000),
        # Grows for 100 tokens (mean 50), then stays at 100 for 300.
        (0, 400, 100, (100 * 50 + 300 * 100) / 400),
    ],
)
def test_mean_context(first: float, last: float, window: float, mean: float) -> None:
    assert mean_attended_tokens(first=first, last=last, window=window) == pytest.approx(mean)


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_prefill_agrees_with_the_training_equation(length: int, window: int) -> None:
    mean = mean_attended_tokens(first=0.0, last=float(length), window=float(window))
    trained = attended_keys(sequence_length=float(length), window=float(window), causal=True)
    assert mean == pytest.approx(trained)


def test_experts_touched_by_counting() -> None:
    # Two tokens, one of two experts each: the same one half of the time.
    assert experts_touched(experts=2, active_experts=1, tokens=2) == pytest.approx(1.5)
    # Mixtral, two of eight: 8 x (1 - 0.75^2).
    assert experts_touched(experts=8, active_experts=2, tokens=2) == pytest.approx(3.5)


def test_a_large_batch_touches_all_experts() -> None:
    assert experts_touched(experts=256, active_experts=8, tokens=4096) == pytest.approx(256)


def test_direct_all_reduce_moves_what_a_ring_moves() -> None:
    # 8 KiB on eight H100 take 3.5 to 5.1 us (aiconfigurator all-reduce table); the wire alone
    # would take 2 x 7/8 x 8192 / 450e9 = 32 ns.
    time = direct_all_reduce_time_s(
        message_bytes=8192, ranks=8, bytes_per_s=450e9, latency_s=1.8e-6
    )
    assert time == pytest.approx(3.63e-6, rel=1e-2)


def test_one_rank_reduces_for_free() -> None:
    assert direct_all_reduce_time_s(message_bytes=1e9, ranks=1, bytes_per_s=1, latency_s=1) == 0


def test_rate_without_prompts_is_batch_over_decoding() -> None:
    # Ten requests, 100 steps of 10 ms, free prompts: 10 per second.
    rate = request_rate_per_s(
        concurrency=10,
        decode_step_s=0.01,
        prefill_extra_s=0.0,
        first_token_s=0.01,
        output_tokens=100,
    )
    assert rate == pytest.approx(10.0)


@given(counts, times, times, times, st.integers(2, 1000))
def test_rate_obeys_littles_law(
    concurrency: int, step: float, extra: float, beside: float, output: int
) -> None:
    first = beside + extra
    rate = request_rate_per_s(
        concurrency=concurrency,
        decode_step_s=step,
        prefill_extra_s=extra,
        first_token_s=first,
        output_tokens=output,
    )
    busy = rate * extra
    assert 0 < busy < 1
    latency = first + (output - 1) * step / (1 - busy)
    # Close to saturation the difference 1 - busy has few digits left.
    assert rate * latency == pytest.approx(concurrency, rel=float(1e-9 / (1 - busy)))


def test_token_time_is_bounded_by_a_full_chunk() -> None:
    common = {"decode_step_s": 0.01, "prefill_extra_s": 0.1}
    light = time_per_output_token_s(**common, request_rate_per_s=5.0, steps=1.0)
    assert light == pytest.approx(0.02)
    heavy = time_per_output_token_s(**common, request_rate_per_s=50.0, steps=2.0)
    assert heavy == pytest.approx(0.06)


@given(counts, times, times)
def test_waiting_lies_between_none_and_all_others(
    concurrency: int, service: float, generation: float
) -> None:
    wait = prefill_wait_s(concurrency=concurrency, service_s=service, generation_s=generation)
    noise = 1e-9 * (service + generation)
    assert -noise <= wait <= (concurrency - 1) * service + noise


def test_waiting_by_mean_value_analysis() -> None:
    # Exact MVA of two customers: R = s (1 + s / (s + Z)) = 1.5 for s = Z = 1. Schweitzer's
    # approximation solves R^2 - R = 1, the golden ratio.
    wait = prefill_wait_s(concurrency=2, service_s=1.0, generation_s=1.0)
    assert wait == pytest.approx((1 + math.sqrt(5)) / 2 - 1)
    assert wait == pytest.approx(0.5, abs=0.12)


def test_regular_prompts_of_many_users_wait_as_pollaczek_and_khinchine_say() -> None:
    # M/D/1 at 60 % load: s rho / (2 (1 - rho)), half of what prompts of exponential length wait.
    many, load = 1e6, 0.6
    common = {"concurrency": many, "service_s": 1.0, "generation_s": many / load}
    assert prefill_wait_s(**common, variation=0.5) == pytest.approx(0.75, rel=1e-3)
    assert prefill_wait_s(**common) == pytest.approx(1.5, rel=1e-3)


def test_prompts_that_come_in_turn_wait_only_if_they_fill_the_engine() -> None:
    # 10 requests of which each prompt takes 1 s: a round lasts 10 s or more.
    common = {"concurrency": 10.0, "service_s": 1.0, "variation": 0.0}
    assert prefill_wait_s(**common, generation_s=12.0) == 0.0
    assert prefill_wait_s(**common, generation_s=3.0) == pytest.approx(5.0)


def test_burst_of_a_benchmark() -> None:
    # 64 prompts of 20 ms at once wait 0.63 s on average in the first of ten rounds.
    assert start_burst_s(concurrency=64, service_s=0.02, rounds=10) == pytest.approx(0.063)


def test_prompts_of_a_wave_wait_for_the_end_of_their_step() -> None:
    # Gemma 4 12B on one RTX 3090, prompts cached but for 16 tokens: 128 requests read in one step
    # have their first tokens together, after 1,243 ms (half of them) and 1,289 ms (99 %)
    # (LottoLottoLotto/4x3090-llm-benchmarks @bd22281, run orch/gemma-4-12B-it-AWQ-INT4).
    wave = {"concurrency": 128, "service_s": 0.02, "rounds": 1, "together": 128}
    half, late = (start_burst_s(**wave, further_s=0.009, share=share) for share in (0.5, 0.99))

    assert half == late == pytest.approx(127 * 0.009)


def test_half_of_the_requests_wait_as_in_a_run_whose_steps_read_four_prompts() -> None:
    # Qwen3.6 27B on four RTX 3090, prompts of 512 tokens, steps of 2,048, one prompt 0.51 s:
    # half of 4, 8 and 16 requests have their first token after 1.96, 3.03 and 4.83 s (the same
    # source, run orch/Qwen3.6-27B/vllm_Int4_tp4x1).
    wave = {"service_s": 0.51, "rounds": 1, "together": 4, "further_s": 0.51, "share": 0.5}
    waits = [0.51 + start_burst_s(concurrency=number, **wave) for number in (4, 8, 16)]

    assert waits == pytest.approx([1.96, 3.03, 4.83], rel=0.06)


def later_rounds_s(concurrency: int, *, together: int, prompt_s: float, rounds: int) -> float:
    """Simulate a closed loop of equal answers; mean time to the first token after round one.

    A step takes 10 ms and ``prompt_s`` for each of at most ``together`` prompts. 128 steps give an
    answer, and a client sends its next request 1 ms later.
    """
    env = simpy.Environment()
    waiting: list[dict[str, Any]] = []
    running: list[dict[str, Any]] = []
    first: list[float] = []

    def client() -> Generator[simpy.Event, Any, None]:
        for number in range(rounds):
            sent = env.now
            request: dict[str, Any] = {"left": 128, "ended": env.event()}
            waiting.append(request)
            started = yield request["ended"]
            if number:
                first.append(started - sent)
            yield env.timeout(1e-3)

    def engine() -> Generator[simpy.Event, Any, None]:
        while any(each.is_alive for each in clients):
            read = [waiting.pop(0) for _ in range(min(together, len(waiting)))]
            yield env.timeout(10e-3 + prompt_s * len(read) if read or running else 1e-4)
            for request in read:
                request["started"] = env.now
            running.extend(read)
            for request in running[:]:
                request["left"] -= 1
                if not request["left"]:
                    running.remove(request)
                    request["ended"].succeed(request["started"])

    clients = [env.process(client()) for _ in range(concurrency)]
    env.run(env.process(engine()))
    return float(np.mean(first))


@pytest.mark.parametrize("concurrency", [2, 8, 16, 32, 64])
def test_equal_answers_meet_their_step_again_as_in_a_simulation(concurrency: int) -> None:
    # vLLM on cards with steps of 2,048 tokens reads eight prompts of 256 tokens together.
    together = min(8, concurrency)
    wait = in_step_wait_s(
        concurrency=float(concurrency), service_s=0.03, together=float(together), further_s=0.03
    )

    simulated = later_rounds_s(concurrency, together=8, prompt_s=0.03, rounds=3)
    # The prompt alone, and half of the step that it arrives in.
    assert 0.04 + 0.005 + wait == pytest.approx(simulated, rel=1 / 7)


def test_arrays_equal_scalars() -> None:
    concurrency = np.array([1.0, 8.0, 64.0])
    together = prefill_wait_s(concurrency=concurrency, service_s=0.1, generation_s=2.0)
    alone = [
        prefill_wait_s(concurrency=float(one), service_s=0.1, generation_s=2.0)
        for one in concurrency
    ]
    assert together == pytest.approx(alone)
