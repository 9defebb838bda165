"""Networks that take images or sound: timm, and scripts for Whisper and diffusion."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from advisor.architecture.families.diffusion import beside_bytes
from advisor.architecture.pairs import is_pair
from advisor.estimate.training.defaults import usual_images
from advisor.export.setup import Setup
from advisor.export.training.accelerators import GAUDI
from advisor.export.training.model_names import launch_models
from advisor.export.training.tool import Tool
from advisor.foundation.formatting import memory
from advisor.nouns.training_choices import AttentionKernel, DataLoading, GradientSync, Optimizer

ATTENDS: Final = {"attention": AttentionKernel.FLASH, "gradient_sync": GradientSync.EACH}
UNET_TARGETS: Final = ("q", "k", "v", "o")
"""Projections that diffusers' scripts and SimpleTuner adapt: to_q, to_k, to_v, to_out.0."""
LOADERS: Final = 4
"""Processes that load where the plan does not say."""


def _dataset_size(setup: Setup) -> int:
    """Images of one epoch: the stated samples, or ImageNet's where they are as many times its."""
    images = usual_images().data_set.images
    given = round(getattr(setup.workload, "samples", None) or images)
    return given if given % images else images


def folder_bytes(setup: Setup) -> float:
    """Return the size of the folder of images that timm reads. [bytes]"""
    usual = usual_images().data_set
    reads = setup.tool is not None and "epoch_images" in setup.tool.facts
    return _dataset_size(setup) * usual.bytes / usual.images if reads else 0.0


def _epochs(setup: Setup) -> int:
    return max(1, round(setup.run.tokens / _dataset_size(setup)))


def _loaders(setup: Setup) -> int:
    """Return the loader's processes for each accelerator: as asked, or one on each core."""
    node = setup.placement.node
    asked: int | None = getattr(setup.workload, "loader_workers", None)
    return asked or max(1, int(node.host_cores / node.accelerators))


def _timm_means(setup: Setup) -> Mapping[str, object]:
    optimizer = setup.run.optimizer
    momentum = Optimizer.SGD_MOMENTUM if optimizer is Optimizer.SGD else optimizer
    return {
        "epochs": _epochs(setup),
        "optimizer": momentum,
        "data_loading": DataLoading.JPEG,
        "loader_workers": _loaders(setup),
        "gradient_sync": GradientSync.EACH,
    }


def _workers(setup: Setup) -> int:
    loading = setup.run.loading
    return loading.workers if loading and loading.workers else LOADERS


TIMM: Final = Tool(
    "timm",
    facts={
        "epoch_images": _dataset_size,
        "epochs": _epochs,
        "network": lambda setup: launch_models().timm.names.get(
            setup.model.hub_id or setup.model.name
        ),
        "networks": lambda _: ", ".join(launch_models().timm.names.values()),
        "warm_up_epochs": lambda setup: min(5, _epochs(setup) // 10),
        "workers": _workers,
    },
    amount=lambda setup, _: float(_dataset_size(setup)),
    means=_timm_means,
)
ULTRALYTICS: Final = Tool(
    "ultralytics",
    facts={
        "batch": lambda setup: setup.layout.micro_batch * setup.layout.data,
        "devices": lambda setup: ",".join(map(str, range(setup.layout.data))),
        "epoch_images": _dataset_size,
        "epochs": _epochs,
        "segments": lambda setup: setup.model.name.endswith("-seg"),
        "workers": _workers,
    },
    amount=lambda setup, _: float(_dataset_size(setup)),
    means=_timm_means,
)
"""YOLO; it starts a process for each card by itself."""
WHISPER: Final = Tool(
    "whisper",
    facts={"whisper": lambda setup: "whisper" in (setup.model.hub_id or setup.checkpoint or "")},
    means=lambda _: ATTENDS,
)
SUMMARIES: Final = Tool(
    "summaries",
    facts={
        "pair": lambda setup: is_pair(setup.model),
        "source_tokens": lambda setup: setup.model.sample and setup.model.sample.sequence_length,
        "target_tokens": lambda setup: (
            setup.model.sample and setup.model.sample.decoder_sequence_length
        ),
    },
    means=lambda _: ATTENDS,
)
"""T5, BART and their like, on texts with what to write about them."""
GAUDI_TIMM: Final = replace(TIMM, key="gaudi-timm")
GAUDI_WHISPER: Final = replace(
    WHISPER,
    key="gaudi-whisper",
    facts={**WHISPER.facts, **SUMMARIES.facts, "spawn": GAUDI.facts["spawn"]},
)


def _resolution(setup: Setup) -> int:
    return (setup.model.sample.image_size if setup.model.sample else None) or 1024


def _script(setup: Setup) -> str | None:
    return launch_models().diffusers.of(setup.model.hub_id)


DIFFUSERS: Final = Tool(
    "diffusers",
    facts={
        "beside": lambda setup: memory(beside_bytes(setup.model)),
        "resolution": _resolution,
        "script": _script,
    },
    means=lambda setup: {
        **ATTENDS,
        "lora_targets": (
            tuple(launch_models().projections.plain)
            if "flux" in (_script(setup) or "")
            else UNET_TARGETS
        ),
    },
    beside=lambda setup: beside_bytes(setup.model),
)


def _named(setup: Setup, place: int) -> str | None:
    found = launch_models().simpletuner.of(setup.model.hub_id)
    return found.split("/")[place] if found else None


SIMPLETUNER: Final = Tool(
    "simpletuner",
    facts={
        "family": lambda setup: _named(setup, 0),
        "flavour": lambda setup: _named(setup, 1),
        "machines": lambda setup: -(-setup.estimate.count // setup.placement.node.accelerators),
        "resolution": _resolution,
    },
    means=lambda _: {**ATTENDS, "lora_targets": UNET_TARGETS},
)
