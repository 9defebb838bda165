"""Fits the curves of kernels on measured times."""

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Final

import numpy as np

from advisor.calibration.fitting.kernel_tables import (
    Decodes,
    Depthwise,
    Experts,
    Floats,
    KernelTables,
    Matmuls,
    Prefills,
    kernel_fits,
)
from advisor.calibration.fitting.robust import FittedCurve, errors, fit_curve, quality, rounded
from advisor.equations.flops import FLASH_BACKWARD_FLOPS
from advisor.equations.roofline import attention_time_s, bandwidth_time_s, matmul_time_s
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import record
from advisor.nouns.hardware import Accelerator
from advisor.nouns.precision import FORMAT_BYTES, WEIGHT_FORMATS
from advisor.nouns.software.kernels import (
    AttentionEfficiency,
    DepthwiseEfficiency,
    KernelEfficiency,
    MatmulEfficiency,
)

ACTIVATION_BYTES: Final = 2.0
"""Quantised layers read and write 16-bit activations and convert them on the way. [bytes]"""

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
        found = _fit_matmul(rows, cards, peak)
        outside = []
        for card in sorted(set(rows.accelerator.tolist())):
            others = _others(card, accelerators)
            seen = _usable(tables.matmuls.of(others), kernels, cards, peak)
            if seen.measured_s.size:
                strange, unseen = _fit_matmul(seen, cards, peak).values, rows.of([card])
                times = matmul_time_s(**_products(unseen, cards, peak), **strange)
                outside.append(errors(np.asarray(times), unseen.measured_s))
        held_out = np.concatenate(outside) if outside else None
        fit = quality(found.errors, held_out, fit=found.fit)
        matmul[name] = MatmulEfficiency(**found.values, fit=fit)
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


def _fit_matmul(rows: Matmuls, cards: Cards, peak: str) -> FittedCurve:
    predict = partial(matmul_time_s, **_products(rows, cards, peak))
    return fit_curve(predict, rows.measured_s, kernel_fits().curves["matmul"])


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
    rows, fits = prefills.of(accelerators), kernel_fits()
    found = fit_curve(_prefill_s(rows, cards), rows.measured_s, fits.curves["prefill"])
    outside = []
    for card in accelerators:
        seen, unseen = prefills.of(_others(card, accelerators)), rows.of([card])
        strange = fit_curve(_prefill_s(seen, cards), seen.measured_s, fits.curves["prefill"])
        times = _prefill_s(unseen, cards)(**strange.values)
        outside.append(errors(times, unseen.measured_s))
    overhead_s, forward, half_keys = found.values.values()
    backward = rounded(fits.backward_share * forward)
    return AttentionEfficiency(
        overhead_s=overhead_s,
        forward=forward,
        backward=backward,
        half_keys=half_keys,
        portable=_flash_2(set(accelerators) & set(fits.portable), cards, forward, backward),
        scan=rounded(
            fits.scan_share * min(1.0, _flash_2(accelerators, cards, forward, backward)), 3
        ),
        cache_bandwidth=_cache_bandwidth(decodes.of(accelerators), cards),
        fit=quality(found.errors, np.concatenate(outside), fit=found.fit),
    )


def _flash_2(accelerators: Container[str], cards: Cards, forward: float, backward: float) -> float:
    """Rate of FlashAttention-2 over that of the fitted kernels, forward and backward together.

    Over several generations, that of the card listed first.
    """
    passes = 1.0 + FLASH_BACKWARD_FLOPS
    fitted = passes / (1.0 / forward + FLASH_BACKWARD_FLOPS / backward)
    for card, rate in kernel_fits().flash_2_flops_per_s.items():
        if card in accelerators:
            return rounded(rate / cards[card].peak_flops_per_s["bf16"] / fitted, 3)
    return 1.0


def _prefill_s(rows: Prefills, cards: Cards) -> Callable[..., Floats]:
    """Return the times of prompts as a function of the curve's constants by name."""
    # Two products over the causal half of the square.
    flops = 2.0 * rows.batch * rows.heads * rows.head_dim * rows.sequence_length**2
    peaks = _peaks(rows.accelerator, cards, "bf16")

    def times(*, overhead_s: float, forward: float, half_keys: float) -> Floats:
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

    def predict(*, overhead_s: float, cache_bandwidth: float) -> Floats:
        return np.asarray(
            bandwidth_time_s(
                moved_bytes=2.0 * moved,
                bandwidth_bytes_per_s=peaks.bytes_per_s,
                efficiency=cache_bandwidth,
                overhead_s=overhead_s,
            )
        )

    found = fit_curve(predict, rows.measured_s, kernel_fits().curves["decode"])
    return found.values["cache_bandwidth"]


def fit_experts(
    tables: Experts, cards: Cards, accelerators: Iterable[str]
) -> dict[str, MatmulEfficiency]:
    """Constants of grouped products on a group of accelerators, by format of the weights.

    Empty if nothing was measured.

    ``accelerators``: keys of the cards to fit on.
    """
    found = {}
    of_group = tables.of(accelerators)
    for name, form in kernel_fits().experts.items():
        peak = form.peak
        rows = of_group.where(np.isin(of_group.kernel, form.kernels))
        # Cards without units for the format expand it, so their kernels are 16-bit ones.
        rows = rows.where(
            np.array(
                [peak in cards[card].peak_flops_per_s for card in rows.accelerator], dtype=bool
            )
        )
        if rows.measured_s.size:
            size = WEIGHT_FORMATS[form.stored].bytes_per_parameter
            found[name] = _fit_experts(rows, cards, peak, size)
    return found


def _fit_experts(rows: Experts, cards: Cards, peak: str, size: float) -> MatmulEfficiency:
    rates = _peaks(rows.accelerator, cards, peak)
    # Where all products are equally deep, no fit can tell a depth from a rate.
    deep = np.unique(np.concatenate([rows.hidden, rows.intermediate])).size > 1
    parameters = kernel_fits().curves["experts"]

    def predict(*, half_depth: float = 0.0, **curve: float) -> Floats:
        total = np.zeros_like(rows.rows)
        for depth, width in (
            (rows.hidden, 2.0 * rows.intermediate),
            (rows.intermediate, rows.hidden),
        ):
            total = total + matmul_time_s(
                flops=2.0 * rows.rows * depth * width,
                moved_bytes=rows.held * depth * width * size
                + rows.rows * (depth + width) * ACTIVATION_BYTES,
                output_elements=rows.rows * width,
                depth=depth,
                peak_flops_per_s=rates.flops_per_s,
                bandwidth_bytes_per_s=rates.bytes_per_s,
                half_depth=half_depth,
                **curve,
            )
        return np.asarray(total)

    found = fit_curve(predict, rows.measured_s, parameters if deep else parameters[:-1])
    curve = {"half_depth": 0.0} | found.values
    return MatmulEfficiency(**curve, fit=quality(found.errors, fit=found.fit))


def fit_depthwise(table: Depthwise, cards: Cards) -> dict[str, DepthwiseEfficiency]:
    """Constants of depthwise convolutions, by format.

    Networks run them in channels-last format, so no other is fitted.
    """
    rows = table.where(table.channels_last > 0)
    formats = {"default": "bf16", "fp32": "fp32"}
    return {
        name: _fit_depthwise(rows.where(rows.kernel == kernel), cards, kernel)
        for name, kernel in formats.items()
    }


def _fit_depthwise(rows: Depthwise, cards: Cards, kernel: str) -> DepthwiseEfficiency:
    rates = _peaks(rows.accelerator, cards, "fp32")
    parameters = kernel_fits().curves["depthwise"]
    names = [item.name for item in parameters]
    # Padded by half a filter, so a stride divides the sides.
    read = rows.batch * rows.channels * rows.side**2
    made = read / rows.stride**2
    area = rows.size**2
    wide = (area > kernel_facts().wide_area) & (rows.direction == "weight_gradient")
    passes = np.where(wide, "wide_weight_gradient", rows.direction)
    place = np.array([names.index(str(one)) for one in passes])

    def predict(*, bandwidth: float, overhead_s: float, **compute: float) -> Floats:
        curve = {"bandwidth": bandwidth, "overhead_s": overhead_s}
        each = np.array([(compute | curve)[name] for name in names])
        time = matmul_time_s(
            flops=2.0 * made * area,
            moved_bytes=FORMAT_BYTES[kernel] * (read + made),
            peak_flops_per_s=rates.flops_per_s,
            bandwidth_bytes_per_s=rates.bytes_per_s,
            compute=each[place],
            **curve,
        )
        return np.asarray(time)

    found = fit_curve(predict, rows.measured_s, parameters)
    return DepthwiseEfficiency(**found.values, fit=quality(found.errors, fit=found.fit))
