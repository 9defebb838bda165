"""What a served model is held to where a case leaves it open: ``data/serving_defaults.yaml``."""

from typing import Annotated

from pydantic import Field

from advisor.foundation.noun import Noun, shipped
from advisor.foundation.units import GB
from advisor.nouns.software.tools import tool_choice
from advisor.nouns.workload import Serving, Workload

Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


def for_few(workload: Serving) -> bool:
    """Return whether so few ask at once that tools for a card of one's own come first."""
    return workload.requests_per_s is None and workload.concurrency <= tool_choice().few.users


class Patience(Noun):
    """How long who asks waits at most. [ms]"""

    token_ms: Positive
    """Between two tokens, in a service."""
    reader_token_ms: Positive
    """The same where one or two people serve themselves."""
    first_token_ms: Positive
    prompt_token_ms: Positive
    """More until the first token, for each token of the prompt."""
    image_ms: Positive
    source: str

    def between_tokens_ms(self, workload: Workload) -> float:
        """Return the longest usual time between two tokens of an answer. [ms]"""
        few = isinstance(workload, Serving) and for_few(workload)
        return self.reader_token_ms if few else self.token_ms


class Start(Noun):
    """How long a machine takes to serve."""

    provision_s: Positive
    image_s: Positive
    weights_gb_per_s: Positive
    source: str

    def loaded_s(self, weights_bytes: float) -> float:
        """Return the time from a running machine to the first request. [s]"""
        return self.image_s + weights_bytes / (self.weights_gb_per_s * GB)


class ServingDefaults(Noun):
    """The file."""

    patience: Patience
    passage_tokens: Annotated[int, Field(ge=1)]
    """Of one text, of a network that embeds or scores texts. [tokens]"""
    start: Start


serving_defaults = shipped("serving_defaults.yaml", ServingDefaults)
