"""Fits the curves of one generation's kernels on measured times."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from advisor.calibration.fitting.expert_kernels import fit_experts
from advisor.calibration.fitting.kernel_tables import (
    Decodes,
    Floats,
    KernelTables,
    Matmuls,
    Prefills,
)
from advisor.calibration.fitting.robust import (
    LogFit,
    Parameter,
    errors,
    fit_log_times,
    quality,
    rounded,
)
from advisor.equations.flops import FLASH_BACKWARD_FLOPS
from advisor.equations.roofline import attention_time_s, bandwidth_time_s, matmul_time_s
from advisor.foundation.quantities import Evidence
from advisor.foundation.record import record
from advisor.nouns.hardware import Accelerator
from advisor.nouns.software.kernels import AttentionEfficiency, KernelEfficiency, MatmulEfficiency

GENERATIONS: Final[dict[str, tuple[str, ...]]] = {
    "Ampere": ("a100-sxm-80gb",),
    "Hopper": ("h100-sxm", "h200-sxm"),
    "Ada Lovelace": ("l40s",),
    "Blackwell": ("b200-sxm", "gb200"),
    "Blackwell Ultra": ("b300-sxm", "gb300"),
    "Blackwell 12.0": ("rtx-pro-6000-blackwell-server",),
    "Battlemage": ("arc-pro-b60",),
}
"""Measured cards by the name of their generation."""

POOL: Final = tuple(
    card for name, cards in GENERATIONS.items() if name != "Battlemage" for card in cards
)
"""Cards of the curve for generations without measurements: one vendor's, three backends each."""

FORMATS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "default": ("bf16", ("bf16",)),
    "fp8": ("fp8", ("fp8", "fp8_block")),
    "fp4": ("fp4", ("nvfp4",)),
    "int8": ("int8", ("int8_smoothquant",)),
}
"""Reference peak and measured kernels, by key of the curve."""

BLOCK_SCALED: Final = ("h100-sxm", "h200-sxm", "b200-sxm", "gb200", "b300-sxm", "gb300")
"""Cards with kernels for fp8 with one scale per block, as in current checkpoints and MX formats.
Other cards use general kernels, so their rows have one scale per tensor."""

WEIGHT_BYTES: Final = {
    "bf16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "nvfp4": 0.5 + 1 / 16,
    "int8_smoothquant": 1.0,
}
"""Bytes of an element, with scales if they matter. [bytes]"""
ACTIVATION_BYTES: Final = 2.0
"""Quantised layers read and write 16-bit activations and convert them on the way. [bytes]"""

BACKWARD_SHARE: Final = 0.85
"""Rate of the attention backward pass over that of the forward pass. FlashAttention-2 reaches up
to 73 % of the A100's peak forward and 63 % backward (arXiv:2307.08691, section 1); on H100, head
size 128, 4k tokens, FlashAttention-3 reaches 638 and 542 TFLOP/s (arXiv:2407.08608, figures 5
and 6). No backward pass is in the tables."""

FLASH_2_FLOPS_PER_S: Final = {"h100-sxm": 335e12, "b200-sxm": 350e12, "b300-sxm": 350e12}
"""FlashAttention-2, forward and backward together, on long sequences: it lacks the matrix
instructions and asynchronous copies of Hopper (arXiv:2307.08691, section 4.1) and of Blackwell
(346 TFLOP/s on B200, Dao-AILab/flash-attention issue 1589; 352-362 forward,
meta-pytorch/tritonbench pull 171). B300 is taken for B200, whose rates in 16 bits it has."""
PORTABLE: Final = ("h100-sxm",)
"""Where common software runs FlashAttention-2. On data-centre Blackwell, PyTorch uses cuDNN's
kernel (pytorch/torchtitan pull 1196)."""
SCAN_SHARE: Final = 0.17
"""Rate of chunked recurrences over that of FlashAttention-2 at 1,024 keys for each query. It meets
training steps of Mamba-2 1.3B on one card, four sequences of 4,096 tokens, at 102, 239 and
360 TFLOP/s of 6 N D on A100, H200 and GB200 (state-spaces/mamba issue 904)."""

MATMUL_PARAMETERS: Final = (
    Parameter("overhead_s", starts=(4e-6,), low=1e-7, high=1e-4),
    Parameter("compute", starts=(0.7,), low=0.05, high=1.0),
    Parameter("bandwidth", starts=(0.8,), low=0.05, high=1.0),
    Parameter("half_tiles", starts=(1.0, 30.0), low=1e-2, high=1e4, optional=True),
    Parameter("half_depth", starts=(30.0, 400.0), low=1.0, high=1e4, optional=True),
)
PREFILL_PARAMETERS: Final = (
    Parameter("overhead_s", starts=(3e-5,), low=1e-7, high=1e-3),
    Parameter("forward", starts=(0.5,), low=0.05, high=1.0),
    Parameter("half_keys", starts=(300.0,), low=1.0, high=1e4),
)
DECODE_PARAMETERS: Final = (
    Parameter("overhead_s", starts=(1e-5,), low=1e-7, high=1e-3),
    Parameter("cache_bandwidth", starts=(0.8,), low=0.05, high=1.0),
)

CACHE_PRONE: Final = ("l40s", "rtx-pro-6000-blackwell-server")
"""Cards whose second-level cache (96 and 128 MB) holds the weights of many measured layers."""

UNSURE_DECODES: Final = ("a100-sxm-80gb",)
"""Cards whose decode table rests on two libraries that differ by up to 1.9 times. The cache counts
as streamed; served runs (LMDeploy, TensorRT-LLM on Llama 2 7B) read it as fast as that."""

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
    for name, (peak, kernels) in FORMATS.items():
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
    return siblings or tuple(other for other in POOL if other != card)


def _usable(rows: Matmuls, kernels: tuple[str, ...], cards: Cards, peak: str) -> Matmuls:
    known = np.array([peak in cards[card].peak_flops_per_s for card in rows.accelerator])
    prone = np.isin(rows.accelerator, CACHE_PRONE) & rows.cached
    other_fp8 = np.where(np.isin(rows.accelerator, BLOCK_SCALED), "fp8", "fp8_block")
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
    rates = _peaks(rows.accelerator, cards, peak)

    def predict(values: Floats) -> Floats:
        return _matmul_times(rows, rates, values)

    found = fit_log_times(predict, rows.measured_s, MATMUL_PARAMETERS)
    names = [item.name for item in MATMUL_PARAMETERS]
    values = dict(zip(names, (rounded(float(value)) for value in found.values), strict=True))
    curve = MatmulEfficiency.model_validate(values)
    return curve, errors(_matmul_s(rows, cards, peak, curve), rows.measured_s), found


def _matmul_s(rows: Matmuls, cards: Cards, peak: str, curve: MatmulEfficiency) -> Floats:
    values = [getattr(curve, item.name) for item in MATMUL_PARAMETERS]
    return _matmul_times(rows, _peaks(rows.accelerator, cards, peak), values)


def _matmul_times(rows: Matmuls, rates: _Peaks, values: Iterable[float]) -> Floats:
    weight_bytes = np.array([WEIGHT_BYTES[str(kernel)] for kernel in rows.kernel])
    return np.asarray(
        matmul_time_s(
            flops=2.0 * rows.m * rows.n * rows.k,
            moved_bytes=weight_bytes * rows.n * rows.k
            + ACTIVATION_BYTES * rows.m * (rows.k + rows.n),
            output_elements=rows.m * rows.n,
            depth=rows.k,
            peak_flops_per_s=rates.flops_per_s,
            bandwidth_bytes_per_s=rates.bytes_per_s,
            **dict(zip((item.name for item in MATMUL_PARAMETERS), values, strict=True)),
        )
    )


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
        times = _prefill_times(unseen, cards, *strange)
        outside.append(errors(times, unseen.measured_s))
    inside = errors(_prefill_times(rows, cards, *values), rows.measured_s)
    overhead_s, forward, half_keys = values
    backward = rounded(BACKWARD_SHARE * forward)
    return AttentionEfficiency(
        overhead_s=overhead_s,
        forward=forward,
        backward=backward,
        half_keys=half_keys,
        portable=_flash_2(set(accelerators) & set(PORTABLE), cards, forward, backward),
        scan=rounded(SCAN_SHARE * _flash_2(accelerators, cards, forward, backward), 3),
        cache_bandwidth=_cache_bandwidth(decodes.of(accelerators), cards),
        fit=quality(inside, np.concatenate(outside), fit=found),
    )


def _flash_2(accelerators: Iterable[str], cards: Cards, forward: float, backward: float) -> float:
    """Rate of FlashAttention-2 over that of the fitted kernels, forward and backward together."""
    passes = 1.0 + FLASH_BACKWARD_FLOPS
    fitted = passes / (1.0 / forward + FLASH_BACKWARD_FLOPS / backward)
    for card in accelerators:
        if card in FLASH_2_FLOPS_PER_S:
            share = FLASH_2_FLOPS_PER_S[card] / cards[card].peak_flops_per_s["bf16"]
            return rounded(min(1.0, share / fitted), 3)
    return 1.0


def _prefill_constants(rows: Prefills, cards: Cards) -> LogFit:
    def predict(values: Floats) -> Floats:
        return _prefill_times(rows, cards, *values)

    return fit_log_times(predict, rows.measured_s, PREFILL_PARAMETERS)


def _prefill_times(
    rows: Prefills, cards: Cards, overhead_s: float, forward: float, half_keys: float
) -> Floats:
    # Two products over the causal half of the square.
    flops = 2.0 * rows.batch * rows.heads * rows.head_dim * rows.sequence_length**2
    peaks = _peaks(rows.accelerator, cards, "bf16")
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


def _cache_bandwidth(rows: Decodes, cards: Cards) -> float | None:
    """Fit the share of the bandwidth; None if no table is reliable."""
    unsure = np.isin(rows.accelerator, UNSURE_DECODES)
    rows = rows.where(~unsure & ~(np.isin(rows.accelerator, CACHE_PRONE) & rows.cached))
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

    found = fit_log_times(predict, rows.measured_s, DECODE_PARAMETERS)
    return rounded(float(found.values[1]))
