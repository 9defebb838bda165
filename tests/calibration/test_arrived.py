"""Rows at which requests arrive at a stated rate, and rows that state a percentile."""

from __future__ import annotations

from statistics import median

import pytest

from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.deployments import as_run, row_deployment
from advisor.calibration.tables.reading import Row, shipped_rows
from advisor.calibration.tables.serving_rows import predict_serving_row
from advisor.errors import InputError

ROW = Row(
    {
        "id": "r",
        "source": "s",
        "kind": "llm_online",
        "model": "llama-3.1-8b",
        "weight_precision": "bf16",
        "accelerator": "h100-sxm",
        "engine": "vllm",
        "input_tokens": "1000",
        "output_tokens": "200",
        "ttft_ms": "50",
        "tpot_ms": "10",
        "primary_quantity": "ttft_ms",
        "secondary_quantity": "tpot_ms",
        "arrival": "poisson",
        "requests_per_s": "10",
    }
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return shipped_engine()


def times(engine: Engine, **cells: str) -> tuple[float, float]:
    """Return time to the first token and per token. [ms]"""
    first, token = predict_serving_row(ROW | cells, engine)
    return first.expected, token.expected


def test_published_latencies_at_a_rate(engine: Engine) -> None:
    """Nine runs of vLLM at 1 to 16 requests/s (gpustack, Qwen3.5-9B on H100)."""
    rows = [
        row
        for row in shipped_rows("loaded_runs.csv")
        if row["arrival"] == "constant" and row["engine"] == "vllm"
    ]
    found = [each for row in rows for each in predict_serving_row(row, engine)]
    assert len(rows) == 9
    for quantity in ("ttft_ms", "latency_ms"):
        errors = [abs(each.error_pct) for each in found if each.quantity == quantity]
        assert median(errors) < 15


def test_percentiles_are_in_order(engine: Engine) -> None:
    firsts, tokens = zip(
        *(times(engine, percentile=name) for name in ("p50", "p95", "p99")), strict=True
    )
    assert list(firsts) == sorted(set(firsts))
    assert list(tokens) == sorted(set(tokens))


def test_bursty_requests_wait_longer_than_even_ones(engine: Engine) -> None:
    even, own, bursty = (
        times(engine, arrival=how, requests_per_s="20")[0]
        for how in ("constant", "poisson", "bursty")
    )
    assert even < own < bursty


def test_beyond_what_an_engine_serves_the_wait_grows_with_the_run(engine: Engine) -> None:
    short, long = (
        times(engine, requests_per_s="500", burst_requests=number)[0] for number in ("500", "5000")
    )
    # Nearly all of the wait is the queue's, which grows by the same time with each request.
    assert long / short == pytest.approx(10, rel=0.1)


def test_the_slowest_of_a_closed_loop_came_with_the_first_wave(engine: Engine) -> None:
    mean, slowest = (
        times(engine, arrival="closed", concurrency="64", percentile=name)[0]
        for name in ("mean", "p99")
    )
    assert slowest > 2 * mean


def test_a_scheduler_that_looks_for_requests_after_some_steps_lets_them_wait(
    engine: Engine,
) -> None:
    load = {"arrival": "closed", "concurrency": "16", "burst_requests": "160"}
    # Answers of 4,000 tokens: hardly another prompt comes meanwhile.
    load |= {"output_tokens": "4000"}
    few, many = (times(engine, **load, gathering_steps=steps) for steps in ("5", "15"))
    assert many[0] - few[0] == pytest.approx(10 * many[1], rel=0.1)


def test_one_request_at_a_server_that_is_started_as_its_guide_says(engine: Engine) -> None:
    """SGLang's cookbook, without doubts: general kernels of experts, and dense models."""
    rows = [
        row
        for table in ("server_pages.csv", "outside_server_pages.csv")
        for row in shipped_rows(table)
        if (row["engine"], row["concurrency"]) == ("sglang", "1") and not row["excluded_from_fit"]
    ]
    errors = {
        quantity: [
            abs(each.error_pct)
            for row in rows
            for each in predict_serving_row(row, engine)
            if each.quantity == quantity
        ]
        for quantity in ("tpot_ms", "ttft_ms")
    }
    assert len(errors["tpot_ms"]) >= 10
    assert median(errors["tpot_ms"]) < 12
    assert median(errors["ttft_ms"]) < 35


def test_prompts_of_answers_that_end_together_share_a_step(engine: Engine) -> None:
    """Qwen3-32B under SGLang on H100, all prompts and answers of one length."""
    rows = [
        row
        for row in shipped_rows("serving_runs.csv")
        if (row["engine"], row["model"], row["lengths"]) == ("sglang", "Qwen3-32B", "equal")
    ]
    found = [each for row in rows for each in predict_serving_row(row, engine)]
    assert len(rows) >= 30
    assert median(abs(each.error_pct) for each in found if each.quantity == "tpot_ms") < 10


def test_runs_that_predicted_tokens_are_those_of_such_configurations() -> None:
    """Pairs of runs of one day and one setting: the one with the heads writes faster."""
    rows = [
        row
        for row in shipped_rows("serving_runs.csv")
        if row["engine"] == "sglang" and row["measured_date"] == "2026-03-25"
    ]
    settings = (
        *("model", "weight_precision", "concurrency", "input_tokens", "output_tokens"),
        *("num_accelerators", "expert_parallel"),
    )
    kinds = {
        word: {
            tuple(row[name] for name in settings): float(row["tpot_ms"])
            for row in rows
            if row["speculation"] == word
        }
        for word in ("", "mtp")
    }
    pairs = [(kinds[""][key], token) for key, token in kinds["mtp"].items() if key in kinds[""]]
    assert len(pairs) >= 5
    assert all(1.05 < plain / heads < 2 for plain, heads in pairs)


def test_the_last_of_a_burst_waits_nearly_twice_as_long_as_the_mean(engine: Engine) -> None:
    mean, slowest = (
        times(engine, arrival="burst", burst_requests="4000", percentile=name)[0]
        for name in ("mean", "p99")
    )
    assert slowest / mean == pytest.approx(2 * 0.99, rel=0.1)


def test_other_percentiles_are_refused(engine: Engine) -> None:
    with pytest.raises(InputError, match="unknown percentile"):
        times(engine, percentile="p42")


@pytest.mark.parametrize(
    ("cells", "limits"),
    [
        ({}, (8192, 1024)),
        # vllm-project/vllm, pull 17885: large steps cost the A100 throughput.
        ({"accelerator": "a100-sxm-80gb"}, (2048, 256)),
        ({"accelerator": "a100-sxm-80gb", "step_tokens": "4096"}, (4096, 256)),
        ({"accelerator": "a100-sxm-80gb", "engine": "sglang"}, (8192, 1024)),
    ],
)
def test_vllm_keeps_its_steps_small_on_a100(
    engine: Engine, cells: dict[str, str], limits: tuple[int, int]
) -> None:
    facts = row_deployment(ROW | cells, engine).engine
    assert (facts.batched_tokens, facts.sampled_sequences) == limits


BURST = ROW | {
    "arrival": "burst",
    "burst_requests": "500",
    "input_tokens": "1000",
    "output_tokens": "2000",
    "total_output_tokens_per_s": "1",
    "primary_quantity": "total_output_tokens_per_s",
    "secondary_quantity": "ttft_ms",
}


def test_answers_of_one_length_have_no_long_tail(engine: Engine) -> None:
    """The longest of 500 exponential answers is 6.8 times their mean (the sum of 1 / k)."""
    unlike, equal = (
        predict_serving_row(BURST | {"lengths": lengths}, engine)[0].expected
        for lengths in ("", "equal")
    )
    assert unlike < equal < 6.8 * unlike


def test_chats_that_are_rendered_first_start_late(engine: Engine) -> None:
    """1,000 chats started 6 to 8 s late under vLLM before its pull 20065."""
    chats = BURST | {"burst_requests": "1000", "input_tokens": "128", "output_tokens": "4"}
    early, late = (
        predict_serving_row(chats | {"template_s": seconds}, engine)[1].expected
        for seconds in ("", "0.007")
    )
    assert 6000 < late - early < 8000


def test_clients_beyond_the_slots_of_a_server_wait_for_an_answer(engine: Engine) -> None:
    """llama-server -np 8: 16 clients wait for one answer, 32 for three (LottoLotto, 4 x RTX 3090).

    There the first token came after 0.53 s for 8 clients, 9.6 s for 16 and 31.4 s for 32, with
    36 to 40 ms for each of the 256 tokens.
    """
    row = ROW | {
        "engine": "llama_cpp",
        "backend": "cuda",
        "weight_precision": "gguf_q4_k_m",
        "accelerator": "rtx-3090",
        "input_tokens": "512",
        "output_tokens": "256",
        "requests_per_s": "",
        "arrival": "closed",
        "slots": "8",
    }
    (eight, token), (sixteen, _), (most, _) = (
        [each.expected for each in predict_serving_row(row | {"concurrency": clients}, engine)]
        for clients in ("8", "16", "32")
    )
    answer = 255 * token
    assert sixteen - eight == pytest.approx(answer, rel=0.1)
    assert most - eight == pytest.approx(3 * answer, rel=0.1)


def test_ranges_go_through_the_queue(engine: Engine) -> None:
    """Near capacity, the range of a tail is far wider than that of the steps."""
    few, many = (
        predict_serving_row(ROW | {"requests_per_s": rate, "percentile": "p99"}, engine)[1]
        for rate in ("1", "16")
    )
    assert many.high / many.expected > 1.5 * few.high / few.expected


SATURATED = ROW | {
    "kind": "llm_saturated",
    "engine": "tensorrt_llm",
    "arrival": "",
    "requests_per_s": "",
    "lengths": "equal",
    "total_output_tokens_per_s": "1",
    "primary_quantity": "total_output_tokens_per_s",
    "secondary_quantity": "",
}


def rate(engine: Engine, **cells: str) -> float:
    """Return the output tokens per second of a full engine."""
    (found,) = predict_serving_row(SATURATED | cells, engine)
    return found.expected


def test_a_known_number_of_requests_may_not_fill_the_engine(engine: Engine) -> None:
    """Few requests leave places empty, and many are like an endless load."""
    endless = rate(engine, lengths="")
    few, many = (rate(engine, burst_requests=number) for number in ("50", "100000"))
    assert few < 0.7 * endless
    assert many == pytest.approx(endless, rel=0.1)


def test_stages_read_prompts_at_the_same_time(engine: Engine) -> None:
    """Llama 3.3 70B in NVFP4 on one to eight RTX PRO 6000 (NVIDIA's documentation of 1.0)."""
    published = {1: 393, 2: 813, 4: 1511, 8: 2495}
    rows = [
        as_run(row)
        for row in shipped_rows("serving_runs.csv")
        if row["id"].startswith("trt1.0-RTX6000Pro-Llama-3.3-70B-tp1")
        and row["id"].endswith("-2048x128")
    ]
    found = {row.integer("num_accelerators", 1): predict_serving_row(row, engine) for row in rows}
    assert {cards: each.measured for cards, (each,) in found.items()} == published
    for cards, (each,) in found.items():
        gain = each.expected / found[1][0].expected
        assert gain == pytest.approx(published[cards] / published[1], rel=0.2)


def test_four_bit_experts_on_data_centre_blackwell(engine: Engine) -> None:
    """Kimi K2.5 in int4 on eight B200 is hardly faster than on eight H200 (InferenceX, vLLM)."""
    rows = [
        as_run(row)
        for row in shipped_rows("serving_runs.csv")
        if row["architecture_key"] == "moonshotai__Kimi-K2.5"
        and row["weight_precision"] == "w4a16_gptq"
        and row["accelerator"] == "b200-sxm"
    ]
    found = [each for row in rows for each in predict_serving_row(row, engine)]
    assert len(rows) == 15
    for quantity in ("tpot_ms", "ttft_ms"):
        errors = [abs(each.error_pct) for each in found if each.quantity == quantity]
        assert median(errors) < 15
