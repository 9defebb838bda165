"""The deployment and the load of a row of serving measurements, and its times."""

from dataclasses import replace
from typing import Final

import numpy as np

from advisor.architecture.pairs import as_writer, is_pair
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.guesses import cache_bytes, filled, weight_format
from advisor.calibration.tables.reading import Row, built
from advisor.catalog.nodes import owned_node
from advisor.catalog.usual_machines import usual_machines
from advisor.errors import refusal
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.card_formats import compute_format, padded_widths
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.memory import serving_capacity
from advisor.estimate.terms import shape_widening
from advisor.foundation.record import record
from advisor.foundation.units import GB
from advisor.nouns.hardware import Accelerator, Node
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.serving import Arrivals, Serving
from advisor.nouns.software.engines import ServingFacts, builds_at
from advisor.nouns.software.kernels import generations

KINDS: Final = (
    "llm_online",
    "llm_saturated",
    "llm_single_stream",
    "llm_prefill",
    "llm_static_batch",
)
ONLINE: Final = "llm_online"
SATURATED: Final = "llm_saturated"
BURST: Final = "llm_burst"
"""Finite bursts, which tables state as served runs with ``arrival`` ``burst``."""
ARRIVING: Final = "llm_arrivals"
"""Servers at which requests arrive at a stated rate."""
ARRIVALS: Final = {
    "poisson": Arrivals.POISSON,
    "constant": Arrivals.CONSTANT,
    "bursty": Arrivals.BURSTY,
}
"""Words of the column ``arrival`` that need a rate."""
DIRECT_RANKS: Final = 2
"""Cards without NVLink whose reduction vLLM's own kernel does; more of them take NCCL
(vllm/distributed/device_communicators/custom_all_reduce.py)."""
PERCENTILE: Final = {"": None, "mean": None, "p50": 0.5, "p95": 0.95, "p99": 0.99}
"""Words of the column ``percentile``, with the share of the requests that are faster."""
BURST_REQUESTS: Final = 1000
"""Requests of a burst if the row states none: the default of ``vllm bench serve``."""
FIXED: Final = ("llm_static_batch", "llm_prefill")
"""Kinds without arrivals."""
SINGLE: Final = "llm_single_stream"
FIRST_ENGINE: Final = "vllm"
"""The engine whose constants and intervals have no prefix in their names."""
UNLIMITED: Final = 2048
"""Most sequences of an engine at an unlimited rate (TensorRT-LLM's ``max_batch_size``)."""


@record
class Deployment:
    """A row's model under its engine on its hardware."""

    served: ServedModel
    candidates: Candidates
    engine: ServingFacts
    engine_name: str
    routed: bool
    measured: bool
    """The kernels of the card's kind, and the engine."""
    widening: float
    interface: str = ""
    """Interface of the engine to the card; empty for the usual one."""
    settings: tuple[tuple[str, float], ...] = ()
    """Facts of the engine that the run set otherwise."""
    percentile: float | None = None
    """Share of the requests that are faster than the row's latencies; None for the mean."""
    finite: bool = False
    """Whether the run is a finite number of requests that come together."""
    in_step: bool = False
    """Whether requests that start together end together."""

    def under(self, facts: ServingFacts) -> ServingFacts:
        """Return an engine's facts with the settings of the run."""
        return facts.changed(**dict(self.settings))


def as_run(row: Row) -> Row:
    """Return a row of a serving table as it ran: with what its source leaves open filled in.

    Lengths drawn from a range count with their mean (``length_share`` of the nominal ones). The
    number of requests may be stated by those in flight (``rounds``), the tokens of a prompt that
    the cache holds by their share.
    """
    found = filled(row, "serving")
    if share := found.positive("length_share"):
        for column in ("input_tokens", "output_tokens"):
            found[column] = str(round(share * found.integer(column, 1)))
    flight, rate = found.integer("concurrency", 1), found.number("requests_per_s") or 0.0
    rounds, lasted_s = found.integer("rounds", 0), found.number("lasted_s") or 0.0
    if not found.cell("burst_requests") and (rounds or lasted_s):
        found["burst_requests"] = str(max(rounds * flight, flight, round(rate * lasted_s)))
    hit = found.number("prefix_hit_share")
    if hit and found.cell("kind") in FIXED and not found.cell("cached_tokens"):
        found["cached_tokens"] = str(max(1, round(hit * found.integer("input_tokens", 1))))
        found["prefix_hit_share"] = ""
    return found


def row_node(row: Row, accelerator: Accelerator) -> Node:
    """Return the machine that holds a row's cards, with the rates that the row states."""
    node = owned_node(accelerator, row.integer("num_accelerators", 1))
    stated: dict[str, object] = {}
    rate = row.number("host_memory_bandwidth_gb_s")
    if rate is not None:
        stated["host_memory_bandwidth_bytes_per_s"] = rate * GB
    if row.cell("pcie_generation"):
        # No bridge joins the cards: all of them talk over their slots.
        rates = usual_machines().x16_bytes_per_s()
        rate = row.choice("pcie_generation", {str(number): rates[number] for number in rates})
        stated |= {
            "accelerators": max(node.accelerators, row.integer("num_accelerators", 1)),
            "pcie_bytes_per_s": rate,
            "intra_bytes_per_s": rate,
            "intra_domain": 1,
        }
    return node.changed(**stated)


BENCH: Final = "llama-bench"
"""A run that only calls the kernels: it samples nothing, and no request comes in."""


EQUAL: Final = "equal"
"""Word of the column ``lengths`` if all prompts and all answers of a run are equally long."""
HELD: Final = "fixed"
"""The same, of a client that lets no answer end early: requests that start together end together
and start together again."""


def _settings(row: Row) -> tuple[tuple[str, float], ...]:
    """Return what a run set: its steps, places of a burst, and no sampling."""
    found: dict[str, float] = {}
    if (steps := row.number("gathering_steps")) is not None:
        found["gathering_steps"] = steps
    if row.cell("step_tokens"):
        tokens = row.integer("step_tokens", 1)
        found |= {"batched_tokens": tokens, "small_batched_tokens": tokens}
    if row.cell("harness") == BENCH:
        found |= dict.fromkeys(("step_overhead_s", "layer_overhead_s", "sequence_overhead_s"), 0.0)
    if row_kind(row) == ONLINE and row.cell("burst_requests"):
        # Only the first round of a closed loop starts together.
        rounds = row.integer("burst_requests", 1) / row.integer("concurrency", 1)
        found["start_wave"] = 1 / max(rounds, 1.0)
    if row.cell("kernels") == "tuned":
        found["general_experts_s"] = 0.0
    if (rendered_s := row.number("template_s")) is not None:
        found["template_s"] = rendered_s
    if row.cell("lengths") == EQUAL:
        found["ends_together"] = True
    else:
        found["prompts_in_step"] = 0.0
    if row_kind(row) == BURST and row.cell("kind") == SATURATED and row.cell("concurrency"):
        found["running_sequences"] = row.integer("concurrency", 1)
    elif row.cell("slots"):
        found["running_sequences"] = row.integer("slots", 1)
    return tuple(found.items())


def row_kind(row: Row) -> str:
    """Return a row's kind: a finite burst is apart from an engine that stays full."""
    kind, arrival = row.cell("kind"), row.cell("arrival")
    if kind in (ONLINE, SATURATED) and arrival == "burst":
        return BURST
    arrives = kind == ONLINE and arrival in ARRIVALS and row.number("requests_per_s") is not None
    return ARRIVING if arrives else kind


def _finite(row: Row) -> bool:
    """Whether requests come all at once and end: a burst, or a full engine's known number."""
    kind = row_kind(row)
    return kind == BURST or (kind == SATURATED and bool(row.cell("burst_requests")))


def row_group(row: Row) -> str:
    """Return the key of the runs that differ from this row only in their load."""
    columns = ("kind", "model", "accelerator", "engine", "weight_precision", "num_accelerators")
    return " | ".join(row.cell(column) for column in columns)


def row_deployment(row: Row, engine: Engine) -> Deployment:
    """Return the deployment that a row of serving measurements describes.

    Raises InputError if the row's model or format is unknown, or a cell is unusable.
    """
    architecture = engine.architecture(row)
    if is_pair(architecture):
        architecture = as_writer(architecture)
    accelerator = engine.accelerator(row)
    stored = weight_format(row)
    pipeline, data = row.integer("pipeline", 1), row.integer("data", 1)
    count = row.integer("num_accelerators", pipeline * data)
    layout = built(
        ParallelLayout,
        {
            # Data-parallel attention divides the experts among its ranks, unless a row says not.
            "expert": min(row.integer("expert_parallel", data), data)
            if architecture.num_experts > 1
            else 1,
            **row.stated(ParallelLayout),
            "data": data,
            "pipeline": pipeline,
            "tensor": row.integer("tensor", max(1, count // (pipeline * data))),
        },
    )
    padded = padded_widths(accelerator, stored)
    served = ServedModel.of(
        architecture, weight_format=stored, cache_bytes=cache_bytes(row), padded_to=padded
    )
    engines = engine.calibration.engines
    date = row.cell("software_date") or row.cell("measured_date")
    cards, recurrent = generations(accelerator), served.scan_layers > 0
    name = builds_at(engines, row.cell("engine"), date, cards, recurrent=recurrent)
    facts = engines.get(name, engine.calibration.serving)
    interface = row.cell("backend")
    kernels, measured = engine.calibration.served_kernels(accelerator, stored, facts, interface)
    settings = _settings(row)
    if name == FIRST_ENGINE and accelerator.architecture in facts.small_step_cards:
        # The limits that the engine takes by itself on cards where it keeps steps small.
        settings = (
            ("batched_tokens", facts.small_batched_tokens),
            ("sampled_sequences", facts.small_sampled_sequences),
            *settings,
        )
    if row.cell("mixed_chunk") == "on":
        # Requests fall out of step as under the engine that always mixes.
        loops = ("start_wave", "loop_variation", "prompts_in_step")
        first = engine.calibration.serving
        settings += (("stops_generation", False), *((one, getattr(first, one)) for one in loops))
    strange = name != FIRST_ENGINE and name not in engines
    if row_kind(row) == SINGLE and not facts.backends:
        # Bare generation has no scheduler.
        settings += (("sequence_overhead_s", 0.0), ("step_overhead_s", 0.0))
    elif row_kind(row) in FIXED and strange:
        # Scripts with a fixed batch schedule nothing, and replay captured graphs.
        settings += (("sequence_overhead_s", 0.0), ("prompt_overhead_s", 0.0))
    hardware = HardwareArrays.of(
        accelerator,
        row_node(row, accelerator),
        kernels,
        compute=compute_format(accelerator, stored),
    )
    if row.cell("peer_to_peer") == "yes" and layout.tensor <= DIRECT_RANKS:
        hardware = replace(hardware, staged=np.zeros(1))
    return Deployment(
        served=served,
        candidates=Candidates(layout=LayoutArrays.of(layout), hardware=hardware),
        engine=facts.changed(**dict(settings)),
        engine_name=name,
        interface=interface,
        settings=settings,
        routed=architecture.num_experts > 1,
        measured=measured and not strange,
        percentile=row.choice("percentile", PERCENTILE),
        finite=_finite(row),
        in_step=bool(row.cell("lengths")) if _finite(row) else row.cell("lengths") == HELD,
        widening=shape_widening(architecture),
    )


def row_load(row: Row, kind: str, deployment: Deployment, engine: Engine) -> ServingLoad:
    """Return the requests in flight: the row's, or as many as the cache holds."""
    counts = {
        "input_tokens": _tokens(row, "input_tokens"),
        "output_tokens": _tokens(row, "output_tokens"),
        "concurrency": row.integer("burst_requests", BURST_REQUESTS)
        if deployment.finite
        else row.integer("concurrency", 1),
    }
    load = ServingLoad.of(
        built(Serving, row.stated(Serving, leave=("engine", "requests_per_s")) | counts)
    )
    if row.cell("cached_tokens"):
        cached = min(row.integer("cached_tokens", 1), counts["input_tokens"] - 1)
        load = replace(load, cached_tokens=np.array([float(cached)]))
    if row.cell("lengths") and kind != BURST:
        load = replace(load, prompt_scv=np.zeros(1))
    if kind not in (SATURATED, BURST):
        return load
    layout, hardware = deployment.candidates.layout, deployment.candidates.hardware
    memory = hardware.served_memory_bytes, engine.calibration, hardware.host_memory_bytes
    # The run ran, so the expected memory counts, not its upper bound.
    held = float(serving_capacity(deployment.served, load, layout, *memory).expected_concurrency[0])
    if held < 1:
        raise refusal("row_without_room", value=row.cell("accelerator"))
    if deployment.finite:
        return load
    return replace(load, concurrency=np.array([min(held, float(UNLIMITED))]))


def _tokens(row: Row, column: str) -> int:
    """Return a length; 0 for the prompt of bare generation and the answer of bare prefill."""
    return 1 if row.number(column) == 0 else row.integer(column, 1)
