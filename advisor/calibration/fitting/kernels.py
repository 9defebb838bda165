"""Fits the curves of one generation's kernels on measured times."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from advisor.calibration.fitting.expert_kernels import ACTIVATION_BYTES, fit_experts
from advisor.calibration.fitting.kernel_tables import (
    Decodes,
    Floats,
    KernelTables,
    Matmuls,
    Prefills,
    kernel_fits,
)
from advisor.calibration.fitting.robust import LogFit, errors, fit_log_times, quality, rounded
from advisor.equations.flops import FLASH_BACKWARD_FLOPS
from advisor.equations.roofline import attention_time_s, bandwidth_time_s, matmul_time_s
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import record
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.kernels import AttentionEfficiency, KernelEfficiency, MatmulEfficiency

Cards = Mapping[str, Accelerator]


@record
class _Peaks:
    """Data-sheet rates, one element per row."""

    flops_per_s: Floats
    bytes_per_s: Floats


def fit_generation(
    tables: KernelTables, cards: Cards, accelerators: tuple[str, ...], *, source: str
) -> KernelEfficiency:
    """Constants of a group of accelerators, with errors in sample and on unseen cards.

    Held-out errors are those of each card under constants fitted on the group's other cards; for a
    card alone in its group, on all other NVIDIA cards.

    ``accelerators``: keys of the cards to fit on.
    """
    matmul = {}
    for name, form in kernel_fits().formats.items():
        peak, kernels = form.peak, form.kernels
        rows = _usable(tables.matmuls.of(accelerators), kernels, cards, peak)
        if rows.measured_s.size == 0:
            continue
        curve, inside, found = _fit_matmul(rows, cards, peak)
        outside = []
        for card in sorted(set(rows.accelerator.tolist())):
            others = _others(card, accelerators)
            seen = _usable(tables.matmuls.of(others), kernels, cards, peak)
            if seen.measured_s.size:
                strange, _, _ = _fit_matmul(seen, cards, peak)
                unseen = rows.of([card])
                outside.append(errors(_matmul_s(unseen, cards, peak, strange), unseen.measured_s))
        fit = quality(inside, np.concatenate(outside) if outside else None, fit=found)
        matmul[name] = curve.changed(fit=fit)
    attention = _fit_attention(tables.prefills, tables.decodes, cards, accelerators)
    return KernelEfficiency(
        matmul=matmul,
        experts=fit_experts(tables.experts, cards, accelerators),
        attention=attention,
        # Narrow matmuls only stream their weights, like elementwise kernels.
        elementwise_bandwidth=matmul["default"].bandwidth,
        balance=_balance(cards, accelerators),
        streamed=rounded(
            max(
                cards[key].memory_bandwidth_bytes_per_s / cards[key].peak_flops_per_s["fp32"]
                for key in accelerators
            ),
            3,
        ),
        fitted_on=accelerators,
        evidence=Evidence.CALIBRATED,
        source=source,
    )


def _balance(cards: Cards, accelerators: Iterable[str]) -> tuple[float, float]:
    """Return the smallest and largest ratio of 16-bit peak to memory bandwidth of these cards."""
    ratios = [
        cards[key].peak_flops_per_s["bf16"] / cards[key].memory_bandwidth_bytes_per_s
        for key in accelerators
    ]
    return rounded(min(ratios), 3), rounded(max(ratios), 3)


def _others(card: str, group: Iterable[str]) -> tuple[str, ...]:
    siblings = tuple(other for other in group if other != card)
    return siblings or tuple(other for other in kernel_fits().pool if other != card)


def _usable(rows: Matmuls, kernels: tuple[str, ...], cards: Cards, peak: str) -> Matmuls:
    known = np.array([peak in cards[card].peak_flops_per_s for card in rows.accelerator])
    prone = np.isin(rows.accelerator, kernel_fits().cache_prone) & rows.cached
    scaled = np.isin(rows.accelerator, kernel_fits().block_scaled)
    other_fp8 = np.where(scaled, "fp8", "fp8_block")
    keep = np.isin(rows.kernel, kernels) & (rows.kernel != other_fp8)
    return rows.where(keep & known & ~prone)


def _peaks(accelerator: Iterable[str], cards: Cards, peak: str) -> _Peaks:
    found = [cards[str(card)] for card in accelerator]
    return _Peaks(
        flops_per_s=np.array([card.peak_flops_per_s[peak] for card in found]),
        bytes_per_s=np.array([card.memory_bandwidth_bytes_per_s for card in found]),
    )


def _fit_matmul(rows: Matmuls, cards: Cards, peak: str) -> tuple[MatmulEfficiency, Floats, LogFit]:
    """Return the curve, its errors in sample, and the fit behind it."""
    given, constants = _products(rows, cards, peak), kernel_fits().curves["matmul"]
    names = [item.name for item in constants]

    def predict(values: Iterable[float]) -> Floats:
        return np.asarray(matmul_time_s(**given, **dict(zip(names, values, strict=True))))

    found = fit_log_times(predict, rows.measured_s, constants)
    values = [rounded(float(value)) for value in found.values]
    curve = MatmulEfficiency.model_validate(dict(zip(names, values, strict=True)))
    return curve, errors(predict(values), rows.measured_s), found


def _matmul_s(rows: Matmuls, cards: Cards, peak: str, curve: MatmulEfficiency) -> Floats:
    values = {item.name: getattr(curve, item.name) for item in kernel_fits().curves["matmul"]}
    return np.asarray(matmul_time_s(**_products(rows, cards, peak), **values))


def _products(rows: Matmuls, cards: Cards, peak: str) -> dict[str, Floats]:
    """Return the sizes of measured products, and the rates of their cards."""
    rates, sizes = _peaks(rows.accelerator, cards, peak), kernel_fits().weight_bytes
    weight_bytes = np.array([sizes[str(kernel)] for kernel in rows.kernel])
    return {
        "flops": 2.0 * rows.m * rows.n * rows.k,
        "moved_bytes": weight_bytes * rows.n * rows.k
        + ACTIVATION_BYTES * rows.m * (rows.k + rows.n),
        "output_elements": rows.m * rows.n,
        "depth": rows.k,
        "peak_flops_per_s": rates.flops_per_s,
        "bandwidth_bytes_per_s": rates.bytes_per_s,
    }


def _fit_attention(
    prefills: Prefills, decodes: Decodes, cards: Cards, accelerators: tuple[str, ...]
) -> AttentionEfficiency:
    rows = prefills.of(accelerators)
    found = _prefill_constants(rows, cards)
    values = [rounded(float(value)) for value in found.values]
    outside = []
    for card in accelerators:
        others = _prefill_constants(prefills.of(_others(card, accelerators)), cards)
        strange = [rounded(float(value)) for value in others.values]
        unseen = rows.of([card])
        outside.append(errors(_prefill_s(unseen, cards)(strange), unseen.measured_s))
    inside = errors(_prefill_s(rows, cards)(values), rows.measured_s)
    overhead_s, forward, half_keys = values
    fits = kernel_fits()
    backward = rounded(fits.backward_share * forward)
    return AttentionEfficiency(
        overhead_s=overhead_s,
        forward=forward,
        backward=backward,
        half_keys=half_keys,
        portable=_flash_2(set(accelerators) & set(fits.portable), cards, forward, backward),
        scan=rounded(fits.scan_share * _flash_2(accelerators, cards, forward, backward), 3),
        cache_bandwidth=_cache_bandwidth(decodes.of(accelerators), cards),
        fit=quality(inside, np.concatenate(outside), fit=found),
    )


def _flash_2(accelerators: Iterable[str], cards: Cards, forward: float, backward: float) -> float:
    """Rate of FlashAttention-2 over that of the fitted kernels, forward and backward together."""
    passes = 1.0 + FLASH_BACKWARD_FLOPS
    fitted = passes / (1.0 / forward + FLASH_BACKWARD_FLOPS / backward)
    for card in accelerators:
        if rate := kernel_fits().flash_2_flops_per_s.get(card):
            share = rate / cards[card].peak_flops_per_s["bf16"]
            return rounded(min(1.0, share / fitted), 3)
    return 1.0


def _prefill_constants(rows: Prefills, cards: Cards) -> LogFit:
    return fit_log_times(_prefill_s(rows, cards), rows.measured_s, kernel_fits().curves["prefill"])


def _prefill_s(rows: Prefills, cards: Cards) -> Callable[[Iterable[float]], Floats]:
    """Return the times of prompts as a function of the curve's constants."""
    # Two products over the causal half of the square.
    flops = 2.0 * rows.batch * rows.heads * rows.head_dim * rows.sequence_length**2
    peaks = _peaks(rows.accelerator, cards, "bf16")

    def times(values: Iterable[float]) -> Floats:
        overhead_s, forward, half_keys = values
        return np.asarray(
            attention_time_s(
                flops=flops,
                keys=rows.sequence_length / 2,
                peak_flops_per_s=peaks.flops_per_s,
                efficiency=forward,
                half_keys=half_keys,
                overhead_s=overhead_s,
            )
        )

    return times


def _cache_bandwidth(rows: Decodes, cards: Cards) -> float | None:
    """Fit the share of the bandwidth; None if no table is reliable."""
    unsure = np.isin(rows.accelerator, kernel_fits().unsure_decodes)
    prone = np.isin(rows.accelerator, kernel_fits().cache_prone) & rows.cached
    rows = rows.where(~unsure & ~prone)
    if not rows.measured_s.size:
        return None
    moved = 2.0 * rows.batch * rows.key_value_heads * rows.cached_tokens * rows.head_dim
    peaks = _peaks(rows.accelerator, cards, "bf16")

    def predict(values: Floats) -> Floats:
        return np.asarray(
            bandwidth_time_s(
                moved_bytes=2.0 * moved,
                bandwidth_bytes_per_s=peaks.bytes_per_s,
                efficiency=float(values[1]),
                overhead_s=float(values[0]),
            )
        )

    found = fit_log_times(predict, rows.measured_s, kernel_fits().curves["decode"])
    return rounded(float(found.values[1]))
