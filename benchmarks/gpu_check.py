"""Checks the probe on a machine with a GPU, against PyTorch's own timer.

``python -m benchmarks.gpu_check FOLDER`` probes the machine, times the same bf16 products with
``torch.utils.benchmark`` and a large copy on the device, trains five small transformers, and
writes ``probe.json``, ``kernels.csv`` and ``training.csv`` to the folder. ``gpu-advisor validate
training.csv`` scores the training rows; they have the columns of
``data/measurements/training_runs.csv``.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.foundation.units import GIB
from advisor.probe.checks.training_check import with_checks
from advisor.probe.measuring.run import probe
from advisor.probe.report import DeviceKind, ProbeReport, StepCheck, TransferKind

AGREE = 0.05
"""The probe and PyTorch's timer differ by at most this."""
LARGEST_PRODUCTS = 4
COPY_BYTES = 8 * 2**30
LEAST_S = 1.0


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    report = probe("normal")
    if report.devices[0].device.kind is DeviceKind.CPU:
        print("no GPU that PyTorch reaches:", *report.problems, sep="\n  ")
        return 1
    report = with_checks(report)
    (folder / "probe.json").write_text(report.to_json() + "\n", encoding="utf-8")
    kernels = compare_kernels(report)
    write(folder / "kernels.csv", kernels)
    write(folder / "training.csv", [training_row(report, check) for check in report.checks])
    for row in kernels:
        print(
            f"{row['what']}: probe {row['probe']:.4g}, torch {row['torch']:.4g}, "
            f"{row['difference']:+.1%}"
        )
    for check in report.checks:
        print(describe(check))
    print(*report.problems, sep="\n")
    return int(any(abs(float(row["difference"])) > AGREE for row in kernels))


def compare_kernels(report: ProbeReport) -> list[dict[str, Any]]:
    """The largest bf16 products and the copy, by the probe and by PyTorch's timer."""
    import torch
    from torch.utils.benchmark import Timer

    device = report.devices[0]
    largest = sorted(
        (row for row in device.matmuls if row.format == "bf16"), key=lambda row: -row.flops
    )
    rows = []
    for row in largest[:LARGEST_PRODUCTS]:
        left = torch.randn(row.m, row.k, device="cuda", dtype=torch.bfloat16)
        right = torch.randn(row.n, row.k, device="cuda", dtype=torch.bfloat16).t()
        timer = Timer(
            "torch.mm(left, right)", globals={"torch": torch, "left": left, "right": right}
        )
        seconds = timer.blocked_autorange(min_run_time=LEAST_S).median
        rows.append(
            compared(f"bf16 {row.m}x{row.k}x{row.n} FLOPs/s", row.flops_per_s, row.flops / seconds)
        )
    source = torch.randn(COPY_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    timer = Timer("target.copy_(source)", globals={"target": target, "source": source})
    seconds = timer.blocked_autorange(min_run_time=LEAST_S).median
    copies = [row.bytes_per_s for row in device.transfers if row.kind is TransferKind.COPY]
    if copies:
        rows.append(compared("copy bytes/s", copies[0], 2 * COPY_BYTES / seconds))
    return rows


def compared(what: str, by_probe: float, by_torch: float) -> dict[str, Any]:
    return {
        "what": what,
        "probe": by_probe,
        "torch": by_torch,
        "difference": by_probe / by_torch - 1,
    }


def training_row(report: ProbeReport, check: StepCheck) -> dict[str, Any]:
    """A row of a table of training runs."""
    shape, seconds = check.shape, check.measured.median_s
    tokens = shape.micro_batch * shape.sequence_length
    routed = shape.experts > 1
    recompute = "full" if shape.recompute else "none"
    name = f"{shape.name}{'-recomputed' if shape.recompute else ''}"
    return {
        "id": f"probe-{check.accelerator}-{name}-{report.created[:10]}",
        "source": f"own measurement, {report.backend}, {report.created[:10]}",
        "workload": "pretraining",
        "model": shape.name,
        "family": "transformer",
        "parameters": check.parameters,
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden_size,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.hidden_size // shape.heads,
        "intermediate_size": shape.intermediate_size,
        "gated_mlp": 1,
        "vocab_size": shape.vocab_size,
        "tie_word_embeddings": 0,
        "learned_positions": 0,
        "num_experts": shape.experts if routed else "",
        "experts_per_token": shape.active_experts if routed else "",
        "moe_intermediate_size": shape.intermediate_size if routed else "",
        "sequence_length": shape.sequence_length,
        "accelerator": check.accelerator,
        "num_accelerators": 1,
        "accelerators_per_node": 1,
        "precision": check.precision,
        "optimizer": "adamw",
        "micro_batch": shape.micro_batch,
        "global_batch": shape.micro_batch,
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "data_sharding": "none",
        "recompute": recompute,
        "attention": "flash",
        "compiled": 0,
        "framework": "pytorch",
        "step_time_s": seconds,
        "tokens_per_s_per_accelerator": tokens / seconds,
        "peak_memory_gib": "" if check.measured_bytes is None else check.measured_bytes / GIB,
        "memory_basis": "allocated",
        "outcome": "ok",
        "primary_quantity": "tokens_per_s_per_accelerator",
        "also_memory": int(check.measured_bytes is not None),
        "predictable": 1,
        "regime": f"{check.accelerator}|{'moe' if routed else 'dense'}|recompute={recompute}",
        "split_group": f"probe | {shape.name} | {check.accelerator}",
    }


def describe(check: StepCheck) -> str:
    measured = check.measured_bytes
    time = (
        f"{check.shape.name}{' recomputed' if check.shape.recompute else ''}: "
        f"{check.measured.median_s * 1e3:.1f} ms, predicted {check.predicted_s.expected * 1e3:.1f} "
        f"({check.predicted_s.low * 1e3:.1f} to {check.predicted_s.high * 1e3:.1f})"
    )
    if measured is None:
        return time
    return f"{time}; {measured / GIB:.2f} GiB, predicted {check.predicted_bytes.expected / GIB:.2f}"


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "gpu-check")))
