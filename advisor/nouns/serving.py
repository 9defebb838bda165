"""Serving a model: what requests ask for, how they arrive and what answers them."""

import math
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from advisor.foundation.names import Name, one_of
from advisor.nouns.demand import Demand, RequestRate, Sound
from advisor.nouns.inputs import DIFFUSION, PAIRS, TEXT, VISION, WRITING, Labelled, Reads, asked
from advisor.nouns.precision import KV_CACHE_FORMATS, SPELLED, WEIGHT_FORMATS
from advisor.nouns.sizes import Length, Sized
from advisor.nouns.software.names import SERVED_BY, EngineName
from advisor.nouns.techniques import Techniques

MOST_SPREAD: Final = 3.8
"""Largest 95th percentile over the mean that a log-normal length can have: exp(1.645^2 / 2)."""


class Arrivals(Labelled):
    """How requests arrive."""

    CONSTANT = "constant", "at equal intervals"
    POISSON = "poisson", "on their own (Poisson)"
    BURSTY = "bursty", "in bursts"

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the times between them.

        Bursty traffic: 4, a gamma distribution of shape 0.25. Assumed; BurstGPT (Wang et al. 2024,
        arXiv:2401.17644) finds gamma shapes below 1 for conversations.
        """
        return {"constant": 0.0, "poisson": 1.0, "bursty": 4.0}[self.value]


class Serving(Sized, Techniques):
    """Answering requests: continuous batching of text, batches of ``concurrency`` images."""

    kind: Literal["serving"] = "serving"
    input_tokens: Length = asked(
        "prompt tokens per request: 8192, or 8K for the same",
        label="Prompt tokens",
        networks=TEXT,
        default=1024,
    )
    output_tokens: Length = asked(
        "generated tokens per request",
        label="Answer tokens",
        networks=WRITING,
        default=256,
    )
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] = asked(
        "requests in flight at the same time; of images, the batch",
        label="Users at once",
        advanced=False,
        default=8,
    )
    requests_per_s: RequestRate | None = asked(
        "requests that arrive, instead of a concurrency: 10/s, 600/min, 500 users x 12/h",
        "--requests-per-second",
        label="Requests/s",
        networks=WRITING,
        advanced=False,
        blank="As the users send",
        explained="What arrives, in place of the users at once: 10/s, 600/min, 1M/day or 500 "
        "users x 12/h. Percentiles of the latencies follow.",
    )
    """Takes the place of the concurrency, which then follows from it. [requests/s]"""
    audio_hours: Sound | None = asked(
        "hours of sound to transcribe, instead of a concurrency: 1000/day, 5000 in 3 days",
        label="Hours of sound",
        networks=PAIRS,
        advanced=False,
        blank="As the requests at once take",
        explained="What is to be transcribed, in place of the requests at once: 1000 (a day), "
        "20K/week or 5000 in 3 days.",
    )
    """Takes the place of the concurrency; the rate of requests follows from it. [h/day]"""
    demand: Demand | None = None
    """A day or a week; its peak takes the place of ``requests_per_s``."""
    arrivals: Arrivals = asked(
        "how requests arrive",
        label="Requests arrive",
        metavar="HOW",
        networks=WRITING,
        needs="requests_per_s",
        default=Arrivals.POISSON,
    )
    input_tokens_p95: Length | None = asked(
        "length that 95 % of the prompts stay under; then --input-tokens is the mean, and the "
        "same number says that all are alike",
        label="Prompt tokens, 95 %",
        networks=WRITING,
        blank="Not stated",
    )
    """Lengths are log-normal. None: they vary as people's do."""
    output_tokens_p95: Length | None = asked(
        "length that 95 % of the answers stay under; then --output-tokens is the mean",
        label="Answer tokens, 95 %",
        networks=WRITING,
        blank="All alike",
        needs="requests_per_s",
    )
    spare_replicas: Annotated[int, Field(ge=0, le=64)] = asked(
        "replicas beyond those that carry the load, which take over when one fails: 1 is n+1",
        label="Spare replicas",
        reads=Reads.PLAIN,
        default=0,
    )
    """The rent includes them; speeds and limits hold with all of them lost."""
    load_balancer: bool | None = asked(
        "add the provider's load balancer to the rent (no)",
        label="Load balancer in the rent",
        networks=WRITING,
        blank="No",
    )
    beam_size: Annotated[int, Field(ge=1, le=64)] = asked(
        "encoder-decoder pairs: texts that the decoder tries beside each other; faster-whisper "
        "and whisper.cpp take 5 unless told",
        label="Beams",
        networks=PAIRS,
        default=1,
    )
    frames_per_s: Annotated[float, Field(ge=0.01, le=1000, allow_inf_nan=False)] | None = asked(
        "frames per second of one camera: says how many cameras the hardware carries",
        "--frames-per-second",
        label="Frames/s of a camera",
        networks=VISION,
        metavar="RATE",
    )
    """Of networks that see an image once. [1/s]"""
    denoising_steps: Annotated[int, Field(ge=1, le=10_000)] | None = asked(
        "diffusion: passes through the network for one image (50, FLUX.1 schnell 4)",
        label="Denoising steps",
        networks=DIFFUSION,
    )
    """None takes a stated default."""
    guidance: bool | None = asked(
        "diffusion: classifier-free guidance, which doubles every pass (as usual for the model)",
        label="Guidance (doubles each step)",
        networks=DIFFUSION,
        blank="As usual for the model",
    )
    """None: as pipelines of the model do it."""
    engine: Annotated[EngineName | None, SERVED_BY] = None
    """A serving tool. None takes the usual one of card and model."""
    weight_format: Annotated[Name, one_of("weight_format", WEIGHT_FORMATS, SPELLED)] | None = asked(
        "number format of the weights",
        "--weights",
        label="Weight format",
        metavar="FORMAT",
        choices=lambda: WEIGHT_FORMATS,
        labels=lambda: {name: item.title for name, item in WEIGHT_FORMATS.items()},
        blank="Let the search choose",
    )
    """None lets the search choose; estimates take the model's own 16-bit format."""
    kv_cache_format: (
        Annotated[Name, one_of("kv_cache_format", KV_CACHE_FORMATS, SPELLED)] | None
    ) = asked(
        "number format of keys and values",
        "--kv-cache",
        label="Key-value cache",
        metavar="FORMAT",
        choices=lambda: KV_CACHE_FORMATS,
        networks=WRITING,
        blank="Let the search choose",
    )

    @property
    def cached_tokens(self) -> float:
        """Tokens of a prompt that the prefix cache holds; the last is always computed."""
        hits = math.floor((self.prefix_hit_share or 0.0) * self.input_tokens)
        return float(min(max(hits, self.shared_prefix_tokens or 0), self.input_tokens - 1))

    @property
    def rate_words(self) -> str:
        """Return the stated rate in words; empty if users at once or a day are stated."""
        if self.audio_hours is not None:
            return f"{self.audio_hours:g} hours of sound a day"
        return "" if self.requests_per_s is None else f"{self.requests_per_s:g} requests/s"

    @model_validator(mode="after")
    def _one_load(self) -> Self:
        names = ("concurrency", "requests_per_s", "demand", "audio_hours")
        given = [name for name in names if name in self.model_fields_set]
        given = [name for name in given if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of {', '.join(names)}, not both of {' and '.join(given)}")
        if (self.shared_prefix_tokens or 0) >= self.input_tokens:
            raise ValueError(
                f"shared_prefix_tokens={self.shared_prefix_tokens} must be under "
                f"input_tokens={self.input_tokens}, the whole prompt"
            )
        for name in ("input_tokens", "output_tokens"):
            high = getattr(self, f"{name}_p95")
            if high is not None and not 1 <= high / getattr(self, name) <= MOST_SPREAD:
                raise ValueError(
                    f"{name}_p95={high} must be {name}={getattr(self, name)} to {MOST_SPREAD:g} "
                    "times as much"
                )
        return self
