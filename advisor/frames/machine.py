"""One machine as tables: what a probe measured, and what fits."""

import math
from collections.abc import Sequence
from typing import Final

import pandas as pd

from advisor.architecture.titles import model_title
from advisor.foundation.formatting import length_limit, measured_rate, memory, rate
from advisor.foundation.units import GIB, TFLOP
from advisor.frames.rows import Cells, Rows, columns, tabled
from advisor.planning.fits.results import Fits, ModelFit, Verdict
from advisor.probe.checks.comparison import UNKNOWN
from advisor.probe.devices.backend import operand_and_result_bytes
from advisor.probe.report import DeviceReport


@columns("format", "shape", "flops_per_byte", "tflops", "expected_tflops")
def roofline_frame(found: DeviceReport, expected_s: Sequence[float | None]) -> Cells:
    """Return the measured products with intensity and rates.

    ``expected_s`` holds times by the catalog's constants, in the order of ``found.matmuls``. [s]
    """
    for row, expected in zip(found.matmuls, expected_s, strict=True):
        yield (
            row.format,
            row.shape,
            row.flops / operand_and_result_bytes(row.format, row.m, row.n, row.k),
            row.flops_per_s / TFLOP,
            math.nan if expected is None else row.flops / expected / TFLOP,
        )


@tabled
def products_table(found: DeviceReport, expected_s: Sequence[float | None]) -> Rows:
    """Return the measured products with the expected rates, as text."""
    for row, expected in zip(found.matmuls, expected_s, strict=True):
        rate = None if expected is None else row.flops / expected
        yield row.cells | {"Expected": UNKNOWN if rate is None else measured_rate(rate, "FLOPS")}


ABSENT: Final = "-"
"""Shown for a figure that a model does not have."""


def fits_table(fits: Fits, verdict: Verdict) -> pd.DataFrame:
    """Return the models of one verdict as text, one row each; empty if there are none."""
    margin = "Short by" if verdict is Verdict.DOES_NOT_FIT else "To spare"
    together = f"Longest context, {fits.concurrency} at once"
    table = pd.DataFrame(
        [
            {
                "Model": model_title(model.preset),
                "Weights": model.served.formats,
                margin: memory(abs(model.margin_bytes)),
                "Tokens/s": _speed(model),
                "Longest context": length_limit(model.served.max_context_tokens),
                **({together: model.context_together} if fits.concurrency > 1 else {}),
                "Loss of quality": model.served.quality or ABSENT,
                "Software": model.served.software_title,
                "Start it with": model.served.layout.host_options or ABSENT,
            }
            for model in fits.having(verdict)
        ]
    )
    # For a model that does not fit, most columns would be empty.
    return table.loc[:, [name for name in table if (table[name] != ABSENT).any()]]


@tabled
def training_fits_table(fits: Fits) -> Rows:
    """Return the longest training sequences as text, for models that any method can train."""
    for model in fits.models:
        if any(fit.trains for fit in model.trained):
            yield (
                {"Model": model_title(model.preset)}
                | {
                    {"full": "Full", "lora": "LoRA", "qlora": "QLoRA"}[fit.method.value]: (
                        fit.lengths if fit.trains else "does not fit"
                    )
                    for fit in model.trained
                }
            )


@columns("model", "group", "gib", "total_gib", "total_high_gib", "usable_gib")
def fits_memory_frame(fits: Fits) -> Cells:
    """Return the serving memory of the fullest card, three groups for each model. [GiB]"""
    for model in fits.models:
        served = model.served
        groups = {
            "Weights": served.weights_bytes,
            "Key-value cache": served.kv_cache_bytes,
            "Overheads": served.engine_bytes,
        }
        name = f"{model_title(model.preset)} ({served.formats})"
        limits = sum(groups.values()), served.needed_bytes, served.usable_bytes
        for group, size in groups.items():
            yield (name, group, *(each / GIB for each in (size, *limits)))


def _speed(model: ModelFit) -> str:
    speed = model.served.tokens_per_s
    return rate(speed, "", with_range=True).replace("  ", " ").strip() if speed else ABSENT
