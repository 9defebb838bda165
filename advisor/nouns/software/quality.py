"""Published loss of quality by quantised weights and caches: rows of ``data/quality_loss.csv``."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final

from pydantic import Field

from advisor.foundation.noun import Noun, read_table, refuse
from advisor.foundation.resources import data_path
from advisor.nouns.precision import KV_CACHE_FORMATS, WEIGHT_FORMATS

QUALITY: Final = "quality_loss.csv"
LITTLE_LOSS: Final = 0.01
"""Most relative change of a published metric that leaves weights as good as the model's own:
scores of one model differ by as much between runs. Assumed."""
Figure = Annotated[float, Field(gt=0, lt=1000)]


class QualityLoss(Noun):
    """One published comparison of quantised weights with the same model's own."""

    format: str
    """Weight format, or ``kv_`` and a format of the key-value cache."""
    metric: str
    """``perplexity`` rises with the loss; scores fall."""
    model: str
    """The compared model. Smaller models lose more."""
    value: Figure
    full_value: Figure
    """Of the weights that were not quantised."""
    source: str
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d\d){0,2}$")]

    @property
    def change(self) -> float:
        """Relative change of the metric."""
        return self.value / self.full_value - 1.0

    @property
    def words(self) -> str:
        """The change in words, e.g. ``perplexity +2.8 % (Llama 3 8B)``."""
        return f"{self.metric} {100 * self.change:+.2g} % ({self.model})"


@cache
def quality_losses() -> Mapping[str, QualityLoss]:
    """Return the published loss of each weight format that has one."""
    rows = read_table(data_path(QUALITY), QualityLoss, key=("format",))
    for row in rows:
        cached = row.format.removeprefix("kv_") in KV_CACHE_FORMATS
        if row.format not in WEIGHT_FORMATS and not cached:
            refuse(QUALITY, row.format, "Name a weight format.", field="format")
    return {row.format: row for row in rows}


def loses_little(weight_format: str) -> bool:
    """Whether weights have 8 bits or more and a published comparison finds next to no loss."""
    loss = quality_losses().get(weight_format)
    eight_bits = WEIGHT_FORMATS[weight_format].bytes_per_parameter >= 1
    return eight_bits and loss is not None and abs(loss.change) <= LITTLE_LOSS


def quality_words(weight_format: str) -> str:
    """Return the published loss of a format in words; empty if none is known."""
    loss = quality_losses().get(weight_format)
    return "" if loss is None else loss.words
