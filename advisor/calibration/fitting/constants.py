"""All fitted constants with the shares of link rates, and the text of the files that hold them."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import yaml
from numpy.typing import NDArray

from advisor.calibration.fitting.kernel_tables import (
    BestRates,
    Collectives,
    Floats,
    KernelTables,
    kernel_fits,
    read_kernel_tables,
)
from advisor.calibration.fitting.kernels import fit_depthwise, fit_generation
from advisor.calibration.fitting.robust import errors, fit_log_times, quality, rounded
from advisor.catalog.constants import Section
from advisor.equations.collectives import (
    all_gather_time_s,
    all_reduce_time_s,
    direct_all_reduce_time_s,
)
from advisor.estimate.hardware.card_formats import SIXTEEN_BIT
from advisor.foundation.data_files import read_text
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.kernels import (
    DepthwiseEfficiency,
    FitQuality,
    KernelEfficiency,
    peak_generation,
)

Constants = tuple[float, float, float]


class NetworkFit(Noun):
    """Latency and bandwidth shares of collectives inside a node."""

    intra_latency_s: float
    intra_bandwidth: float
    pcie_bandwidth: float
    fit: FitQuality
    """Errors on the fitted rows: small direct messages and large messages."""
    all_sizes: FitQuality
    """Errors on all rows."""


def fit_network(rows: Collectives, cards: Mapping[str, Accelerator]) -> NetworkFit:
    """Latency and bandwidth shares, with errors in sample and on unseen accelerators.

    Library collectives follow the ring formula, the direct kernels of serving engines the
    formula of two latencies, as the engine has them. The latency is fitted on small direct
    messages, where it decides the time of a decoding step. The shares are fitted on large
    messages of all libraries. Leaves out the ramp in between, and reduction inside switches, with
    which eight Hopper or Blackwell cards reach the wire rate. L40S groups of four and eight are
    not used: they run at a quarter to a tenth of two cards' rate, the topology of that one host.
    """
    rows = rows.where(~((rows.accelerator == "l40s") & (rows.ranks > 2)))
    values = _constants(rows, cards)
    inside = errors(_times(rows, cards)(values), rows.measured_s)
    outside = np.empty_like(inside)
    for card in sorted(set(rows.accelerator.tolist())):
        unseen = rows.accelerator == card
        strange = _constants(rows.where(~unseen), cards)
        there = rows.where(unseen)
        outside[unseen] = errors(_times(there, cards)(strange), there.measured_s)
    used = _small(rows) | (rows.message_bytes >= kernel_fits().large_bytes)
    latency_s, fast, slow = values
    return NetworkFit(
        intra_latency_s=latency_s,
        intra_bandwidth=fast,
        pcie_bandwidth=slow,
        fit=quality(inside[used], outside[used]),
        all_sizes=quality(inside, outside),
    )


def _small(rows: Collectives) -> NDArray[np.bool_]:
    direct = ~np.isin(rows.library, kernel_fits().ring_libraries)
    return np.asarray(direct & (rows.message_bytes <= kernel_fits().small_bytes))


def _constants(rows: Collectives, cards: Mapping[str, Accelerator]) -> Constants:
    """Return the latency, then the shares of fast links and of PCIe."""
    curves = kernel_fits().curves
    fast, slow = (one.starts[0] for one in curves["links"])
    small = rows.where(_small(rows) & ~_over_pcie(rows))
    small_s = _times(small, cards)
    latency = fit_log_times(
        lambda values: small_s((float(values[0]), fast, slow)),
        small.measured_s,
        curves["latency"],
    )
    latency_s = rounded(float(latency.values[0]), 3)
    large = rows.where(rows.message_bytes >= kernel_fits().large_bytes)
    large_s = _times(large, cards)
    shares = fit_log_times(
        lambda values: large_s((latency_s, float(values[0]), float(values[1]))),
        large.measured_s,
        curves["links"],
    )
    found = [rounded(float(value), 3) for value in shares.values]
    return latency_s, found[0], found[1]


def _over_pcie(rows: Collectives) -> NDArray[np.bool_]:
    return np.char.startswith(rows.link, "PCIe")


def _times(rows: Collectives, cards: Mapping[str, Accelerator]) -> Callable[[Constants], Floats]:
    """Return the times of collectives as a function of the constants."""
    over_pcie, wire = _over_pcie(rows), _wire(rows, cards)
    message, ranks = rows.message_bytes, rows.ranks
    reduces = rows.operation == "all_reduce"
    ring = np.isin(rows.library, kernel_fits().ring_libraries)

    def times(values: Constants) -> Floats:
        latency_s, fast, slow = values
        bytes_per_s = np.where(over_pcie, slow, fast) * wire
        reduce, gather, direct = (
            time_s(message_bytes=message, ranks=ranks, bytes_per_s=bytes_per_s, latency_s=latency_s)
            for time_s in (all_reduce_time_s, all_gather_time_s, direct_all_reduce_time_s)
        )
        return np.where(ring, np.where(reduces, reduce, gather), direct)

    return times


def _wire(rows: Collectives, cards: Mapping[str, Accelerator]) -> Floats:
    """Rate of the link by the data sheet, per direction. [bytes/s]"""
    rates = []
    for card, link in zip(rows.accelerator.tolist(), rows.link.tolist(), strict=True):
        interconnect = cards[card].interconnect
        if link in kernel_fits().pcie_bytes_per_s:
            rates.append(kernel_fits().pcie_bytes_per_s[link])
        elif interconnect is not None:
            rates.append(interconnect.bytes_per_s)
        else:
            msg = f"{card} has rows over {link}, but the catalog gives it no interconnect"
            raise ValueError(msg)
    return np.array(rates)


SOURCE: Final = "aiconfigurator-core 0.12.0, measured kernel tables (Apache-2.0)"

HEADER: Final = """\
# Constants fitted on data/measurements/kernels, and software and intervals on
# training_runs.csv and mlperf_training.csv beside it. Written by 'make calibrate': do not edit.
# Stated constants are in calibration_facts.yaml. SI units: seconds, fractions.
# best_shares: best 16-bit matmul over the dense peak, matmul_achievable.csv, matmul_best_*.csv.
"""


class FittedConstants(Noun):
    """Contents of ``data/calibration.yaml``."""

    kernels: dict[str, KernelEfficiency]
    depthwise: dict[str, DepthwiseEfficiency]
    best_shares: dict[str, float]
    network: NetworkFit


def fit_constants(folder: Path, cards: Mapping[str, Accelerator]) -> FittedConstants:
    """Fit all constants that the kernel tables determine.

    Raises CatalogError if a table is broken.
    """
    tables = read_kernel_tables(folder)
    shares = best_shares(tables.best_rates, cards)
    kernels = {
        name: fit_generation(tables, cards, group, source=f"{SOURCE}: {', '.join(group)}")
        for name, group in kernel_fits().generations.items()
    }
    kernels["default"] = _default(tables, cards)
    ratio = _curve_over_best(kernels, shares)
    return FittedConstants(
        kernels={
            name: found.changed(best_share=rounded(found.matmul["default"].compute / ratio, 3))
            for name, found in kernels.items()
        },
        depthwise=fit_depthwise(tables.depthwise, cards),
        best_shares=shares,
        network=fit_network(tables.collectives, cards),
    )


def _default(tables: KernelTables, cards: Mapping[str, Accelerator]) -> KernelEfficiency:
    """One curve over all NVIDIA cards, for generations without measurements."""
    source = f"{SOURCE}: one curve over all measured NVIDIA cards"
    pooled = fit_generation(tables, cards, kernel_fits().pool, source=source)
    return pooled.changed(fitted_on=(), evidence=Evidence.ASSUMED)


def _curve_over_best(kernels: Mapping[str, KernelEfficiency], shares: Mapping[str, float]) -> float:
    """Median of the fitted rate of large matmuls over the best measured one on the same card."""
    return median(
        found.matmul["default"].compute / shares[card]
        for found in kernels.values()
        for card in found.fitted_on
        if card in shares
    )


def kernel_sections(fitted: FittedConstants) -> Section:
    """Sections of ``calibration.yaml`` that the kernel tables determine."""
    content = fitted.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    network = content["network"]
    del network["all_sizes"]
    network["source"] = f"{SOURCE}: collectives inside one node"
    return content


def calibration_yaml(kernels: Section, training: Section) -> str:
    """Text of ``calibration.yaml``."""
    body = yaml.safe_dump(kernels | training, sort_keys=False, width=100, allow_unicode=True)
    return f"{HEADER}\n{body}"


def methodology_markdown(fitted: FittedConstants) -> str:
    """Text of ``docs/methodology-kernels.md``."""
    rows = [
        (name, "16-bit matmul" if key == "default" else f"{key} matmul", curve.fit)
        for name, kernels in fitted.kernels.items()
        for key, curve in kernels.matmul.items()
    ]
    rows += [
        (name, f"routed experts, {'16 bits' if key == 'default' else key}", curve.fit)
        for name, kernels in fitted.kernels.items()
        for key, curve in kernels.experts.items()
    ]
    rows += [
        (name, "attention, forward", kernels.attention.fit)
        for name, kernels in fitted.kernels.items()
    ]
    rows += [
        ("all", "depthwise convolutions" + (", fp32" if key == "fp32" else ""), each.fit)
        for key, each in fitted.depthwise.items()
    ]
    rows.append(("all", "collectives in a node, small and large", fitted.network.fit))
    rows.append(("all", "collectives in a node, all sizes", fitted.network.all_sizes))
    table = "\n".join(_row(name, what, fit) for name, what, fit in rows if fit is not None)
    page = read_text(data_path("pages") / "methodology-kernels.md")
    return page.format(table=table)


def _row(name: str, what: str, fit: FitQuality) -> str:
    cells = (fit.median_error, fit.p90_error, fit.held_out_median_error, fit.held_out_p90_error)
    shown = " | ".join("" if cell is None else f"{100 * cell:.1f}" for cell in cells)
    return f"| {name} | {what} | {fit.rows} | {shown} | {', '.join(fit.undetermined)} |"


def best_shares(rates: BestRates, cards: Mapping[str, Accelerator]) -> dict[str, float]:
    """Best measured rate over the dense peak, by accelerator and by generation. [fraction]

    Median over the readings of a card; then, for the narrowest name of each generation, the median
    over its measured cards. Above 1 if a card's clocks exceed those of its data sheet.

    ``rates``: readings, several for some cards.
    """
    readings = defaultdict(list)
    for card, rate in zip(rates.accelerator.tolist(), rates.flops_per_s.tolist(), strict=True):
        readings[card].append(rate / _peak(cards[card]))
    single = {card: median(values) for card, values in readings.items()}
    groups = defaultdict(list)
    for card, share in single.items():
        groups[peak_generation(cards[card])].append(share)
    return {
        **{card: rounded(share, 3) for card, share in sorted(single.items())},
        **{name: rounded(median(group), 3) for name, group in sorted(groups.items())},
    }


def _peak(card: Accelerator) -> float:
    peaks = card.peak_flops_per_s
    return next(peaks[name] for name in SIXTEEN_BIT if name in peaks)
