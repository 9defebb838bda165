"""Techniques of serving: what a case may state of them, and their published gains."""

from typing import Annotated

from pydantic import Field

from advisor.errors import refusal
from advisor.foundation.formatting import percent
from advisor.foundation.names import HubId
from advisor.foundation.noun import Noun, shipped
from advisor.nouns.images import ImageWork
from advisor.nouns.inputs import WRITING, Labelled, Reads, asked


class Speculation(Labelled):
    """Ways to draft tokens that the model then checks in one step."""

    DRAFT = "draft", "Draft model"
    EAGLE = "eagle", "EAGLE, EAGLE-2"
    EAGLE3 = "eagle3", "EAGLE-3"
    MEDUSA = "medusa", "Medusa"
    NGRAM = "ngram", "N-grams of the prompt"
    MTP = "mtp", "The model's own heads (MTP)"

    @property
    def ready(self) -> bool:
        """Whether it drafts with what the model or the hub has, not with a checkpoint to choose."""
        return self in (Speculation.EAGLE3, Speculation.NGRAM, Speculation.MTP)


class TextKind(Labelled):
    """Kinds of text, which drafts hit more or less often."""

    CHAT = "chat", "Chat"
    TRANSLATION = "translation", "Translation"
    SUMMARY = "summary", "Summaries"
    QA = "qa", "Questions"
    MATHS = "maths", "Mathematics"
    RAG = "rag", "Answers from documents"


class Techniques(Noun):
    """Techniques that a serving case states."""

    prefix_hit_share: Annotated[float, Field(ge=0, le=0.999, allow_inf_nan=False)] | None = asked(
        "share of the prompt tokens that the prefix cache holds already: 0.6 or 60%",
        "--prefix-hits",
        label="Prompt share in the cache",
        reads=Reads.PLAIN,
        networks=WRITING,
        blank="None",
    )
    """Shared system prompts, documents and earlier turns. None: every prompt is new."""
    shared_prefix_tokens: Annotated[int, Field(ge=0, le=100_000_000)] | None = asked(
        "tokens that every prompt begins with, such as instructions and tools: engines with a "
        "prefix cache read and keep them once",
        "--shared-prefix",
        label="Tokens that all prompts share",
        reads=Reads.LENGTH,
        networks=WRITING,
        blank="None",
    )
    speculation: Speculation | None = asked(
        "speculative decoding", label="Speculative decoding", networks=WRITING, blank="None"
    )
    draft_tokens: Annotated[int, Field(ge=1, le=64)] | None = asked(
        "tokens drafted for one step (as published for the method)"
    )
    acceptance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = asked(
        "share of the drafted tokens that the model accepts (as published for the method)",
        reads=Reads.PLAIN,
    )
    text_kind: TextKind | None = asked("kind of text, for the gain of speculative decoding")
    step_tokens: Annotated[int, Field(ge=16, le=1_000_000)] | None = asked(
        "tokens of one engine step: long prompts are read in chunks of it (the engine's own)",
        reads=Reads.LENGTH,
    )
    """Chunked prefill: fewer tokens keep the time per token even, more read prompts faster."""
    disaggregated: bool | None = asked(
        "also search two pools of replicas: one reads prompts, the other writes answers (no)",
        label="Prefill and decode in two pools",
        networks=WRITING,
        blank="No",
    )
    adapters: Annotated[int, Field(ge=1, le=1024)] | None = asked(
        "LoRA adapters that a server holds on the card at once, each request with its own",
        label="LoRA adapters at once",
        reads=Reads.PLAIN,
        networks=WRITING,
        blank="None",
    )
    adapter_rank: Annotated[int, Field(ge=1, le=512)] | None = asked(
        "largest rank of the served adapters (16)"
    )
    images_per_request: Annotated[int, Field(ge=1, le=256)] | None = asked(
        "images in each prompt, besides its text, of models that read images",
        label="Images per request",
        reads=Reads.PLAIN,
        networks=WRITING,
        blank="None",
    )
    prompt_image_size: Annotated[int, Field(ge=1, le=65_536)] | None = asked(
        "side of a square image in a prompt; of another, the root of its pixels (1024)",
        label="Image in a prompt",
        unit="pixels",
        metavar="PX",
        networks=WRITING,
        blank="1,024",
        needs="images_per_request",
    )
    image_work: ImageWork | None = None
    """Follows from model, number and size; then the prompt's tokens include the images."""


class Gain(Noun):
    """Speed with the technique over speed without it."""

    low: Annotated[float, Field(gt=0, le=100)]
    expected: Annotated[float, Field(gt=0, le=100)]
    high: Annotated[float, Field(gt=0, le=100)]


class SpeculationFacts(Noun):
    """Published measurements of one way to speculate."""

    title: str
    draft_tokens: Annotated[int, Field(ge=1)]
    verified: Annotated[int, Field(ge=1)]
    accepted: Annotated[float, Field(ge=1)]
    gain: Gain
    tasks: dict[TextKind, Annotated[float, Field(gt=0)]]
    source: str


class PublishedHeads(Noun):
    """EAGLE-3 heads on the hub: for each program, the heads of each model."""

    vllm: dict[HubId, HubId]
    sglang: dict[HubId, HubId]
    date: str
    source: str


class AdapterFacts(Noun):
    """Published measurements of servers with LoRA adapters."""

    rank: int
    ranks: tuple[int, ...]
    slowdown: Gain
    runs: str
    source: str


class TrafficFacts(Noun):
    """What the text of requests takes on its way to a server and back."""

    prompt_token_bytes: Annotated[float, Field(gt=0)]
    streamed_token_bytes: Annotated[float, Field(gt=0)]
    source: str


class PoolFacts(Noun):
    """What is published of prefill and decode in two pools."""

    words: str
    source: str


class TechniqueFacts(Noun):
    """What is published of the techniques."""

    speculation: dict[Speculation, SpeculationFacts]
    heads: PublishedHeads
    adapters: AdapterFacts
    traffic: TrafficFacts
    pools: PoolFacts


technique_facts = shipped("serving_techniques.yaml", TechniqueFacts)


def in_words(stated: Techniques) -> str:
    """Return what a case states, e.g. ``, 70 % of each prompt in the cache``; empty if nothing."""
    hits, shared, speculation = stated.prefix_hit_share, stated.shared_prefix_tokens, ""
    if stated.speculation:
        speculation = technique_facts().speculation[stated.speculation].title
    parts = {
        f"{percent(hits or 0.0)} of each prompt in the cache": hits,
        f"{shared or 0:,} tokens of each prompt the same": shared,
        f"drafts by {speculation}": speculation,
        f"{stated.adapters} LoRA adapters": stated.adapters,
    }
    return "".join(f", {words}" for words, said in parts.items() if said)


def reserved_rank(stated: Techniques) -> int:
    """Return the rank that an engine reserves for each adapter; 0 without adapters.

    Raises InputError if a rank is given and no adapters.
    """
    if stated.adapters is None:
        if stated.adapter_rank is None:
            return 0
        raise refusal("rank_without_adapters", value=str(stated.adapter_rank))
    facts = technique_facts().adapters
    wanted = stated.adapter_rank or facts.rank
    return min(rank for rank in facts.ranks if rank >= wanted)


def drafted(stated: Techniques) -> int:
    """Return the tokens drafted for one step: the stated number, or as published."""
    assert stated.speculation is not None
    return stated.draft_tokens or technique_facts().speculation[stated.speculation].draft_tokens
