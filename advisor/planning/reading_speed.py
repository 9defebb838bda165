"""How fast people want an answer, if a case of serving states no latency limit."""

from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.batch.forward import generates
from advisor.estimate.serving.report import STREAM_TOKENS
from advisor.nouns.case import Case
from advisor.nouns.workload import Serving

TOKEN_MS: Final = 200.0
"""Between two tokens, at most. People read 238 words a minute (Brysbaert, 2019, J. Mem. Lang. 109,
104047), and an English word has 4/3 tokens (OpenAI's guide to tokens): 5.3 tokens a second."""
FIRST_TOKEN_MS: Final = 10_000.0
"""Until the first token, at most: the longest wait that keeps attention (Nielsen, 1993, Usability
Engineering, chapter 5)."""
PROMPT_TOKEN_MS: Final = 1.0
"""More for each token of the prompt, since who sends a book expects to wait."""


def at_reading_speed(case: Case, architecture: ModelArchitecture) -> Case:
    """Return a case with the latency limits of a reader where it states none.

    The same object if nothing changes.

    Parameters
    ----------
    case : Case
        Only serving that writes answers token by token changes.
    architecture : ModelArchitecture
        The model of the case, resolved.
    """
    workload, limits = case.workload, case.limits
    if not (
        isinstance(workload, Serving)
        and generates(architecture)
        and workload.output_tokens >= STREAM_TOKENS
    ):
        return case
    update: dict[str, float] = {}
    if limits.max_tpot_ms is None:
        update["max_tpot_ms"] = TOKEN_MS
    if limits.max_ttft_ms is None:
        update["max_ttft_ms"] = FIRST_TOKEN_MS + PROMPT_TOKEN_MS * workload.input_tokens
    if not update:
        return case
    return case.model_copy(update={"limits": limits.model_copy(update=update)})
