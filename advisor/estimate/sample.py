"""Size of one input from the workload, and the check that the network takes such an input."""

from collections.abc import Iterator

from advisor.architecture.table.model import ModelArchitecture, SampleSize, Unit
from advisor.architecture.table.operators import OperatorKind
from advisor.errors import refusal
from advisor.nouns.training_choices import AttentionKernel
from advisor.nouns.workload import FineTuning, Serving, Workload

UNIT_FIELDS = {
    Unit.TOKEN: ("sequence_length",),
    Unit.IMAGE: ("image_size", "image_channels"),
    Unit.SAMPLE: ("sequence_length", "decoder_sequence_length", "image_size", "image_channels"),
}
"""Fields of a workload with the size of one input, by the unit that the network takes."""

LOADING_FIELDS = ("data_loading", "loader_workers", "worker_images_per_s", "storage_bytes_per_s")
"""Fields of a workload that say how images are read and decoded."""
SIZES = ("image_size", "image_channels", "sequence_length", "decoder_sequence_length")


def sample_of(workload: Workload) -> SampleSize:
    """Size of one input, as far as the workload states it.

    For ``architecture.resolve.resolve_model``; networks that read tokens ignore it.
    """
    size, channels = workload.image_size, workload.image_channels
    if isinstance(workload, Serving):
        return SampleSize(
            image_size=size,
            image_channels=channels,
            # Without a stated length, the network takes the length that it was trained on.
            sequence_length=workload.input_tokens
            if "input_tokens" in workload.model_fields_set
            else None,
            decoder_sequence_length=workload.decoder_sequence_length,
        )
    return SampleSize(
        image_size=size,
        image_channels=channels,
        sequence_length=workload.sequence_length,
        decoder_sequence_length=workload.decoder_sequence_length,
    )


def check_sample_fields(workload: Workload, architecture: ModelArchitecture) -> None:
    """Refuse fields of the workload that the network does not use.

    Raises InputError, e.g. for a sequence length where the network takes images.
    """
    for field, value, why, allowed in _useless(workload, architecture):
        raise refusal(
            "field_unused", value=value, allowed=allowed, name=field, model=architecture, why=why
        )


def _useless(
    workload: Workload, architecture: ModelArchitecture
) -> Iterator[tuple[str, object, str, str]]:
    """Yield field, value, what the network does instead, and what is allowed."""
    unit = architecture.unit
    takes = {
        Unit.TOKEN: "takes tokens",
        Unit.IMAGE: "takes images",
        Unit.SAMPLE: "takes whole samples",
    }[unit]
    if isinstance(workload, FineTuning) and workload.preference and unit is Unit.IMAGE:
        yield "preference", workload.preference.value, takes, "models that write text"
    sizes = _sizes(architecture)
    for name in SIZES:
        value = getattr(workload, name, None)
        if value is not None and name not in sizes:
            yield name, value, takes, ", ".join(sizes)
    if isinstance(workload, Serving):
        if workload.frames_per_s and (unit is not Unit.IMAGE or architecture.denoises):
            yield "frames_per_s", workload.frames_per_s, takes, "networks that see an image once"
        if not architecture.denoises:
            for name in ("denoising_steps", "guidance"):
                if value := getattr(workload, name):
                    yield name, value, "makes no image in steps", "diffusion models"
        for name in ("input_tokens", "output_tokens", "kv_cache_format"):
            value = getattr(workload, name)
            if unit is not Unit.TOKEN and value != Serving.model_fields[name].default:
                yield name, value, takes, "concurrency: how many at once"
        return
    for name in LOADING_FIELDS:
        value = getattr(workload, name)
        if value is not None and (unit is not Unit.IMAGE or architecture.denoises):
            yield name, value, "decodes no images", "networks that take images"
    if workload.attention is not AttentionKernel.FLASH and not any(
        op.kind is OperatorKind.ATTENTION for op in architecture.operators
    ):
        yield "attention", workload.attention.value, "has none", "networks with attention"
    if workload.cross_entropy and architecture.denoises:
        yield "cross_entropy", workload.cross_entropy.value, "compares images", "classes or words"


def _sizes(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Fields with the size of one input of the network."""
    sample = architecture.sample
    if architecture.unit is not Unit.SAMPLE or sample is None:
        return UNIT_FIELDS[architecture.unit]
    # The sample holds an asked size even if the network takes no image; networks that take one
    # have the other size too.
    other = {"image_size": "image_channels", "image_channels": "image_size"}
    return tuple(
        name
        for name in UNIT_FIELDS[Unit.SAMPLE]
        if name not in other or getattr(sample, other[name]) is not None
    )
