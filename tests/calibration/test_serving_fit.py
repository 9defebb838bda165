"""What engines add: fitted on runs whose constants are known, and the ranges they give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.calibration.fitting.serving import (
    DIRECT,
    HOSTS,
    SERVERS,
    EngineFit,
    engine_packs,
    fit_engine,
    folds_of,
    section_of,
    values_of,
    with_values,
)
from advisor.calibration.scoring.report import next_interval
from advisor.calibration.scoring.serving_errors import ServedReading, fit_serving_intervals
from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.served_runs import Reading, predicted_s
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.engines import joined_engines

HELD = {"step_overhead_s", "request_overhead_s"}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return shipped_engine()


def reading(source: str, model: str, quantity: str = "token", measured: float = 1.0) -> Reading:
    return Reading(
        id="r",
        source=source,
        group=f"llm_online | {model} | h100-sxm | vllm | bf16 | 1",
        quantity=quantity,
        measured_s=measured,
        row=0,
    )


def test_constants_behind_generated_times_come_back(engine):
    # SGLang's runs with times of an engine that is known: the fit must find its constants.
    truth = {"step_overhead_s": 2e-3, "request_overhead_s": 0.1, "start_wave": 0.2}
    calibration = engine.calibration
    fit = EngineFit(
        "sglang", ("llm_online",), tuple(one for one in SERVERS[0].parameters if one.name in truth)
    )
    packs = engine_packs(fit, engine)
    facts = with_values(calibration.serving, truth)
    times = iter(predicted_s(packs, calibration, [facts])[0].tolist())
    known = tuple(
        replace(pack, readings=tuple(replace(one, measured_s=next(times)) for one in pack.readings))
        for pack in packs
    )

    found = fit_engine(fit, calibration.serving, known, calibration)

    assert found == pytest.approx(truth, rel=0.03)


def test_a_constant_without_room_between_its_bounds_stays_there(engine):
    free, held = (one for one in SERVERS[0].parameters if one.name in HELD)
    held = replace(held, starts=(0.07,), low=0.07, high=0.07)
    packs = engine_packs(EngineFit("sglang", ("llm_online",), ()), engine)
    facts = engine.calibration.serving

    found = fit_engine(EngineFit("sglang", (), (free, held)), facts, packs, engine.calibration)

    assert found[held.name] == 0.07
    assert found[free.name] != free.starts[0]


def test_constants_of_kernels_stand_below_each_of_their_generations():
    values = {"layer_overhead_s": 1e-6, "RDNA2, RDNA3/expansion": 7.0, "default/compute": 0.5}

    assert section_of(values) == {
        "layer_overhead_s": 1e-6,
        "backends": {
            "RDNA2": {"expansion": 7.0},
            "RDNA3": {"expansion": 7.0},
            "default": {"compute": 0.5},
        },
    }


def test_constants_that_stand_in_the_file_are_found_by_name(engine):
    facts = engine.calibration.engines["llama_cpp_2024"]
    fit = next(item for item in DIRECT if item.name == "llama_cpp_2024")
    values = values_of(fit, facts)

    assert with_values(facts, values) == facts
    assert values["Hopper/compute"] == facts.backends["Hopper"].compute
    assert facts.backends["Hopper"].expansion == facts.backends["default"].expansion


def test_what_an_engine_leaves_out_is_as_in_serving():
    joined = joined_engines(
        {"step_overhead_s": 1.0, "layer_overhead_s": 2.0}, {"fast": {"step_overhead_s": 0.5}}
    )

    assert joined == {"fast": {"step_overhead_s": 0.5, "layer_overhead_s": 2.0, "backends": {}}}


def test_a_default_of_earlier_builds_reaches_the_cards_that_had_the_default():
    # DGX Spark states its own rates, not the launches of a recurrence, which CUDA builds of March
    # 2026 made one by one on every card.
    joined = joined_engines(
        {},
        {
            "today": {"backends": {"default": {"scan": 1, "rate": 2}, "Spark": {"rate": 3}}},
            "march": {"like": "today", "backends": {"default": {"scan": 5, "rate": 6}}},
        },
    )

    assert joined["march"]["backends"] == {
        "default": {"scan": 5, "rate": 6},
        "Spark": {"scan": 5, "rate": 3},
    }


def test_gguf_weights_are_served_by_llama_cpp(engine):
    calibration = engine.calibration

    assert calibration.engine_for(WEIGHT_FORMATS["q4_k_m"]).chunks_follow
    assert not calibration.engine_for(WEIGHT_FORMATS["w4a16"]).backends


def test_no_model_of_a_site_lies_in_two_parts():
    readings = [reading(site, model) for site in "ab" for model in "xyzuvw" for _ in range(2)]

    folds = folds_of(readings)

    assert len(set(folds)) == 4
    assert folds[0::2] == folds[1::2]


def test_a_run_that_the_table_excludes_has_no_part_in_a_fit(engine):
    # SGLang's runs as measured, and with a hundredfold outlier in each pack that is excluded.
    sglang = next(one for one in SERVERS if one.name == "sglang")
    fit = EngineFit(sglang.name, ("llm_online",), sglang.parameters[:1])
    packs = engine_packs(fit, engine)[:3]
    wrong = [
        replace(
            pack,
            readings=(
                replace(
                    pack.readings[0],
                    measured_s=100 * pack.readings[0].measured_s,
                    excluded="a doubtful clock",
                ),
                *pack.readings[1:],
            ),
        )
        for pack in packs
    ]
    without = [replace(pack, readings=pack.readings[1:]) for pack in packs]
    facts = engine.calibration.engines[fit.name]

    assert fit_engine(fit, facts, wrong, engine.calibration) == fit_engine(
        fit, facts, without, engine.calibration
    )


def test_ranges_are_those_of_the_next_group():
    # Ten groups with residuals 0.5, 0.6, ... 1.4: one of eleven lies beyond either end.
    rows = [
        ServedReading(
            reading=reading("a", f"m{index}", measured=(5 + index) / 10),
            interval="serving_time",
            card_measured=True,
            engine="vllm",
            online=True,
            seen_s=1.0,
            unseen_s=1.0,
        )
        for index in range(10)
    ]

    found = fit_serving_intervals(rows, ())

    assert set(found) == {"serving_time"}
    assert (found["serving_time"].low, found["serving_time"].high) == (0.5, 1.4)


def test_bounds_of_a_server_with_few_models_are_drawn_towards_those_of_all():
    # Eight models of one server 10 % off either way, one of another at twice its time.
    one = ServedReading(
        reading=reading("a", "m", "first"),
        interval="serving_first_token",
        card_measured=True,
        engine="vllm",
        online=True,
        seen_s=1.0,
        unseen_s=1.0,
    )
    first = [
        replace(one, reading=reading("a", f"m{index}", "first", measured=0.9 + 0.2 * (index % 2)))
        for index in range(8)
    ]
    other = replace(one, engine="sglang", reading=reading("a", "n", "first", measured=2.0))

    found = fit_serving_intervals([*first, other], ())

    # Eight models weigh as much as the pool, whose farthest is 2; one of nine parts for the other.
    assert found["serving_first_token"].high == pytest.approx((1.1 * 2.0) ** 0.5, abs=0.01)
    assert found["serving_first_token_sglang"].low == pytest.approx(
        min(1, 2 ** (1 / 9) * 0.9 ** (8 / 9)), abs=0.01
    )


def test_a_fit_takes_the_rate_of_the_host_that_a_run_states(engine):
    """Machines with four channels of DDR4-3200, two of DDR4-2400 or of DDR5-4000 to 6800.

    Prompts wait for the link.
    """
    [fit] = (one for one in HOSTS if one.name == "llama_cpp")
    rates = {
        round(node.host_memory_bandwidth_bytes_per_s / 1e9, 1)
        for pack in engine_packs(fit, engine)
        for node in pack.nodes
    }
    assert rates == {102.0, 38.4, 64.0, 89.6, 96.0, 108.8}
    facts = engine.calibration.engines["llama_cpp"]
    for pack in engine_packs(fit, engine):
        halved = tuple(
            node.changed(
                host_memory_bandwidth_bytes_per_s=node.host_memory_bandwidth_bytes_per_s / 2
            )
            for node in pack.nodes
        )
        usual = predicted_s([pack], engine.calibration, [facts])
        slower = predicted_s([replace(pack, nodes=halved)], engine.calibration, [facts])
        assert (slower > usual).all() or pack.kind == "llm_prefill"


def test_a_source_weighs_one_in_a_range_however_many_runs_it_has() -> None:
    """Two sources: one of 180 runs, all at 1, and one of 20 spread over 0.5 to 1.5."""
    narrow, wide = [1.0] * 180, [0.5 + i / 19 for i in range(20)]
    values = [*narrow, *wide]
    groups = [str(index) for index in range(len(values))]
    sources = ["a"] * len(narrow) + ["b"] * len(wide)

    assert next_interval(values, groups) == pytest.approx([1.0, 1.0], abs=0.06)
    low, high = next_interval(values, groups, sources=sources)
    # Half of the weight is at 1, so a fifth of the wide source lies beyond each bound at most.
    assert low < 0.75
    assert high > 1.25
