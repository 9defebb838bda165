"""A day of requests as a workload: its peak is what is planned for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from advisor.nouns.serving import MOST_SPREAD, Arrivals, Serving
from advisor.nouns.workload import Workload

BURSTY: Final = 2.0
"""Squared coefficient of variation from which arrivals count as bursty."""


def with_demand(workload: Workload) -> Workload:
    """Return a workload with the peak of its demand as the rate, and what a trace says of lengths.

    Stated lengths and arrivals stay.

    Raises
    ------
    InputError
        If the file of the demand cannot be read.
    """
    if not isinstance(workload, Serving) or workload.demand is None:
        return workload
    demand, update = workload.demand, dict[str, object]()
    if demand.file is not None:
        from advisor.catalog.traces import read_demand

        seen = read_demand(Path(demand.file))
        demand = demand.model_copy(update={"file": None, "hourly": seen.hourly})
        for name in ("input_tokens", "output_tokens"):
            lengths = getattr(seen, name)
            if lengths is not None and name not in workload.model_fields_set:
                mean, high = lengths
                update |= {name: mean, f"{name}_p95": min(max(high, mean), int(MOST_SPREAD * mean))}
        if seen.arrival_scv is not None and "arrivals" not in workload.model_fields_set:
            bursty = seen.arrival_scv > BURSTY
            update["arrivals"] = Arrivals.BURSTY if bursty else Arrivals.POISSON
    update |= {"demand": demand, "requests_per_s": max(demand.rates())}
    return workload.model_copy(update=update)
