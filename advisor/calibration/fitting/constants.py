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
from advisor.foundation.noun import Noun
from advisor.foundation.quantities import Evidence
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
    return PAGE.format(table=table)


def _row(name: str, what: str, fit: FitQuality) -> str:
    cells = (fit.median_error, fit.p90_error, fit.held_out_median_error, fit.held_out_p90_error)
    shown = " | ".join("" if cell is None else f"{100 * cell:.1f}" for cell in cells)
    return f"| {name} | {what} | {fit.rows} | {shown} | {', '.join(fit.undetermined)} |"


PAGE: Final = """\
# How kernels are calibrated

This page is written by `make calibrate`; do not edit it.

## Matrix products

A product of an m x k by a k x n matrix, F = 2 m n k operations on B bytes, takes

    t = t0 + sqrt( (F / (P e) * (1 + x_h / x) * (1 + k_h / k))^2 + (B / (W e_m))^2 )

P is the dense peak of the format and W the memory bandwidth, both from the catalog. x = m n / 128^2
counts output tiles. The five constants t0, e, e_m, x_h and k_h are fitted for each generation and
format, by robust least squares on the logarithm of measured times (SciPy's `least_squares` with a
soft L1 loss). The fit leaves out products with n or k under 256. On cards with a large second-level
cache it also leaves out products whose weights may be in that cache.

Layers in fp8, fp4 and int8 are timed as a whole: the time includes the conversion of 16-bit
activations, as a separate kernel. Training stacks fuse this conversion into the kernel before, so
they are faster. fp8 has one scale per block on Hopper and data-centre Blackwell, and one per tensor
elsewhere.

Routed experts have separate curves for each format of the weights. They are fitted on blocks of two
grouped products (gate and up, down) with even routing; x counts the tiles of all experts together.
Weights in 4-bit integers run as 16-bit weights, and so does MXFP4 on cards without units for it,
because their kernels differ by up to six times between libraries.

## Attention

The forward pass takes t = t0 + F / (P16 e) * (1 + k_h / k). F counts the causal half; k is the
average number of keys that a query attends to. The fit uses head size 128 and prompts of 1,024
tokens and more. The tables have no backward passes: their rate is 0.85 of the forward rate
(arXiv:2307.08691, section 1; arXiv:2407.08608, figures 5 and 6).

Software that runs FlashAttention-2 on every card is slower on Hopper (335 TFLOP/s,
arXiv:2307.08691, section 4.1). FlashAttention 1 (`attention: flash1`) reaches 0.65 of that; the
paper reports 0.33 to 0.77. PyTorch 2.0 and 2.1 and the published runs of LLM Foundry use it.
Decoding reads the cache at a share of the bandwidth that is fitted on measured decode kernels.

Norms, activations and the optimizer are assumed to stream as fast as narrow matmuls.

## Collectives

Ring collectives of NCCL and oneCCL take t = s a + w M / (W e), with s steps and wire factor w. The
direct all-reduce kernels of serving engines take t = 2 a + w M / (W e). Both use one latency a,
fitted on direct messages up to 256 KiB. On fast links they use the same share e, fitted on messages
of 16 MiB and more; PCIe has a separate share. The model has no ramp between these sizes and no
reduction inside switches.

## Cards without kernel measurements

A card takes the constants of its generation or of a related one. If its best 16-bit matmul rate was
measured, all arithmetic rates are scaled: the curve's share of the peak becomes that reading times
the ratio of curve to reading, a median over the fitted cards. A card without a reading takes the
median of its group. Cards of unrelated makers take one curve over all measured NVIDIA cards.

## Errors

The table has the absolute error of the predicted time in percent, in sample and held out. Held out
means on a card that the fit has not seen: the fit then uses the other cards of the generation, or
all other NVIDIA cards if the generation has no other. The last column names constants that the
measurements do not fix. Such a constant is 0, so its term drops out, or it is on the bound of the
fit. Relatives of the measured cards take it from the curve over all cards.

| generation | kernel | rows | median | 90 % | held-out median | held-out 90 % | not fixed |
| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
{table}
"""


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
