"""How fast the host feeds images to a training step."""

from math import inf

import numpy as np

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.equations.training.input_pipeline import input_time_s
from advisor.estimate.candidates import Candidates, Floats
from advisor.estimate.training.defaults import usual_images
from advisor.foundation.record import record
from advisor.nouns.hardware import Node
from advisor.nouns.training_choices import DataLoading
from advisor.nouns.workload import Serving, Training, Workload


@record
class Loading:
    """Work of the host for each image."""

    worker_s: float
    """Time of one worker to decode and augment it. [s]"""
    workers: int | None
    """For each accelerator; None: one on each core."""
    image_bytes: float
    storage_bytes_per_s: float
    """Storage rate of each machine; infinite if the images are in memory. [bytes/s]"""


def decodes_images(workload: Workload, architecture: ModelArchitecture) -> bool:
    """Whether the host decodes images for this work; latents of diffusion are made in advance."""
    images = architecture.unit is Unit.IMAGE and not architecture.denoises
    return images and not isinstance(workload, Serving)


def resolve_loading(
    workload: Training, architecture: ModelArchitecture, assumptions: list[str]
) -> Loading | None:
    """Return how images are loaded, and note it; None if none are read or decoded."""
    if not decodes_images(workload, architecture):
        return None
    how = workload.data_loading or DataLoading.JPEG
    storage = workload.storage_bytes_per_s or inf
    size = architecture.sample.image_size if architecture.sample else None
    usual = usual_images()
    larger = max(1.0, (size or 0) ** 2 / usual.data_set.mean_pixels)
    if how is DataLoading.CACHED:
        assumptions.append("images are already decoded in memory: no input pipeline")
        return None
    core = usual.core_per_s[how]
    worker_s = larger * (1.0 / core.decoded + 1.0 / core.cropped)
    if workload.worker_images_per_s is not None:
        worker_s = 1.0 / workload.worker_images_per_s
    workers = (
        f"{workload.loader_workers} for each accelerator"
        if workload.loader_workers
        else "one on each core"
    )
    assumptions.append(
        f"JPEG images: each loader worker decodes and augments {1.0 / worker_s:,.0f} a second "
        f"({workers})"
    )
    return Loading(worker_s, workload.loader_workers, larger * usual.data_set.image_bytes, storage)


def host_note(node: Node) -> str:
    """Return a note on the host cores of each accelerator, and whether they are assumed."""
    known = "" if node.host_vcpus else ", assumed"
    return f"{node.host_cores / node.accelerators:.3g} host cores for each accelerator{known}"


def loading_time(loading: Loading, global_batch: float, candidates: Candidates) -> Floats:
    """Time in which the hosts of each configuration load one step's images. [s]"""
    hardware = candidates.hardware
    share = global_batch / candidates.layout.accelerators
    return np.asarray(
        input_time_s(
            samples=share,
            workers=loading.workers or hardware.host_cores,
            worker_s=loading.worker_s,
            sample_bytes=loading.image_bytes,
            storage_bytes_per_s=loading.storage_bytes_per_s / hardware.node_accelerators,
        )
    )
