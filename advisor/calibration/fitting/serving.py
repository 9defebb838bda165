"""Overheads of serving engines, fitted on the times of published runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from advisor.calibration.fitting.robust import Parameter, fit_log_times, rounded
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.deployments import BURST
from advisor.calibration.tables.served_runs import (
    OFFLOADED,
    Known,
    Pack,
    Reading,
    predicted_s,
    read_packs,
    readings_of,
)
from advisor.estimate.candidates import Floats
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import OTHERS, ServingFacts, joined_engines

TOLERANCE: Final = 1e-5
"""Relative gain below which these fits have converged: the constants repeat to 0.1 %."""
FOLDS: Final = 4
"""Parts in which readings are held out."""
SERVER_KINDS: Final = ("llm_online", "llm_prefill", "llm_saturated", "llm_static_batch")
DIRECT_KINDS: Final = ("llm_single_stream", "llm_prefill")
CALLED_KINDS: Final = ("llm_single_stream", "llm_prefill", "llm_static_batch")


@dataclass(frozen=True, slots=True)
class EngineFit:
    """The constants of one engine, and the runs for the fit."""

    name: str
    kinds: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    """Names of ``ServingFacts``, or of ``BackendFacts`` behind the generations and a slash."""


def _overhead(name: str, start: float) -> Parameter:
    return Parameter(name, starts=(start,), low=start / 100, high=start * 100)


def _share(name: str, start: float) -> Parameter:
    return Parameter(name, starts=(start,), low=0.01, high=0.99)


def _kernels(generations: str, **starts: float) -> tuple[Parameter, ...]:
    """Constants of generations; shares of a bandwidth stay below 1."""
    return tuple(
        _share(f"{generations}/{name}", start)
        if name.endswith("bandwidth")
        else _overhead(f"{generations}/{name}", start)
        for name, start in starts.items()
    )


HOST_SECTION: Final = "host"
"""Section of an engine's constants for the host's memory."""

SERVED: Final = (
    _overhead("step_overhead_s", 1e-3),
    _overhead("layer_overhead_s", 1e-5),
    _overhead("sequence_overhead_s", 2e-5),
    _overhead("prompt_overhead_s", 2e-4),
    _overhead("request_overhead_s", 5e-2),
    # A wave of requests that never falls out of step is one benchmark's, not an engine's.
    Parameter("start_wave", starts=(0.1,), low=0.01, high=0.3),
    _overhead("routed_request_overhead_s", 1e-3),
    _share("unpacked_compute", 0.8),
)


def _server(name: str, *shared: str) -> EngineFit:
    """Return a server's constants without those that it shares with the first one."""
    own = tuple(item for item in SERVED if item.name not in shared)
    return EngineFit(name, SERVER_KINDS, own)


SERVERS: Final = (
    _server("vllm"),
    _server("tensorrt_llm", "layer_overhead_s", "unpacked_compute"),
    _server(
        "sglang",
        "layer_overhead_s",
        "sequence_overhead_s",
        "prompt_overhead_s",
        "request_overhead_s",
        "unpacked_compute",
    ),
)
"""The first engine gives ``serving``; the others take from it what they do not fit."""

BURSTS: Final = EngineFit(
    "vllm",
    (BURST,),
    (_overhead("admission_s", 1e-3), Parameter("burst_slowdown", starts=(1.1,), low=1.0, high=3.0)),
)
"""What finite bursts add, once the other constants of the servers are fitted. All servers share it:
too few bursts of each run a model that the release supports well."""

APPLE: Final = "Apple silicon"
TWO_DIES: Final = ", ".join(f"{APPLE} apple{family} x2" for family in (7, 8, 9))
"""Ultra chips by the family of their GPU."""

LLAMA_CPP: Final = EngineFit(
    "llama_cpp",
    CALLED_KINDS,
    (
        _overhead("step_overhead_s", 2.7e-4),
        _share("grouped_compute", 0.95),
        Parameter("grouped_half_rows", starts=(70.0,), low=0.5, high=300.0),
        *_kernels(
            "default",
            layer_overhead_s=2.9e-5,
            routed_layer_overhead_s=2.1e-5,
            scan_layer_overhead_s=4.7e-5,
            prompt_layer_overhead_s=3.1e-4,
            bandwidth=0.97,
            cache_bandwidth=0.93,
            expansion=4.2,
            compute=0.68,
            wide=1.0,
            attention=0.69,
        ),
        *_kernels("Blackwell 12.1", compute=0.32, bandwidth=0.8),
        *_kernels("Pascal", expansion=19.0),
        *_kernels("Battlemage", compute=0.28),
        *_kernels(
            "RDNA3, RDNA4, GCN5 (Vega20)", layer_overhead_s=5.8e-5, expansion=9.3, attention=0.17
        ),
        *_kernels("RDNA3", compute=0.76),
        *_kernels("RDNA4", compute=0.51, wide=1.0),
        *_kernels("GCN5 (Vega20)", compute=0.7, wide=0.25),
        *_kernels("RDNA3.5, RDNA3.5 hip", layer_overhead_s=1.9e-4, expansion=0.1),
        *_kernels("RDNA3.5", compute=0.48, attention=0.15, cache_bandwidth=0.69, wide=0.3),
        *_kernels("RDNA3.5 hip", compute=0.5, attention=0.23, cache_bandwidth=0.41, wide=0.88),
        *_kernels(f"{APPLE}, {APPLE} apple7, {TWO_DIES}", expansion=2.5, compute=1.5),
        *_kernels(APPLE, layer_overhead_s=6.5e-5),
        *_kernels(f"{APPLE} apple7", layer_overhead_s=3.5e-4),
        *_kernels(TWO_DIES, layer_overhead_s=1.5e-4),
    ),
)
"""Today's builds."""
LLAMA_CPP_2025: Final = EngineFit(
    "llama_cpp_2025",
    CALLED_KINDS,
    (
        *_kernels("RDNA3.5", compute=0.25, attention=0.15, cache_bandwidth=0.5),
        *_kernels("RDNA3.5 hip", compute=0.3, attention=0.2, cache_bandwidth=0.4),
        *_kernels("RDNA3.5, RDNA3.5 hip", layer_overhead_s=1.9e-4),
    ),
)
MLX: Final = EngineFit(
    "mlx",
    CALLED_KINDS,
    (
        _overhead("step_overhead_s", 2e-4),
        *_kernels(
            APPLE,
            layer_overhead_s=3e-5,
            routed_layer_overhead_s=3e-5,
            scan_layer_overhead_s=3e-5,
            bandwidth=0.9,
            compute=1.4,
        ),
    ),
)
LLAMA_CPP_2024: Final = EngineFit(
    "llama_cpp_2024",
    DIRECT_KINDS,
    (
        _share("grouped_compute", 0.4),
        *_kernels(
            "default",
            layer_overhead_s=1e-4,
            prompt_layer_overhead_s=6e-4,
            bandwidth=0.9,
            cache_bandwidth=0.6,
            expansion=5.0,
            expansion_16=15.0,
            compute=0.5,
            wide=1.3,
            attention=0.2,
        ),
        *_kernels("Hopper", compute=0.4),
        *_kernels("Ampere 8.0", compute=0.6),
        *_kernels("Turing", compute=0.4),
        *_kernels("Apple silicon", layer_overhead_s=2e-4, expansion=15.0, compute=0.8),
        *_kernels("RDNA2, RDNA3, RDNA4", layer_overhead_s=3e-4, expansion=30.0),
        *_kernels("RDNA2", compute=0.7),
        *_kernels("RDNA3", compute=0.15),
        *_kernels("RDNA4", compute=0.05),
    ),
)

HOST: Final = EngineFit(
    "llama_cpp",
    CALLED_KINDS,
    (
        _share(f"{HOST_SECTION}/bandwidth", 0.7),
        _share(f"{HOST_SECTION}/link", 0.7),
        _overhead(f"{HOST_SECTION}/layer_overhead_s", 3e-5),
    ),
)
"""Layers and experts in the host's memory, once the card's own kernels are fitted."""

DIRECT: Final = (LLAMA_CPP, LLAMA_CPP_2025, LLAMA_CPP_2024, MLX)
"""Engines with their own kernels, in the order of their fits."""


def section_of(values: Mapping[str, float]) -> dict[str, Any]:
    """Return constants by name as a section of ``calibration.yaml``."""
    section: dict[str, Any] = {}
    backends: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        generations, _, own = name.rpartition("/")
        if not generations:
            section[own] = value
        if generations == HOST_SECTION:
            section.setdefault(HOST_SECTION, {})[own] = value
            continue
        for generation in filter(None, generations.split(", ")):
            backends.setdefault(generation, {})[own] = value
    return section | ({"backends": backends} if backends else {})


def with_values(facts: ServingFacts, values: Mapping[str, float]) -> ServingFacts:
    """Return ``facts`` with these constants replaced."""
    section, known = section_of(values), facts.model_dump()
    own, kin = section.pop("backends", {}), known["backends"]
    section |= {key: (known[key] or {}) | section[key] for key in (HOST_SECTION,) if key in section}
    if facts.like or not own:
        # The section holds only what differs from the engine's other kernels.
        changed = {key: {**kin[key], **kernels} for key, kernels in own.items()}
        return ServingFacts.model_validate(known | section | {"backends": kin | changed})
    if OTHERS in own:
        own = own | {OTHERS: {**kin.get(OTHERS, {}), **own[OTHERS]}}
    joined = joined_engines(known, {"": section | {"backends": own}})
    return ServingFacts.model_validate(joined[""])


def values_of(fit: EngineFit, facts: ServingFacts) -> dict[str, float]:
    """Return the constants by name that ``facts`` holds."""
    found = {}
    for parameter in fit.parameters:
        generations, _, own = parameter.name.rpartition("/")
        if generations == HOST_SECTION:
            found[parameter.name] = float(getattr(facts.host, own))
            continue
        holder = facts.backends[generations.split(", ")[0]] if generations else facts
        found[parameter.name] = float(getattr(holder, own))
    return found


def fit_engine(
    fit: EngineFit,
    facts: ServingFacts | Mapping[str, ServingFacts],
    packs: Sequence[Pack],
    calibration: Calibration,
    without: int | None = None,
    tolerance: float = TOLERANCE,
) -> dict[str, float]:
    """Fit the constants of one engine, or those that several share.

    By name, in the order of ``fit.parameters``. Every group of like runs weighs one.

    Parameters
    ----------
    facts : ServingFacts or mapping
        Everything that is not fitted; of several engines, by name.
    without : int, optional
        Part of the readings to leave out, see :func:`folds_of`.
    tolerance : float, optional
        Relative gain below which the fit has converged.
    """
    each = facts if isinstance(facts, Mapping) else {one.engine: facts for one in packs}
    engines = [(own, [one for one in packs if one.engine == name]) for name, own in each.items()]
    readings = readings_of(one for _, runs in engines for one in runs)
    kept = np.array(
        [
            not one.excluded and fold != without
            for one, fold in zip(readings, folds_of(readings), strict=True)
        ]
    )
    groups = Counter(_weighed(one) for one, use in zip(readings, kept, strict=True) if use)
    weights = np.array(
        [1 / groups[_weighed(one)] for one, use in zip(readings, kept, strict=True) if use]
    )
    measured = np.array([one.measured_s for one in readings])
    names = [parameter.name for parameter in fit.parameters]
    remembered: list[Known] = [{} for _ in engines]

    def predict(values: Floats) -> Floats:
        chosen = dict(zip(names, values.tolist(), strict=True))
        times = [
            predicted_s(runs, calibration, with_values(own, chosen), known)
            for (own, runs), known in zip(engines, remembered, strict=True)
        ]
        return np.asarray(np.concatenate(times)[kept])

    found = fit_log_times(
        predict, measured[kept], fit.parameters, weights=weights, tolerance=tolerance
    )
    return {
        name: rounded(value, 3) for name, value in zip(names, found.values.tolist(), strict=True)
    }


def _weighed(reading: Reading) -> tuple[str, str]:
    return reading.group, reading.quantity


def folds_of(readings: Sequence[Reading]) -> list[int]:
    """Number the parts of the readings that are held out together.

    All runs of one model at one site (repository or address) lie in the same part.
    """
    names = [model_at_site(one) for one in readings]
    order = {name: index % FOLDS for index, name in enumerate(sorted(set(names)))}
    return [order[name] for name in names]


def model_at_site(reading: Reading) -> str:
    """Return the key of the runs that are held out together with this reading's run."""
    return f"{reading.source} | {reading.group.split(' | ')[1]}"


def engine_packs(fit: EngineFit, engine: Engine) -> tuple[Pack, ...]:
    """Return the runs on which the constants of one engine are fitted."""
    return tuple(pack for pack in read_packs(engine, fit.kinds) if pack.engine == fit.name)


def offload_packs(engine: Engine) -> tuple[Pack, ...]:
    """Return the runs on which the constants of the host's memory are fitted."""
    return read_packs(engine, HOST.kinds, OFFLOADED)
