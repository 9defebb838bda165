"""Training exports: the head of each file is the estimate of what the file says."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

import advisor
from advisor.errors import InputError
from advisor.foundation.formatting import duration, memory
from tests.export.reading import meaning

Case = dict[str, Any]


def tuned(model: str, method: str, **fields: Any) -> Case:
    return {
        "model": {"preset": model},
        "workload": {"kind": "fine_tuning", "method": method, **fields},
    }


WORK: dict[str, Case] = {
    "LoRA 8B": tuned("llama-3.1-8b", "lora", tokens=20e6),
    "QLoRA 70B": tuned("llama-3.1-70b", "qlora", tokens=20e6),
    "full 8B": tuned("llama-3.1-8b", "full", tokens=40e6),
    "DPO 7B": tuned("mistral-7b-v0.3", "full", tokens=20e6, preference="dpo"),
    "pretrain 1B": {
        "model": {"preset": "llama-3.2-1b"},
        "workload": {"kind": "pretraining", "tokens": 20e9},
    },
    "pretrain 70B": {
        "model": {"preset": "llama-3.1-70b"},
        "workload": {"kind": "pretraining", "tokens": 1e12},
    },
    "ResNet-50": {"model": {"preset": "resnet-50"}, "workload": {"kind": "pretraining"}},
    "Whisper": tuned("whisper-large-v3", "full", samples=100_000),
    "SDXL LoRA": tuned("sdxl-unet", "lora", samples=50_000),
}
COUNTS = {
    "LoRA 8B": 1,
    "QLoRA 70B": 2,
    "full 8B": 8,
    "DPO 7B": 8,
    "pretrain 1B": 8,
    "pretrain 70B": 512,
    "ResNet-50": 8,
    "Whisper": 1,
    "SDXL LoRA": 1,
}
NVIDIA = {"LoRA 8B": "rtx-4090", "QLoRA 70B": "rtx-4090", "SDXL LoRA": "rtx-4090"}
CARDS = {"AMD": "mi300x", "Gaudi": "gaudi2", "TPU": "tpu-v5p"}
REFUSED = {
    ("torchrun", "AMD", "pretrain 1B"): "rocm/megatron-lm",
    ("torchrun", "Gaudi", "QLoRA 70B"): "Optimum Habana offers no qlora",
    ("torchrun", "Gaudi", "DPO 7B"): "NVIDIA or AMD",
    ("torchrun", "Gaudi", "pretrain 1B"): "NVIDIA or AMD",
    ("torchrun", "Gaudi", "pretrain 70B"): "NVIDIA or AMD",
    ("torchrun", "Gaudi", "ResNet-50"): "examples/image-classification",
    ("torchrun", "Gaudi", "Whisper"): "examples/speech-recognition",
    ("torchrun", "Gaudi", "SDXL LoRA"): "examples/stable-diffusion",
    ("torchrun", "TPU", "LoRA 8B"): "pretraining",
    ("torchrun", "TPU", "QLoRA 70B"): "MaxText offers no qlora",
    ("torchrun", "TPU", "DPO 7B"): "pretraining",
    ("torchrun", "TPU", "full 8B"): "--checkpoint",
    ("torchrun", "TPU", "pretrain 1B"): "llama3.1-8b",
    ("torchrun", "TPU", "ResNet-50"): "PyTorch/XLA",
    ("torchrun", "TPU", "Whisper"): "PyTorch/XLA",
    ("torchrun", "TPU", "SDXL LoRA"): "MaxDiffusion",
}
"""What a pair that no file starts names instead."""
TUNES = ("LoRA 8B", "QLoRA 70B", "full 8B", "DPO 7B")


def placed(work: str, vendor: str) -> Case:
    card = CARDS.get(vendor) or NVIDIA.get(work, "h100-sxm")
    return {**WORK[work], "hardware": {"accelerator": card, "count": COUNTS[work]}}


def pairs() -> Iterator[tuple[str, str, str]]:
    for work in WORK:
        for vendor in ("NVIDIA", *CARDS):
            yield "torchrun", vendor, work
    for to in ("axolotl", "llama-factory"):
        for vendor in ("NVIDIA", "AMD"):
            yield from ((to, vendor, work) for work in TUNES)
    for work in ("QLoRA 70B", "full 8B"):
        yield "torchtune", "NVIDIA", work
    yield "unsloth", "NVIDIA", "LoRA 8B"
    yield "gaudi", "Gaudi", "full 8B"
    yield "maxtext", "TPU", "pretrain 70B"
    yield "torchtitan", "NVIDIA", "pretrain 70B"
    yield "torchtitan", "AMD", "pretrain 70B"


def said(text: str) -> str:
    [line] = [line for line in text.splitlines() if line.startswith("# Expect ")]
    return line


def agrees(text: str, to: str, case: Case) -> None:
    """The estimate of what the file says is what its head says."""
    hardware = case["hardware"]
    found = advisor.estimate(
        {
            "model": case["model"],
            "hardware": hardware,
            **meaning(text, to, hardware["count"]),
        }
    )
    assert found.time is not None
    assert found.memory.fits
    assert found.workload in text.splitlines()[0 if text.startswith("# ") else 1]
    hours = found.time.run_hours.scaled(3600.0)
    assert memory(found.memory.total_bytes, with_range=True) in said(text)
    assert duration(hours, with_range=True) in said(text)


@pytest.mark.parametrize(("to", "vendor", "work"), list(pairs()))
def test_the_head_is_the_estimate_of_the_file(to: str, vendor: str, work: str) -> None:
    case = placed(work, vendor)
    if instead := REFUSED.get((to, vendor, work)):
        with pytest.raises(InputError, match=re.escape(instead)):
            advisor.export(case, to)
        return
    agrees(advisor.export(case, to).content, to, case)
