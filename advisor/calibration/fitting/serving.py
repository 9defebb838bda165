"""Overheads of serving engines, fitted on the times of published runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from advisor.calibration.fitting.robust import Parameter, fit_log_times, rounded
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.served_runs import (
    Pack,
    Reading,
    predicted_s,
    read_packs,
    readings_of,
)
from advisor.catalog.constants import Section
from advisor.estimate.candidates import Floats
from advisor.nouns.efficiency import Calibration
from advisor.nouns.engines import ServingFacts, joined_engines

TOLERANCE: Final = 1e-5
"""Relative gain below which these fits have converged: the constants repeat to 0.1 %."""
FOLDS: Final = 4
"""Parts in which readings are held out."""
SERVER_KINDS: Final = ("llm_online", "llm_prefill", "llm_saturated", "llm_static_batch")
DIRECT_KINDS: Final = ("llm_single_stream", "llm_prefill")


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


SERVED: Final = (
    _overhead("step_overhead_s", 1e-3),
    _overhead("layer_overhead_s", 1e-5),
    _overhead("sequence_overhead_s", 2e-5),
    _overhead("prompt_overhead_s", 2e-4),
    _overhead("request_overhead_s", 5e-2),
    _share("start_wave", 0.1),
)


def _server(name: str, *shared: str) -> EngineFit:
    """Return a server's constants without those that it shares with the first one."""
    own = tuple(item for item in SERVED if item.name not in shared)
    return EngineFit(name, SERVER_KINDS, own)


SERVERS: Final = (
    _server("vllm"),
    _server("tensorrt_llm", "layer_overhead_s"),
    _server("sglang", "layer_overhead_s", "sequence_overhead_s"),
)
"""The first engine gives ``serving``; the others take from it what they do not fit."""

LLAMA_CPP: Final = EngineFit(
    "llama_cpp",
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


def section_of(values: Mapping[str, float]) -> Section:
    """Return constants by name as a section of ``calibration.yaml``."""
    section: Section = {}
    backends: dict[str, Section] = {}
    for name, value in values.items():
        generations, _, own = name.rpartition("/")
        if not generations:
            section[own] = value
        for generation in filter(None, generations.split(", ")):
            backends.setdefault(generation, {})[own] = value
    return section | ({"backends": backends} if backends else {})


def with_values(facts: ServingFacts, values: Mapping[str, float]) -> ServingFacts:
    """Return ``facts`` with these constants replaced."""
    own = {"": section_of(values)}
    return ServingFacts.model_validate(joined_engines(facts.model_dump(), own)[""])


def values_of(fit: EngineFit, facts: ServingFacts) -> dict[str, float]:
    """Return the constants by name that ``facts`` holds."""
    found = {}
    for parameter in fit.parameters:
        generations, _, own = parameter.name.rpartition("/")
        holder = facts.backends[generations.split(", ")[0]] if generations else facts
        found[parameter.name] = float(getattr(holder, own))
    return found


def fit_engine(
    fit: EngineFit,
    facts: ServingFacts,
    packs: Sequence[Pack],
    calibration: Calibration,
    without: int | None = None,
    tolerance: float = TOLERANCE,
) -> dict[str, float]:
    """Fit the constants of one engine.

    Parameters
    ----------
    facts : ServingFacts
        Everything that is not fitted.
    packs : sequence of Pack
        Runs of this engine.
    without : int, optional
        Part of the readings to leave out, see :func:`folds_of`.
    tolerance : float, optional
        Relative gain below which the fit has converged.

    Returns
    -------
    dict of str to float
        By name, in the order of ``fit.parameters``. Every group of like runs weighs one.
    """
    readings = readings_of(packs)
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

    def predict(values: Floats) -> Floats:
        chosen = with_values(facts, dict(zip(names, values.tolist(), strict=True)))
        return np.asarray(predicted_s(packs, calibration, chosen)[kept])

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
