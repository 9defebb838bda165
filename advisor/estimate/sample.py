"""What a workload says about the size of one input, and whether the network has such an input."""

from __future__ import annotations

from advisor.architecture.model import ModelArchitecture
from advisor.architecture.sample import SampleSize, Unit
from advisor.errors import InputError
from advisor.workload import FineTuning, Serving, Workload

UNIT_FIELDS = {
    Unit.TOKEN: ("sequence_length",),
    Unit.IMAGE: ("image_size", "image_channels"),
    Unit.SAMPLE: ("sequence_length", "decoder_sequence_length", "image_size", "image_channels"),
}
"""Fields of a workload that say how large one input is, by what the network takes."""

ALL_FIELDS = ("image_size", "image_channels", "sequence_length", "decoder_sequence_length")


def sample_of(workload: Workload) -> SampleSize:
    """Size of one input, as far as the workload tells it.

    Parameters
    ----------
    workload : Pretraining, FineTuning or Serving

    Returns
    -------
    SampleSize
        For ``architecture.resolve.resolve_model``; networks that read tokens ignore it.
    """
    size, channels = workload.image_size, workload.image_channels
    if isinstance(workload, Serving):
        # Pairs are not served, and what else answers requests takes their length as it comes.
        return SampleSize(image_size=size, image_channels=channels)
    return SampleSize(
        image_size=size,
        image_channels=channels,
        sequence_length=workload.sequence_length,
        decoder_sequence_length=workload.decoder_sequence_length,
    )


def check_sample_fields(workload: Workload, architecture: ModelArchitecture) -> None:
    """Refuse sizes of inputs that the network does not have.

    Raises
    ------
    InputError
        E.g. for a sequence length where the network takes images.
    """
    unit = architecture.unit
    if isinstance(workload, FineTuning) and workload.preference and unit is Unit.IMAGE:
        raise InputError(
            f"{architecture.name} gives no answers to prefer: it takes images",
            value=workload.preference.value,
            allowed="preference tuning of models that write text",
            remedy="Leave workload.preference out.",
            field="workload.preference",
        )
    if (
        isinstance(workload, Serving)
        and (workload.denoising_steps is not None or workload.guidance)
        and not architecture.denoises
    ):
        raise InputError(
            f"{architecture.name} is no diffusion model: it makes no image in steps",
            value=workload.denoising_steps or "guidance",
            allowed="denoising_steps and guidance of diffusion models",
            remedy="Leave both out.",
            field="workload.denoising_steps",
        )
    for name in ALL_FIELDS:
        value = getattr(workload, name, None)
        if value is not None and name not in UNIT_FIELDS[unit]:
            takes = {Unit.TOKEN: "tokens", Unit.IMAGE: "images", Unit.SAMPLE: "whole samples"}[unit]
            raise InputError(
                f"workload.{name} does not apply to {architecture.name}, which takes {takes}",
                value=value,
                allowed=f"{', '.join(UNIT_FIELDS[unit])}",
                remedy="Leave the field out.",
                field=f"workload.{name}",
            )
