"""Tables that state fields of a case in columns, and what is guessed for those that do not."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from advisor.architecture.presets import load_preset
from advisor.calibration.scoring.validation import validate
from advisor.calibration.tables.cache_rows import Change, EngineHistory
from advisor.calibration.tables.context import Engine, shipped_engine
from advisor.calibration.tables.deployments import as_run
from advisor.calibration.tables.guesses import filled, guessed, weight_format
from advisor.calibration.tables.reading import Row, read_table
from advisor.calibration.tables.training_rows import settled_run, timed_run
from advisor.errors import AdvisorError
from advisor.estimate.serving.stored_bytes import bytes_per_parameter
from advisor.foundation.data_files import read_yaml
from advisor.foundation.resources import data_path
from advisor.nouns.layout import ParallelLayout, Recompute
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.workload import FineTuning, Pretraining

RUN = Row(
    {
        "id": "r",
        "workload": "full_finetuning",
        "architecture_key": "meta-llama__Meta-Llama-3.1-8B",
        "accelerator": "h100-sxm",
        "num_accelerators": "8",
        "precision": "bf16_pure",
        "micro_batch": "1",
        "global_batch": "32",
        "sequence_length": "4096",
        "data_sharding": "zero3",
        "recompute": "full",
        "peak_memory_gib": "40",
        "primary_quantity": "peak_memory_gib",
    }
)
SERVED = Row(
    {
        "id": "s",
        "kind": "llm_online",
        "architecture_key": "meta-llama__Meta-Llama-3.1-8B",
        "accelerator": "h100-sxm",
        "num_accelerators": "1",
        "engine": "vllm",
        "concurrency": "64",
        "input_tokens": "1000",
        "output_tokens": "1000",
        "tpot_ms": "10",
        "primary_quantity": "tpot_ms",
    }
)
PEAK = {
    "id": "p",
    "model": "Llama-3.1-8B",
    "seq_len": "4096",
    "micro_batch": "1",
    "mode": "pure_bf16",
    "ckpt": "1",
    "optimizer": "adamw_fused",
    "peak_total": "64e9",
}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return shipped_engine()


def table(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def predicted(path: Path, row: dict[str, str]) -> float:
    [found] = validate(table(path, row)).rows
    return found.expected


BATCH = {"micro_batch": "16", "global_batch": "16"}


@pytest.mark.parametrize(
    ("row", "cells", "sign"),
    [
        # Fewer logits at once.
        (RUN, {"cross_entropy": "linear"}, -1),
        # Whole gradients wait for the last micro-batch, in fp32 twice their size.
        (RUN, {"gradient_sync": "last"}, 1),
        (RUN, {"gradient_sync": "last", "reduce_format": "fp32"}, 1),
        # Without accumulation the last step's gradients are there while the loss is computed.
        (RUN | {"global_batch": "8"}, {"zero_grad": "zero"}, 1),
        (RUN, {"zero_grad": "zero"}, 0),
        (RUN, {"optimizer": "adamw_8bit"}, -1),
        (RUN, {"offload": "optimizer"}, -1),
        (RUN, {"recompute": "none"}, 1),
        (RUN, {"sharding": "ddp", "data_sharding": ""}, 1),
        (RUN, {"recompute": "none", "attention": "eager"}, 1),
        (RUN, {"software": "liger"}, -1),
        (RUN, {"method": "lora"}, -1),
        (SERVED, {"weight_format": "fp8"}, -1),
        (SERVED, {"kv_cache_format": "fp8"}, -1),
        (SERVED, {"tensor": "2", "num_accelerators": "2"}, -1),
        (PEAK, {"software": "liger"}, -1),
        # Without recomputation the fullest moment is that of the logits.
        (PEAK | {"ckpt": "0"}, {"cross_entropy": "linear"}, -1),
    ],
)
def test_a_field_of_a_case_is_a_column(
    row: Row, cells: dict[str, str], sign: int, tmp_path: Path
) -> None:
    plain = {"weight_precision": "bf16"} | row if row is SERVED else row
    without, with_it = (predicted(tmp_path / "t.csv", each) for each in (plain, plain | cells))

    assert (with_it > without) - (with_it < without) == sign


@pytest.mark.parametrize(
    ("row", "column", "word", "allowed"),
    [
        (RUN, "cross_entropy", "cut", "linear"),
        (RUN, "gradient_sync", "never", "last"),
        (RUN, "attention", "paged", "eager"),
        (RUN, "reduce_format", "fp64", "fp32"),
        (RUN, "optimizer", "magic", "lion"),
        (RUN, "software", "excel", "megatron"),
        (RUN, "offload", "disk", "parameters"),
        (RUN, "sharding", "zero9", "zero3"),
        (RUN, "recompute", "some", "selective"),
        (RUN, "precision", "bf17", "bf16_mixed"),
        (RUN, "schedule", "zigzag", "1f1b"),
        (RUN, "sequence_parallel", "perhaps", "boolean"),
        (RUN, "timed_software", "excel", "megatron"),
        (RUN, "bitsandbytes_version", "new", "0.41"),
        (RUN, "transformers_version", "new", "0.41"),
        (SERVED, "weight_format", "q17", "w4a16"),
        (SERVED, "kv_cache_format", "q17", "fp8"),
        (PEAK, "software", "excel", "megatron"),
    ],
)
def test_an_unknown_word_is_refused_with_the_allowed_ones_and_harms_no_other_row(
    row: Row, column: str, word: str, allowed: str, tmp_path: Path
) -> None:
    good = {"weight_precision": "bf16", "tokens_per_s_per_accelerator": "1000"} | row
    bad = good | {"id": "bad", column: word}
    if column == "timed_software":
        bad["primary_quantity"] = "tokens_per_s_per_accelerator"
    report = validate(table(tmp_path / "t.csv", good, bad))

    assert [each.id for each in report.rows] == [row["id"]]
    [skipped] = report.skipped
    assert skipped.id == "bad"
    assert column in skipped.reason
    assert word in skipped.reason
    assert allowed in skipped.reason


def test_a_column_that_no_case_has_is_ignored(tmp_path: Path) -> None:
    foreign = {"network": "8 x 400 Gb/s", "host": "2 x EPYC", "run_note": "restarts", "kind": "x"}

    assert predicted(tmp_path / "a.csv", RUN | foreign) == predicted(tmp_path / "b.csv", RUN)


TIMED = RUN | {"primary_quantity": "tokens_per_s_per_accelerator"}
TIMED |= {"tokens_per_s_per_accelerator": "5000", "attention": "eager"}
ROUTED = TIMED | {"architecture_key": "mixtral-8x7b", "num_accelerators": "64"}
ROUTED |= {"global_batch": "64"}
GPT2 = {"architecture_key": "openai-community__gpt2", "sequence_length": "1024"}


@pytest.mark.parametrize(
    ("row", "cells", "sign"),
    [
        # Padding is computed, but not counted.
        (TIMED, {"counted_share": "0.8"}, -1),
        (ROUTED, {"expert_capacity": "1.25"}, -1),
        (TIMED | {"precision": "fp8"}, {"layers_in_16_bits": "4"}, -1),
        (TIMED, {"layers_in_16_bits": "4"}, 0),
        (TIMED, {"fused_softmax": "1"}, 1),
        # RMSNorm counts its steps in fp32 already.
        (TIMED, {"widened_norms": "1"}, 0),
        # Only masked words pass the head.
        (TIMED, {"answered_share": "0.15"}, 1),
        # 47 entries more, but every row starts at 16 bytes. One sequence would wait for its host.
        (TIMED | GPT2 | BATCH, {"vocab_size": "50304"}, 1),
        (TIMED | GPT2 | {"software": "compiled"}, {"vocab_size": "50304"}, -1),
        # Without the head over the vocabulary.
        (
            TIMED | {"architecture_key": "bert-large-uncased", "sequence_length": "512"},
            {"model_class": "BertForQuestionAnswering"},
            1,
        ),
    ],
)
def test_a_fact_of_a_timed_run_is_a_column(
    row: Row, cells: dict[str, str], sign: int, tmp_path: Path
) -> None:
    without, with_it = (predicted(tmp_path / "t.csv", each) for each in (row, row | cells))

    assert (with_it > without) - (with_it < without) == sign


def test_a_row_states_the_vocabulary_that_ran(engine: Engine) -> None:
    padded = engine.architecture(RUN | GPT2 | {"vocab_size": "50304"})

    # karpathy/nanoGPT@77e7e04c pads 50,257 entries; 768 weights each, embedding and head are one.
    assert padded.vocab_size == 50304
    assert padded.total_parameters - engine.architecture(RUN | GPT2).total_parameters == 47 * 768


def test_a_row_names_a_class_with_a_head_over_the_vocabulary(engine: Engine) -> None:
    row = RUN | {"architecture_key": "bert-base", "model_class": "BertForMaskedLM"}

    # num_parameters() of transformers 5.23 for google-bert/bert-base-uncased.
    assert engine.architecture(row).total_parameters == 109_514_298


# Facts of the software that no case asks for, beside the fields of a case.
FACTS = (
    "timed_software",
    "gathered_logits",
    "fsdp_version",
    "bitsandbytes_version",
    "transformers_version",
    "adapter_dropout",
    "unpacked_base",
    "update_in_backward",
    "zero_grad",
    "adapter_format",
)
NOUNS = (Pretraining, FineTuning, ParallelLayout)
FIELDS = {name for noun in NOUNS for name in noun.model_fields} - {"kind"}


@pytest.mark.parametrize("name", ["training_runs", "outside_training"])
def test_the_shipped_runs_speak_for_themselves(name: str, engine: Engine) -> None:
    """Without the framework's name, the software behind a run is the same."""
    for row in read_table(data_path("measurements") / f"{name}.csv"):
        unit = _unit(row, engine)
        known = filled(row, "training", unit=unit)
        anonymous = filled(Row({**row, "framework": "", "compiled": ""}), "training", unit=unit)
        for field in (*FACTS, *sorted(FIELDS)):
            assert known.cell(field) == anonymous.cell(field), (row["id"], field)


def _unit(row: Row, engine: Engine) -> str:
    try:
        return engine.architecture(row).unit.value
    except AdvisorError:
        return "sample"


def test_every_shipped_setting_names_where_it_comes_from(engine: Engine, root: Path) -> None:
    rules = read_yaml(root / "data" / "measurement_guesses.yaml")
    assert isinstance(rules, dict)
    known = {rule["id"] for section in ("shape", "training") for rule in rules[section]["rules"]}
    told = (root / "data" / "measurements" / "README.md").read_text(encoding="utf-8")
    for name in ("training_runs", "outside_training"):
        for row in read_table(data_path("measurements") / f"{name}.csv"):
            for source in filter(None, row.cell("settings_source").split(";")):
                assert source in known or f"`{source}`" in told, (row["id"], source)


@pytest.mark.parametrize(
    ("cells", "field", "word"),
    [
        # Each as the framework's own repository tells.
        ({"framework": "litgpt", "workload": "lora"}, "cross_entropy", "chunked"),
        ({"framework": "litgpt", "workload": "lora"}, "software", "plain"),
        ({"framework": "litgpt", "workload": "pretraining"}, "software", "liger"),
        ({"framework": "nemo"}, "reduce_format", "bf16"),
        ({"framework": "nemo"}, "recompute", "none;selective"),
        ({"framework": "nemo", "recompute": "full"}, "recompute", "full"),
        ({"framework": "llm_foundry", "attention": "flash"}, "attention", "flash1"),
        ({"framework": "llm_foundry", "attention": "eager"}, "attention", "eager"),
        ({"framework": "megatron", "precision": "fp16_amp"}, "precision", "fp16_mixed"),
        ({"framework": "megatron", "cross_entropy": "plain"}, "cross_entropy", "plain"),
        ({"framework": "nemo", "software": "compiled"}, "software", "compiled"),
    ],
)
def test_a_framework_alone_tells_its_settings(cells: Row, field: str, word: str) -> None:
    row = Row({"workload": "pretraining", "precision": "bf16_mixed", "num_accelerators": "8"})

    assert filled(Row({**row, **cells}), "training", unit="token")[field] == word


def test_a_guess_has_its_reason() -> None:
    row = Row({"workload": "lora", "framework": "litgpt", "num_accelerators": "1"})
    reasons = {column: rule.why for column, _, rule in guessed(row, "training", unit="token")}

    assert "lora_dropout" in reasons["adapter_dropout"]


def test_the_first_recomputation_that_fits_is_taken(engine: Engine) -> None:
    # 70 billion parameters of 16 bytes on 32 cards are 35 GiB; activations of 8,192 tokens are not
    # held beside them unless they are recomputed.
    row = RUN | {
        "architecture_key": "meta-llama__Meta-Llama-3.1-70B",
        "num_accelerators": "32",
        "precision": "bf16_mixed",
        "sequence_length": "8192",
        "recompute": "none;full",
    }
    _, layout = settled_run(row, engine)
    _, stated = settled_run(row | {"recompute": "none"}, engine)

    assert (layout.recompute, stated.recompute) == (Recompute.FULL, Recompute.NONE)


def test_the_speed_of_a_run_may_be_that_of_other_software(engine: Engine) -> None:
    row = RUN | {"software": "huggingface", "timed_software": "liger"}
    run, _ = settled_run(row, engine)

    assert (run.software, timed_run(row, run).software) == ("huggingface", "liger")


def test_changes_of_engines_name_facts_that_engines_have() -> None:
    content = read_yaml(data_path("engine_releases.yaml"))
    assert isinstance(content, dict)
    for name, entry in content.items():
        history = EngineHistory.model_validate(entry)
        for change in history.changes:
            named = {*change.takes, *(v for v in change.takes.values() if isinstance(v, str))}
            assert named <= set(ServingFacts.model_fields), (name, change)


def test_a_release_in_its_own_column_counts_more_than_words() -> None:
    history = EngineHistory(
        newest="0.9",
        changes=(Change(before="0.8", why="a", source="b", date="2026-11-22"),),  # type: ignore[arg-type]
    )

    assert history.release_of(Row({"engine_version": "vLLM 0.9", "engine_release": "0.10.2"})) == (
        0,
        10,
    )
    assert history.release_of(Row({"engine_version": "vLLM 0.9"})) == (0, 9)
    assert history.release_of(Row({})) == (0, 9)


def test_a_file_of_uneven_widths_has_fewer_bits_in_its_experts() -> None:
    # Of Qwen3.6-35B-A3B-UD-Q4_K_XL (5.1574 bits), two matrices of an expert are Q4_K (4.5 bits)
    # and one is Q5_K (5.5): github gittensor-ai-lab/sparkinfer, pull 224. All else has 8 bits.
    bits = {"weight_bits_per_parameter": "5.1574", "common_bits_per_parameter": "8.5"}
    stored = weight_format(Row({"weight_precision": "gguf_other", "engine": "llama_cpp"}) | bits)
    model = load_preset("qwen3.5-35b-a3b")
    sizes = {
        row.experts > 1: 8 * bytes_per_parameter(row, stored, model)
        for row in model.operators
        if row.parameters
    }
    file = sum(
        row.layers * row.parameters * bytes_per_parameter(row, stored, model)
        for row in model.operators
    )

    assert sizes == {True: pytest.approx((4.5 + 4.5 + 5.5) / 3, rel=0.02), False: 8.5}
    assert 8 * file / model.total_parameters == pytest.approx(5.1574)


NOMINAL = {"922": "1024", "7372": "8192"}
ROUNDED = {"7373": "7372"}
"""Nine tenths of 8,192 are 7,372.8; the client draws whole tokens of 7,372.5 in the mean."""
SET = ("lengths", "burst_requests", "step_tokens", "gathering_steps", "prefix_cache")


@pytest.mark.parametrize("column", [*SET, "input_tokens", "output_tokens"])
def test_a_row_as_published_runs_as_its_scripts_say(column: str) -> None:
    """The shipped table states in columns what was read in the scripts of each run."""
    alike = 0
    rows = [
        row
        for row in read_table(data_path("measurements") / "serving_runs.csv")
        if "aiconfigurator" in row.cell("source")
    ]
    for row in rows:
        published = row | dict.fromkeys(SET, "")
        for tokens in ("input_tokens", "output_tokens"):
            published[tokens] = NOMINAL.get(row[tokens], row[tokens])
        found = (as_run(published)).cell(column)
        found = ROUNDED.get(found, found)
        alike += found == row[column]

    assert len(rows) > 1000
    # The others are undated repeats and runs with a limit of their own.
    assert alike >= 0.97 * len(rows)


def test_a_limit_in_the_command_is_read() -> None:
    row = SERVED | {
        "notes": "250 prompts, closed loop; `vllm serve x --max-num-batched-tokens 4096`"
    }

    assert (as_run(row)["burst_requests"], as_run(row)["step_tokens"]) == ("250", "4096")
    assert not (as_run(SERVED | {"notes": "prompts of 512 tokens"})).cell("burst_requests")


def test_the_share_of_a_prompt_in_the_cache_counts_as_tokens() -> None:
    # llama-bench pp2048 @ d32768: 2,048 new tokens behind 32,768.
    row = Row({"kind": "llm_prefill", "input_tokens": "34816", "prefix_hit_share": "0.9412"})
    found = as_run(row)

    assert int(found["cached_tokens"]) == pytest.approx(32768, rel=1e-4)
    assert not found["prefix_hit_share"]
