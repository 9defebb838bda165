"""What fits some cards, as tables."""

from typing import Final

import pandas as pd

from advisor.architecture.titles import model_title
from advisor.foundation.formatting import length_limit, memory, rate
from advisor.foundation.units import GIB
from advisor.frames.rows import Cells, Rows, columns, tabled
from advisor.planning.fits.results import Fits, ModelFit, Verdict

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
                together: model.context_together,
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
