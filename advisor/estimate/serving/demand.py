"""The operator table as a serving engine holds it, and the requests that it serves.

Engines keep one copy of the weights, in 16 bits or quantised. They read the projections of one
input as a single matrix, and cache keys and values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from advisor.architecture.pairs import writes_apart
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part, Phase
from advisor.equations.serving.queueing import log_normal_scv
from advisor.estimate.candidates import Columns, Floats, LayoutArrays
from advisor.estimate.hardware.card_formats import UNPADDED, cache_format, padded_widths
from advisor.estimate.serving.engine_limits import batched_tokens
from advisor.estimate.serving.speculation import speculated
from advisor.estimate.serving.stored_bytes import SIXTEEN_BIT_BYTES, bytes_per_parameter
from advisor.foundation.record import by_identity, record
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import KV_CACHE_FORMATS, WeightFormat
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.techniques import reserved_rank, technique_facts
from advisor.nouns.workload import Serving

FUSED_TARGETS: Final = {"q": "qkv", "k": "qkv", "v": "qkv", "gate": "gate_up", "up": "gate_up"}
"""Projections of one input that engines read as one matrix."""

INPUT_DIVIDED_TARGETS: Final = frozenset({"o", "down"})
"""Projections whose inner dimension tensor parallelism divides; otherwise it divides outputs."""


PEOPLE: Final = 1.0
"""Squared coefficient of variation of prompts whose lengths nobody states, as of exponential
ones."""


@record
class ServingLoad(Columns):
    """Requests in flight in the whole deployment. Fields broadcast."""

    input_tokens: Floats
    output_tokens: Floats
    concurrency: Floats
    cached_tokens: Floats = field(default_factory=lambda: np.zeros(1))
    """Tokens of the prompt that the cache holds already: only the others are computed."""
    shared_tokens: Floats = field(default_factory=lambda: np.zeros(1))
    """Tokens that every prompt begins with; an engine that shares prefixes keeps them once."""
    prompt_scv: Floats = field(default_factory=lambda: np.full(1, np.nan))
    """Squared coefficient of variation of the prompts' lengths; nan if nobody states them."""
    step_tokens: Floats = field(default_factory=lambda: np.full(1, np.inf))
    """Tokens of one engine step; infinite for the engine's own limit."""
    verified: Floats = field(default_factory=lambda: np.ones(1))
    """Tokens of one sequence that a step checks: drafts and its own."""
    accepted: Floats = field(default_factory=lambda: np.ones(1))
    """Tokens of one sequence that a step yields."""
    beams: Floats = field(default_factory=lambda: np.ones(1))
    """Texts that the decoder of a pair tries for a request. They share the encoder's output."""
    drafting: Floats = field(default_factory=lambda: np.zeros(1))
    """Time to draft, over that of a step without drafts."""
    adapter_rank: Floats = field(default_factory=lambda: np.zeros(1))
    """Sum of the ranks of the LoRA adapters that the card holds."""
    slowdown: Floats = field(default_factory=lambda: np.ones(1))
    """Time of a step over that without adapters."""
    image_flops: Floats = field(default_factory=lambda: np.zeros(1))
    """Of the vision tower, for each token of a prompt."""
    image_host_s: Floats = field(default_factory=lambda: np.zeros(1))
    """To prepare the images of a request, before the engine reads its prompt. [s]"""
    tower_bytes: Floats = field(default_factory=lambda: np.zeros(1))
    """Weights of the vision tower. [bytes]"""

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """Return the loads of selected configurations, or the one load of all."""
        return self if len(self.concurrency) == 1 else Columns.take(self, index)

    @property
    def alike(self) -> bool:
        """What loads have in common that are joined: whether tokens are drafted."""
        return bool(np.any(self.drafting > 0))

    @classmethod
    def of(cls, workload: Serving) -> ServingLoad:
        """Return one workload as arrays of one element."""
        drafts = speculated(workload)
        images = workload.image_work if workload.images_per_request else None
        read = float(workload.input_tokens)
        return cls(
            input_tokens=np.array([read]),
            output_tokens=np.array([float(workload.output_tokens)]),
            concurrency=np.array([float(workload.concurrency)]),
            cached_tokens=np.array([workload.cached_tokens]),
            shared_tokens=np.array([float(workload.shared_prefix_tokens or 0)]),
            prompt_scv=np.array([_prompt_scv(workload)]),
            step_tokens=np.array([float(workload.step_tokens or np.inf)]),
            verified=np.array([drafts.verified * workload.beam_size]),
            accepted=np.array([drafts.accepted]),
            beams=np.array([float(workload.beam_size)]),
            drafting=np.array([drafts.overhead]),
            adapter_rank=np.array([float(reserved_rank(workload) * (workload.adapters or 0))]),
            slowdown=np.array(
                [technique_facts().adapters.slowdown.expected if workload.adapters else 1.0]
            ),
            image_flops=np.array([images.flops / read if images else 0.0]),
            image_host_s=np.array([images.host_s if images else 0.0]),
            tower_bytes=np.array([images.tower_bytes if images else 0.0]),
        )

    def step_limit(self, served: ServedModel, engine: ServingFacts, memory_bytes: Floats) -> Floats:
        """Return the token limit of one engine step: the stated one, or the engine's own.

        An encoder reads a prompt at once: each of its tokens attends to all others.
        """
        own = batched_tokens(engine, memory_bytes)
        limit = np.where(np.isfinite(self.step_tokens), self.step_tokens, own)
        return np.maximum(limit, self.input_tokens) if served.reads_apart else limit

    def cached_prompt(self, served: ServedModel) -> Floats:
        """Return the prompt tokens that the cache holds: none if an encoder reads the prompt."""
        return np.zeros_like(self.input_tokens) if served.reads_apart else self.input_tokens

    def cached_answers(self) -> Floats:
        """Return the tokens of a request's answers that the cache holds, of all its beams."""
        return self.output_tokens * self.beams

    def kept_once(self, served: ServedModel, engine: ServingFacts) -> Floats:
        """Return the tokens at the start of all prompts that the cache holds once."""
        shares = engine.shares_prefixes and not served.reads_apart
        return np.minimum(self.shared_tokens, self.input_tokens - 1.0) * shares

    def per_engine(self, layout: LayoutArrays) -> Floats:
        """Return the requests in flight on the busiest data-parallel rank."""
        return np.ceil(self.concurrency / layout.data)


def _prompt_scv(workload: Serving) -> float:
    """Return the variation of the prompts of users at once; a rate has a queue of its own."""
    high = workload.input_tokens_p95
    if high is None or workload.requests_per_s is not None:
        return np.nan
    return log_normal_scv(ratio=high / workload.input_tokens)


@record
class ServedMatrix:
    """One matrix product of the engine in one layer; fused projections count as one."""

    name: str
    part: Part
    layers: int
    division: Division
    in_features: int
    out_features: int
    input_divided: bool
    experts: int
    active_experts: int
    wide: bool
    """Whether its weights have 16 bits or more."""
    phase: Phase


@record
class ServedModel:
    """The operator table as an engine holds it, before parallelism divides it."""

    model: ModelArchitecture
    weight_format: WeightFormat
    """Of the first configuration."""
    sizes: Floats
    """Bytes of a cached element, of a parameter of each row, and of one of each matrix product, and
    what routed experts are padded to, in one column for all configurations, or in one for each."""
    kind: tuple[object, ...]
    """What formats have in common that differ in these sizes alone."""
    matrices: tuple[ServedMatrix, ...]
    attention: tuple[Operator, ...]
    """Rows with a cache or a state."""
    elementwise: tuple[Operator, ...]

    @property
    def alike(self) -> tuple[object, ...]:
        """What models have in common that are joined."""
        return id(self.model), self.kind

    @property
    def cache_bytes(self) -> Floats:
        """Bytes of one cached element."""
        return np.asarray(self.sizes[0])

    @property
    def row_bytes(self) -> Floats:
        """Bytes of one stored parameter of each row of the table."""
        return np.asarray(self.sizes[1 : 1 + len(self.model.operators)])

    @property
    def matrix_bytes(self) -> Floats:
        """Bytes of one stored parameter of each matrix product."""
        return np.asarray(self.sizes[1 + len(self.model.operators) : -2])

    @property
    def padded_to(self) -> Floats:
        """Multiples that widths of routed experts fill: outside, and inside on one rank."""
        return np.asarray(self.sizes[-2:])

    @classmethod
    def joined(cls, models: Sequence[ServedModel], numbers: Sequence[int]) -> ServedModel:
        """Return a model in formats of one kind as one, each for a number of configurations."""
        if all(other is models[0] for other in models):
            return models[0]
        pairs = zip(models, numbers, strict=True)
        sizes = [one.sizes.repeat(number // one.sizes.shape[1], axis=1) for one, number in pairs]
        return replace(models[0], sizes=np.hstack(sizes))

    def take(self, index: NDArray[np.intp]) -> ServedModel:
        """Return the model of selected configurations."""
        single = self.sizes.shape[1] == 1
        return self if single else replace(self, sizes=self.sizes[:, index])

    @property
    def routed_layers(self) -> int:
        """Layers with routed experts."""
        return max((matrix.layers for matrix in self.matrices if matrix.experts > 1), default=0)

    @property
    def further_norms(self) -> int:
        """Norms as wide as the stream in all layers, besides the one before each branch."""
        wide = (
            row.layers
            for row in self.elementwise
            if row.kind is OperatorKind.NORMALIZATION
            and row.part is Part.BLOCK
            and row.parameters >= self.model.hidden_size
        )
        return max(sum(wide) - self.model.branches, 0)

    @property
    def scan_layers(self) -> int:
        """Layers with a recurrence."""
        return sum(row.layers for row in self.attention if row.state_elements_per_sequence)

    @property
    def delta_layers(self) -> int:
        """Layers whose recurrence removes from its state what it writes anew."""
        return self._layers_with("write_strength")

    @property
    def latent_layers(self) -> int:
        """Layers whose keys and values are expanded from a latent."""
        return self._layers_with("key_value_compress")

    def arrival_s(self, engine: ServingFacts) -> float:
        """Return the time from a request's arrival to its first step. [s]"""
        return (
            engine.request_overhead_s
            + self.routed_layers * engine.routed_request_overhead_s
            + self.latent_layers * engine.latent_request_overhead_s
        )

    def _layers_with(self, matrix: str) -> int:
        return sum(row.layers for row in self.matrices if row.name.endswith(matrix))

    @property
    def index_layers(self) -> int:
        """Layers whose attention picks keys by an index."""
        found = (row.layers for row in self.attention if row.name.endswith("index_scores"))
        return max(found, default=0)

    @property
    def encoder_layers(self) -> int:
        """Layers that run over the prompt alone."""
        return max((row.layers for row in self.attention if row.phase is Phase.PROMPT), default=0)

    @property
    def reads_apart(self) -> bool:
        """Whether an encoder reads the prompt; then the decoder caches none of its tokens."""
        return writes_apart(self.model)

    @classmethod
    @by_identity(256)
    def of(
        cls,
        model: ModelArchitecture,
        *,
        weight_format: WeightFormat,
        cache_bytes: float,
        padded_to: tuple[int, int] = UNPADDED,
    ) -> ServedModel:
        """Return ``model`` as an engine holds it.

        ``weight_format``: storage of the weights, see :func:`bytes_per_parameter`. ``cache_bytes``:
        bytes of one cached element, see ``precision.KV_CACHE_FORMATS``. [bytes] ``padded_to``: see
        :func:`padded_widths`.
        """
        rows = model.operators
        stored = [bytes_per_parameter(row, weight_format, model) for row in rows]
        joined = tuple(_fused(model, stored))  # networks of convolutions have none
        matrices, fused = tuple(item[0] for item in joined), tuple(item[1] for item in joined)
        wide = (weight_format.bytes_per_parameter, *fused)
        return cls(
            model=model,
            weight_format=weight_format,
            sizes=np.array([cache_bytes, *stored, *fused, *padded_to])[:, None],
            kind=(
                weight_format.engine,
                weight_format.expanded,
                *(size >= SIXTEEN_BIT_BYTES for size in wide),
            ),
            matrices=matrices,
            attention=tuple(
                row
                for row in rows
                if row.cache_elements_per_token
                or row.flops_per_token_per_key
                or row.state_elements_per_sequence
            ),
            elementwise=tuple(row for row in rows if row.moved_elements_per_token > 0),
        )


def served_on(
    card: Accelerator, model: ModelArchitecture, workload: Serving, weight_format: WeightFormat
) -> ServedModel:
    """Return a model as an engine holds it on a card, with the asked cache or the card's usual."""
    cache = KV_CACHE_FORMATS[cache_format(workload, card)]
    padded_to = padded_widths(card, weight_format)
    return ServedModel.of(
        model, weight_format=weight_format, cache_bytes=cache, padded_to=padded_to
    )


def _fused(
    model: ModelArchitecture, stored_bytes: Sequence[float]
) -> Iterable[tuple[ServedMatrix, float]]:
    """Yield the matrix products, and the bytes of a parameter of each.

    The projections of one input are one product.
    """
    merged: dict[tuple[str, ...], tuple[ServedMatrix, float]] = {}
    for row, each in zip(model.operators, stored_bytes, strict=True):
        if not (row.in_features and row.out_features and row.kind in _MATRIX_KINDS):
            continue
        group = FUSED_TARGETS.get(row.target or "")
        parent = row.name.rsplit(".", 1)[0]
        # Only rows of one parent fuse: alternating layer groups keep their own matrices. Of a
        # decoder's, those that read the encoder's output run over the prompt, the others later.
        shared = (parent, group or "", str(row.in_features), row.division, row.phase)
        key = shared if group else (row.name,)
        width, size = row.out_features, row.out_features * each
        if key in merged:
            other, mean = merged[key]
            width += other.out_features
            size += other.out_features * mean
        matrix = ServedMatrix(
            name=row.name,
            part=row.part,
            layers=row.layers,
            division=row.division,
            in_features=row.in_features,
            out_features=width,
            input_divided=row.target in INPUT_DIVIDED_TARGETS,
            experts=row.experts,
            active_experts=row.active_experts,
            wide=size / width >= SIXTEEN_BIT_BYTES,
            phase=row.phase,
        )
        merged[key] = matrix, size / width
    return merged.values()


_MATRIX_KINDS: Final = frozenset({OperatorKind.MATMUL, OperatorKind.ROUTING})
