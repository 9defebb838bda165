"""Predictions for tables of served networks that take images."""

from typing import Final

from advisor.architecture.table.sample import Unit
from advisor.calibration.scoring.report import ValidationRow, scored
from advisor.calibration.tables.context import Engine
from advisor.calibration.tables.formats import weight_format
from advisor.calibration.tables.guesses import filled
from advisor.calibration.tables.reading import Row, built, cell, choice, integer, number, stated
from advisor.catalog.nodes import node_for
from advisor.errors import InputError
from advisor.estimate.batch.forward import batch_interval, batch_times, image_kernels
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.card_formats import compute_format
from advisor.estimate.sample import SIZES
from advisor.foundation.quantities import Range
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.software.tools import known_tools
from advisor.nouns.workload import Serving

IMAGE_KINDS: Final = ("vision", "diffusion")
QUANTITY: Final = "images_per_s"


def predict_image_row(row: Row, engine: Engine) -> list[ValidationRow]:
    """Predict the images per second of one batched run.

    Raises InputError if the row has no measured rate, the network takes no images, or a cell is
    unusable.

    Parameters
    ----------
    row : mapping
        A row of kind ``vision`` or ``diffusion`` of a table of serving measurements.
    """
    measured = number(row, QUANTITY)
    if measured is None or measured <= 0:
        raise InputError(
            f"the row has no {QUANTITY}",
            value=cell(row, QUANTITY),
            allowed="images per second",
            remedy="Leave the row out.",
            field=QUANTITY,
        )
    architecture = engine.architecture(row)
    if architecture.unit is not Unit.IMAGE:
        raise InputError(
            "the row's model takes no images",
            value=architecture.name,
            allowed="a network that takes images",
            remedy="Correct the row's kind or model.",
            field="model",
        )
    accelerator = engine.accelerator(row)
    stored = weight_format(row)
    tool = known_tools().get(cell(row, "engine"))
    calibration = engine.calibration.under(tool.engine if tool else None)
    kernels, known = calibration.kernels_for(accelerator)
    stack = choice(filled(row, "serving"), "software", known_stacks())
    count = integer(row, "num_accelerators", 1)
    batch = {"concurrency": integer(row, "concurrency", 1)}
    times = batch_times(
        architecture,
        built(Serving, stated(row, Serving, leave=(*SIZES, "engine")) | batch),
        stored,
        Candidates(
            layout=LayoutArrays.of(ParallelLayout(data=count)),
            hardware=HardwareArrays.of(
                accelerator,
                node_for(accelerator, None),
                kernels,
                compute=compute_format(accelerator, stored),
            ),
        ),
        calibration,
        stack=stack.name,
    )
    interval = batch_interval(architecture, stored, accelerator, calibration, measured=known)
    rate = float(times.per_s[0])
    kind = "eager" if stack.eager else "compiled"
    if image_kernels(architecture, stored, calibration):
        kind = "fused"
    parts = ("model", "accelerator", "engine")
    return [
        scored(
            id=cell(row, "id"),
            quantity=QUANTITY,
            regime=f"{cell(row, 'kind')}|{kind}",
            group=" | ".join(cell(row, part) for part in parts),
            source=cell(row, "source"),
            measured=measured,
            predicted=Range(
                low=rate / interval.high,
                expected=rate,
                high=rate / interval.low,
                evidence=interval.evidence,
            ),
        )
    ]
