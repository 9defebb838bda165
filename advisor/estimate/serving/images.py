"""Images in prompts: the tokens that they add and the work of the vision tower."""

import math

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.equations.flops import tower_flops
from advisor.errors import refusal
from advisor.foundation.units import MILLION, MILLISECOND
from advisor.nouns.images import ImageWork, VisionTower, tower_before, vision_towers
from advisor.nouns.precision import FORMAT_BYTES
from advisor.nouns.serving import Serving


def tower_of(architecture: ModelArchitecture) -> VisionTower | None:
    """Return the vision tower that reads images for a model; None if none is described."""
    words = f"{architecture.family} {architecture.name} {architecture.hub_id}".lower()
    text = f"{architecture.hidden_size}x{architecture.num_hidden_layers}"
    return tower_before(words, text)


def tower_parameters(architecture: ModelArchitecture) -> int:
    """Return the parameters of a model's vision tower and its projector; 0 if not described."""
    if architecture.unit is not Unit.TOKEN or (tower := tower_of(architecture)) is None:
        return 0
    projected = tower.projector_parameters(architecture.hidden_size)
    return tower.block_parameters + projected + tower.beside


def tower_bytes(architecture: ModelArchitecture) -> float:
    """Return the weights of a model's vision tower in 16 bits; 0 if none is described. [bytes]"""
    return FORMAT_BYTES["bf16"] * tower_parameters(architecture)


def with_images(workload: Serving, architecture: ModelArchitecture) -> Serving:
    """Return a workload whose prompts include its images; the same object if nothing changes.

    Raises InputError if no vision tower is described, if a size is given without images, or if
    ``image_work`` is given and does not follow from the model and its images.
    """
    count, side = workload.images_per_request, workload.prompt_image_size
    if count is None and side is None and workload.image_work is None:
        return workload
    if count is None:
        given = side or getattr(workload.image_work, "tokens", None)
        name = "image_work" if side is None else "prompt_image_size"
        raise refusal("no_images_to_describe", value=given, name=name)
    tower = tower_of(architecture)
    if tower is None:
        known = "; ".join(one.title for one in vision_towers().towers)
        raise refusal("no_vision_tower", value=count, allowed=known, model=architecture)
    work = image_work(tower, count, side or vision_towers().default_side, architecture)
    if workload.image_work == work:
        return workload
    if workload.image_work is not None:
        raise refusal("other_image_work", value=workload.image_work.tokens, work=work)
    update: dict[str, object] = {"image_work": work}
    for name in ("input_tokens", "input_tokens_p95"):
        if (length := getattr(workload, name)) is not None:
            update[name] = length + work.tokens
    return workload.changed(**update)


def image_work(
    tower: VisionTower, count: int, side: int, architecture: ModelArchitecture
) -> ImageWork:
    """Return what ``count`` square images of ``side`` pixels take in one request."""
    exact = min(max(side, tower.least), tower.most) / tower.unit
    across = max(1, math.ceil(exact) if tower.rounds_up else round(exact))
    units = across**2 + (1 if tower.thumbnail and across > 1 else 0)
    patches, tokens = units * tower.unit_patches, units * tower.unit_tokens
    windowed = tower.layers - tower.full_layers
    flops = tower_flops(
        parameters=tower.block_parameters,
        patches=patches,
        hidden_size=tower.hidden,
        whole=tower.full_layers,
        attended=windowed * min(tower.window, patches),
    )
    projected = tower.projector_parameters(architecture.hidden_size)
    host_s = side**2 / MILLION * vision_towers().host_ms_per_megapixel * MILLISECOND
    return ImageWork(
        tokens=count * (tokens + across * tower.row_tokens + tower.around),
        flops=float(count * (flops + 2.0 * projected * tokens)),
        tower_bytes=tower_bytes(architecture),
        host_s=count * host_s,
        side=across * tower.unit,
    )
