"""All fitted constants, and the text of the files that hold them."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import yaml

from advisor.calibration.fitting.kernel_tables import BestRates, KernelTables, read_kernel_tables
from advisor.calibration.fitting.kernels import GENERATIONS, POOL, fit_generation
from advisor.calibration.fitting.network import NetworkFit, fit_network
from advisor.calibration.fitting.robust import rounded
from advisor.catalog.constants import Section
from advisor.foundation.data_files import read_text
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence
from advisor.foundation.resources import data_path
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.generations import peak_generation
from advisor.nouns.software.kernels import FitQuality, KernelEfficiency

SOURCE: Final = "aiconfigurator-core 0.12.0, measured kernel tables (Apache-2.0)"

HEADER: Final = """\
# Constants fitted on data/measurements/kernels, and software and intervals on
# data/measurements/training_runs.csv. Written by 'make calibrate': do not edit.
# Stated constants are in calibration_facts.yaml. SI units: seconds, fractions.
# best_shares: best 16-bit matmul over the dense peak, matmul_achievable.csv, matmul_best_*.csv.
"""

SIXTEEN_BIT: Final = ("bf16", "fp16")
"""Formats in the order in which attention and 16-bit matmuls choose their peak."""


class FittedConstants(Noun):
    """Contents of ``data/calibration.yaml``."""

    kernels: dict[str, KernelEfficiency]
    best_shares: dict[str, float]
    network: NetworkFit


def fit_constants(folder: Path, cards: Mapping[str, Accelerator]) -> FittedConstants:
    """Fit all constants that the kernel tables determine.

    Raises CatalogError if a table is broken.
    """
    tables = read_kernel_tables(folder)
    shares = best_shares(tables.best_rates, cards)
    kernels = {
        name: fit_generation(tables, cards, group, source=_source(group))
        for name, group in GENERATIONS.items()
    }
    kernels["default"] = _default(tables, cards)
    ratio = _curve_over_best(kernels, shares)
    return FittedConstants(
        kernels={
            name: found.changed(best_share=rounded(found.matmul["default"].compute / ratio, 3))
            for name, found in kernels.items()
        },
        best_shares=shares,
        network=fit_network(tables.collectives, cards),
    )


def _source(group: tuple[str, ...]) -> str:
    return f"{SOURCE}: {', '.join(group)}"


def _default(tables: KernelTables, cards: Mapping[str, Accelerator]) -> KernelEfficiency:
    """One curve over all NVIDIA cards, for generations without measurements."""
    pooled = fit_generation(
        tables, cards, POOL, source=f"{SOURCE}: one curve over all measured NVIDIA cards"
    )
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
