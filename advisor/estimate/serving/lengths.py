"""Lengths of requests: defaults are cut to the model's limit, and pairs become writers."""

from collections.abc import Collection
from typing import Final

from advisor.architecture.pairs import as_writer, is_pair, positions_read, writes_apart
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.estimate.batch.forward import generates
from advisor.nouns.workload import Serving, Workload

PROMPT_SHARE: Final = 0.8
"""Prompt's share of a context that the defaults exceed: four to one, as 1,024 to 256."""


def fitted(
    workload: Workload, architecture: ModelArchitecture
) -> tuple[Workload, ModelArchitecture]:
    """Fill in the lengths of requests that a case leaves open.

    Training is unchanged. For serving, default prompts and answers are cut to the model's limit,
    and encoder-decoder pairs become networks that write token after token. The model's assumptions
    state both.
    """
    if not isinstance(workload, Serving):
        return workload, architecture
    notes = []
    if is_pair(architecture):
        read = positions_read(architecture)
        architecture = as_writer(architecture)
        workload = workload.model_copy(update={"input_tokens": read})
    if update := shortened(workload, architecture, workload.model_fields_set):
        workload = workload.model_copy(update=update)
        cut = " and ".join(f"{name} of {value:,} tokens" for name, value in update.items())
        words = cut.replace("input_tokens", "prompts").replace("output_tokens", "answers")
        limit = architecture.max_position_embeddings
        notes.append(f"{words}: the model has {limit:,} positions")
    if notes:
        architecture = architecture.model_copy(
            update={"assumptions": (*architecture.assumptions, *notes)}
        )
    return workload, architecture


def shortened(
    workload: Serving, architecture: ModelArchitecture, given: Collection[str]
) -> dict[str, int]:
    """Return the default lengths that exceed the model's positions, cut to fit. [tokens]

    New values by field.

    ``given``: fields that the user gave.
    """
    limit = architecture.max_position_embeddings
    if architecture.unit is not Unit.TOKEN or limit is None:
        return {}
    read, written = workload.input_tokens, workload.output_tokens
    if writes_apart(architecture):
        return {} if written <= limit or "output_tokens" in given else {"output_tokens": limit}
    if not generates(architecture):
        return {} if read <= limit or "input_tokens" in given else {"input_tokens": limit}
    if read + written <= limit or ("input_tokens" in given and "output_tokens" in given):
        return {}
    if "input_tokens" in given:
        return {"output_tokens": limit - read} if read < limit else {}
    if "output_tokens" in given:
        return {"input_tokens": limit - written} if written < limit else {}
    prompt = max(1, int(PROMPT_SHARE * limit))
    return {"input_tokens": prompt, "output_tokens": max(1, limit - prompt)}
