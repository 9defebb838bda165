"""The assumed shape of a parameter count and shapes of published models, as a table."""

from collections.abc import Sequence
from typing import Final

from advisor.architecture.published_models import PublishedModel
from advisor.foundation.units import BILLION
from advisor.frames.rows import Rows, tabled
from advisor.nouns.case import AssumedShape

TITLES: Final = {
    "num_hidden_layers": "Layers",
    "hidden_size": "Hidden size",
    "num_attention_heads": "Heads",
    "num_key_value_heads": "Key-value heads",
    "intermediate_size": "Feed-forward width",
    "vocab_size": "Vocabulary",
}


@tabled
def shapes_table(
    parameters: float, assumed: AssumedShape | None, published: Sequence[PublishedModel]
) -> Rows:
    """Return the shape in use, if it is assumed for a number of parameters, then published models.

    All cells are texts: name, parameters in billions and six fields of the shape.
    """
    rows = [("Yours, as computed", parameters, assumed)] if assumed else []
    rows += [(model.name, model.parameters, model.shape) for model in published]
    for name, count, shape in rows:
        yield {
            "Model": name,
            "Parameters": f"{count / BILLION:.4g}B",
            **{title: f"{getattr(shape, field):,}" for field, title in TITLES.items()},
        }
