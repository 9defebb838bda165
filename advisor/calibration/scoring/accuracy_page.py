"""The page that shows users the errors of the engine, including misses."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean
from textwrap import fill
from typing import Final

from advisor.calibration.fitting.kernel_tables import FOLDER
from advisor.calibration.scoring.report import (
    FitVerdict,
    Summary,
    ValidationReport,
    ValidationRow,
    as_text,
)
from advisor.calibration.scoring.training_errors import CurveError, SpeedErrors
from advisor.calibration.scoring.validation import validate
from advisor.foundation.resources import data_path
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.workload import FineTuning, Pretraining, Serving

PAGE_WIDTH: Final = 99
"""Width of a paragraph without its full stop. [characters]"""
TABLES: Final = {
    "memory_train": "Memory of tensors, one card",
    "memory_fsdp": "Memory of tensors, fully sharded",
    "memory_ddp": "Memory of tensors, data parallel",
    "memory_tp": "Memory of tensors, tensor parallel",
    "memory_lora": "Memory of tensors, adapters",
    "memory_vision": "Memory of tensors, convolutional networks",
    "training_runs": "Training runs",
    "training_runs_2": "Training runs, second collection",
    "whole_runs": "Whole runs",
    "cache_logs": "Start-up logs of serving engines",
    "serving_runs": "Serving",
    "loaded_runs": "Serving under load: finite bursts, closed loops and rates",
    "tail_runs": "Latency that 99 % of the requests under load stay below",
    "desktop_runs": "Serving by llama.cpp and MLX, builds of 2025 and 2026",
    "offload_runs": "Serving with layers or experts in the host's memory",
    "serving_vision": "Serving of networks that take images",
    "serving_detectors": "Detectors under TensorRT",
}
"""Files below ``data/measurements`` and their headings."""
UNSEEN: Final = {
    "outside_training": "Training runs outside the fits",
    "outside_training_2": "Training runs outside the fits, second collection",
    "outside_whole_runs": "Whole runs outside the fits",
    "outside_kv_logs": "Start-up logs outside the fits",
    "outside_serving": "Serving outside the fits",
    "outside_desktop": "Serving by llama.cpp and MLX outside the fits",
    "outside_offload": "Layers or experts in the host's memory, outside the fits",
}
"""The same for measurements that no fit uses."""
ALL_TABLES: Final = TABLES | UNSEEN
UNSEEN_CURVES: Final = "outside_scaling_curves"
"""Table of scaling curves that no fit uses."""

FARTHEST: Final = 6
LEAST_GROUPS: Final = 3
"""Regimes with fewer groups appear only in the line of all regimes."""


def score_tables(names: Iterable[str] = ALL_TABLES) -> dict[str, ValidationReport]:
    """Score the engine on the shipped tables.

    ``names``: keys of ``ALL_TABLES``.
    """
    folder = data_path(FOLDER).parent
    return {name: validate(folder / f"{name}.csv") for name in names}


def accuracy_markdown(
    reports: dict[str, ValidationReport],
    speeds: Iterable[SpeedErrors],
    peaks: Iterable[Summary],
    served: Iterable[SpeedErrors],
    curves: Iterable[CurveError],
) -> str:
    """Text of ``docs/accuracy.md``.

    Parameters
    ----------
    reports : dict of str to ValidationReport
        From :func:`score_tables`.
    speeds : iterable of SpeedErrors
        From :func:`advisor.calibration.scoring.training_errors.speed_errors`.
    peaks : iterable of Summary
        From :func:`advisor.calibration.fitting.memory.peak_errors`.
    served : iterable of SpeedErrors
        From :func:`advisor.calibration.scoring.serving_errors.serving_errors`.
    curves : iterable of CurveError
        From :func:`advisor.calibration.scoring.training_errors.scaling_errors`.
    """
    overview, unseen = (
        "\n".join(
            _cells(ALL_TABLES[name], each)
            for name, report in reports.items()
            for each in report.summary
            if each.regime == "all" and name in tables
        )
        for tables in (TABLES, UNSEEN)
    )
    sections = "\n".join(_section(name, report) for name, report in reports.items())
    speed = "\n".join(_speed_cells(each) for each in speeds)
    peak = "\n".join(_cells(each.regime, each) for each in peaks)
    serving = "\n".join(_speed_cells(each) for each in served)
    return PAGE.format(
        overview=overview,
        unseen=unseen,
        speed=speed,
        peak=peak,
        serving=serving,
        curves="\n".join(_curve_cells(each) for each in curves),
        sections=sections,
        fields=_case_fields(),
    )


def _case_fields() -> str:
    """Return the fields of a case that a table may have as columns."""
    nouns = (Pretraining, FineTuning, Serving, ParallelLayout)
    names = dict.fromkeys(name for noun in nouns for name in noun.model_fields if name != "kind")
    return fill(", ".join(f"`{name}`" for name in names), PAGE_WIDTH)


def _section(name: str, report: ValidationReport) -> str:
    scored = len({row.id for row in report.rows})
    lines = [
        f"## {ALL_TABLES[name]}",
        "",
        f"`data/measurements/{name}.csv`: {scored} rows predicted, {len(report.skipped)} not.",
        "",
    ]
    regimes = [
        each for each in report.summary if each.regime != "all" and each.groups >= LEAST_GROUPS
    ]
    if regimes:
        lines += [HEAD, *(_cells(_name(each.regime), each) for each in regimes), ""]
    lines += ["Farthest off, by group of like rows:", ""]
    lines += [f"- {text}" for text in _farthest(report.rows)]
    if report.verdicts:
        lines += ["", "Did it fit?", "", *(f"- {text}" for text in _fitted(report.verdicts))]
    if report.skipped:
        reasons: dict[str, int] = defaultdict(int)
        for row in report.skipped:
            reasons[row.reason.partition(";")[0]] += 1
        lines += ["", "Not predicted:", ""]
        lines += [
            f"- {count}: {reason}"
            for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        ]
    return "\n".join([*lines, ""])


def _fitted(verdicts: Iterable[FitVerdict]) -> list[str]:
    outcomes = {True: "ran out of memory", False: "ran"}
    texts = []
    for lacking, what in outcomes.items():
        of = [each for each in verdicts if (each.outcome == "oom") is lacking]
        calls = ", ".join(
            f"{sum(each.called == call for each in of)} {call}"
            for call in ("fits", "tight", "impossible")
        )
        wrong = ", ".join(each.id for each in of if each.wrong)
        texts.append(f"{len(of)} {what}, called: {calls}" + (f" (wrong: {wrong})" if wrong else ""))
    return texts


def _farthest(rows: Iterable[ValidationRow]) -> list[str]:
    groups: dict[tuple[str, str], list[ValidationRow]] = defaultdict(list)
    for row in rows:
        groups[row.group, row.quantity].append(row)

    def miss(members: list[ValidationRow]) -> float:
        return fmean(abs(row.error_pct) for row in members)

    worst = sorted(groups.values(), key=lambda members: (-miss(members), members[0].id))
    texts = []
    for members in worst[:FARTHEST]:
        row = max(members, key=lambda row: abs(row.error_pct))
        more = f", {len(members)} rows" if len(members) > 1 else ""
        texts.append(
            f"`{row.id}`, {row.quantity}: measured {as_text(row.quantity, row.measured)}, "
            f"predicted {as_text(row.quantity, row.expected)} "
            f"(group {miss(members):.0f} % off{more})"
        )
    return texts


def _name(regime: str) -> str:
    return ", ".join(regime.split("|"))


def _cells(name: str, each: Summary) -> str:
    return (
        f"| {name} | {each.quantity} | {each.n} | {each.groups} | {each.median_abs_pct:.1f} | "
        f"{each.p90_abs_pct:.1f} | {each.bias_pct:+.1f} | {each.coverage_pct:.0f} | "
        f"{each.each_row.median_abs_pct:.1f} | {each.each_row.p90_abs_pct:.1f} |"
    )


def _speed_cells(each: SpeedErrors) -> str:
    return (
        f"| {each.name} | {each.rows} | {each.groups} | {each.median_abs_pct:.1f} | "
        f"{each.p90_abs_pct:.1f} | {each.bias_pct:+.1f} | {each.held_out_median_abs_pct:.1f} | "
        f"{each.held_out_p90_abs_pct:.1f} | {each.held_out_coverage_pct:.0f} |"
    )


def _curve_cells(each: CurveError) -> str:
    fitted = "yes" if each.fitted else "no"
    return (
        f"| {each.name} | {each.first:,} | {each.last:,} | {fitted} | {each.lost_pct:.1f} | "
        f"{each.predicted_pct:.1f} | {each.error_points:+.1f} |"
    )


HEAD: Final = """\
| what | quantity | rows | groups | median | 90 % | bias | in range | rows: median | rows: 90 % |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""

PAGE: Final = (
    """\
# Accuracy

This page is written by `make accuracy`; do not edit it. It scores the engine on published
measurements, misses included. Score it on yours with `gpu-advisor validate FILE.csv`.

Errors are in percent of the measurement. Rows that vary one run (same source, model and
accelerator) form a group. Each group is averaged first, then all groups have the same weight. The
columns show the median and the 90 % quantile of absolute errors, the bias (the median of signed
errors) and the share of measurements inside the predicted range, which aims at 80. In the last two
columns every row has the same weight.

The constants of serving and the slowdowns of software stacks were fitted on some of these rows,
the kernels on other measurements. The memory terms were written with these tables at hand, so the
errors of memory of tensors are in sample.

"""
    + HEAD
    + """
{overview}

## Measurements that no fit has seen

These rows were collected after the constants were fitted, from sources or rows that the tables
above lack. No fit has used them since. They show what to expect for a run that the engine has not
seen. If somebody chose a constant after looking at them, CHANGELOG says so.

"""
    + HEAD
    + """
{unseen}

## Speed of training, each source held out

Tokens or samples per second and step times of the training runs. Fitted are one slowdown for each
software stack and five constants for overlap, experts and long runs. In sample, the fit uses all
runs. Held out, it uses the runs of all other sources (repositories or sites), and so do the
ranges, which aim at 80. Nearly all mixtures of experts come from one source. With that source held
out, only the kernels predict them.

For comparison, the median error on these rows is 36 % for a constant 40 % of the peak, 25 % for one
share of the peak by generation and kind of work, 23 % for llm-analysis at its best efficiency and
22 % for calculon on the rows that it can predict.

| runs | rows | groups | median | 90 % | bias | held out: median | 90 % | in range |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{speed}

## Throughput that scaling loses

Loss of throughput of each accelerator between a published run on few and one on many, in percent,
and the error of the prediction in points. Two constants (`network.jitter`, and `image_jitter` for
networks that take images) were fitted on the curves marked yes. The MaxText runs used Ethernet at
half of the assumed rate.

| curve | from | to | fitted | measured | predicted | error |
| --- | ---: | ---: | --- | ---: | ---: | ---: |
{curves}

## Published peaks, each source held out

Memory peaks of the training runs, as their tools count them. In sample, the reserve of the
allocator is fitted on all runs whose settings are stated in full. Held out, it is fitted on the
runs of all other sources, and so are the ranges, which aim at 80.

"""
    + HEAD
    + """
{peak}

## Speed of serving, models held out

Times of online, saturated and one-stream runs of the four engines that have fitted constants
(`docs/methodology-serving.md`). Rows that the fits leave out are scored too. Nearly all online runs
come from one site, so the runs are held out in four parts. No model of a site is in two parts. The
ranges are held out in the same way. Other engines (ExLlamaV2, MLC, LMDeploy) are only in the tables
below.

| runs | rows | groups | median | 90 % | bias | held out: median | 90 % | in range |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{serving}

{sections}
## Columns

`gpu-advisor validate` recognises a table by its columns and ignores columns that it does not know.
An empty cell means unknown. A row with `predictable` = 0 is left out. `architecture_key` is a
Hugging Face id written `org__name`. The command looks for it among the presets, then for
`DIR/<key>.json` of `--configs DIR`, and then uses the row's own shape columns. Without a key it
looks for `model`.

A row may state any field of a case's workload and layout in a column of that name. A list is
separated by commas. If a field does not know a word, only that row is refused, with the allowed
words. The columns further down are the tables' own names for some of these fields. If both are
filled, the column with the field's name counts. The fields are

{fields}.

The rules of `data/measurement_guesses.yaml` fill in what a row of a training run leaves open. Each
rule states its reason, and many need only `framework`. More columns say what the software did:
`timed_software` (the stack that decides the speed, if it is not `software`), `fsdp_version`,
`bitsandbytes_version`, `transformers_version`, `adapter_dropout`, `adapter_format`,
`gathered_logits`, `unpacked_base`, `update_in_backward`, `trained_ends` and `hidden_dropout`.
`recompute` may list the policies to try (`none;full`), and `virtual_stages` may be `most`. The flag
`assumed_config` says that settings are guessed: the range is wider.

- Training runs: `id`, `workload` (pretraining, full_finetuning, lora, qlora), `accelerator`,
  `num_accelerators`, `primary_quantity` (tokens_per_s_per_accelerator, samples_per_s, step_time_s,
  wall_hours, accelerator_hours, peak_memory_gib), `also_memory`, `sequence_length`, `precision`,
  `optimizer`, `micro_batch`, `global_batch`, `tensor_parallel`, `pipeline_parallel`,
  `virtual_pipeline_stages`, `context_parallel`, `expert_parallel`, `sequence_parallel`,
  `data_sharding`, `recompute`, `attention`, `framework`, `compiled`, `lora_rank`, `lora_targets`,
  `accelerators_per_node`, `total_tokens`, `outcome`, `regime`, `split_group`; shape columns in
  Hugging Face names.
- Memory peaks (bytes): `id`, `model`, `seq_len`, `micro_batch`, `mode`, `ckpt`, `optimizer`,
  `peak_total`; with `reshard`, `wrap`, `mesh`, `world` (FSDP), `bucket_view`, `world` (DDP), `tp`,
  `fsdp`, `seq_parallel`, `loss` (tensor parallel), or `base`, `adapter`, `rank`, `targets`,
  `dropout` (adapters). For image networks: `model`, `batch`, `px`, `mode`, `peak_total`.
- Serving: `id`, `kind` (llm_online, llm_saturated, llm_single_stream, llm_prefill,
  llm_static_batch), `accelerator`, `engine`, `primary_quantity`, `secondary_quantity` (tpot_ms,
  ttft_ms, total_output_tokens_per_s, decode_tokens_per_s, prefill_tokens_per_s, latency_ms),
  `weight_precision`, `weight_bits_per_parameter`, `kv_precision`, `num_accelerators`,
  `tensor_parallel`, `pipeline_parallel`, `attention_data_parallel`, `concurrency`, `input_tokens`,
  `output_tokens`, `arrival` (burst, closed, poisson, constant, bursty), `requests_per_s`,
  `burst_requests` (1,000 if empty), `pcie_generation`, `peer_to_peer` and `percentile` (mean, p50,
  p95, p99).
- Start-up logs: `id`, `accelerator`, `gpu_memory_utilization`, `kv_cache_gib`, `kv_tokens`,
  `weights_gib`, `primary_quantity`, `reported_device_memory_gib`, `engine`, `engine_version`,
  `max_model_len`, `tensor_parallel`, `pipeline_parallel`, `weight_precision`, `kv_precision`.
  `engine_release` (0.19) counts more than `engine_version`.
"""
)
