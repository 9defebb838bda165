"""Bytes that the weights of a served model take in a format."""

from typing import Final

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part
from advisor.architecture.weights.gguf_bytes import file_bytes, row_bytes
from advisor.architecture.weights.stored_weights import with_stored_bytes
from advisor.estimate.tools.serving_formats import published
from advisor.foundation.record import by_identity
from advisor.nouns.precision import FORMAT_BYTES, WeightFormat
from advisor.nouns.software.published_weights import listed_weights

SIXTEEN_BIT_BYTES: Final = FORMAT_BYTES["bf16"]

EXPERTS_ONLY_FORMATS: Final = frozenset({"mxfp4"})
"""Published checkpoints of these formats (gpt-oss) quantise only routed experts."""


def bytes_per_parameter(
    row: Operator, weight_format: WeightFormat, model: ModelArchitecture
) -> float:
    """Return the bytes of one stored parameter of ``row`` of ``model``.

    GGUF mixtures give each matrix its own type, and the published file, of the model itself or of
    others in the format, may state the size of its rows. Otherwise, formats below 16 bits quantise
    the matrices of the blocks, while embeddings, head, router and norms stay at 16 bits, as in AWQ,
    GPTQ, bitsandbytes and fp8 checkpoints.
    MXFP4 quantises only routed experts if there are any.
    """
    if weight_format.mixture:
        return row_bytes(row, weight_format.name, model)
    if row.stored_bytes is not None and weight_format.name == model.weight_format:
        return row.stored_bytes
    if (size := _in_published_file(model, weight_format).get(row.name)) is not None:
        return size
    stored = weight_format.bytes_per_parameter
    if weight_format.common_bytes_per_parameter and model.num_experts > 1:
        return _in_uneven_file(row, stored, weight_format.common_bytes_per_parameter, model)
    if stored >= SIXTEEN_BIT_BYTES or weight_format.whole:
        return stored
    if weight_format.head_bytes_per_parameter is not None:
        # Of tied weights, the head is a copy.
        head = row.kind is OperatorKind.MATMUL and row.part is Part.HEAD
        if head or (model.tied_embeddings and row.part is Part.EMBEDDING):
            return weight_format.head_bytes_per_parameter
    quantised = row.kind is OperatorKind.MATMUL and row.part is Part.BLOCK
    if model.num_experts > 1 and weight_format.name in EXPERTS_ONLY_FORMATS:
        quantised = row.division is Division.EXPERT
    return stored if quantised else SIXTEEN_BIT_BYTES


@by_identity(4096)
def _in_published_file(model: ModelArchitecture, weight_format: WeightFormat) -> dict[str, float]:
    """Return row -> bytes of one parameter in published weights whose parts differ in format."""
    if model.hub_id is None or weight_format.name == model.weight_format:
        return {}
    weights = published(model.hub_id, weight_format.name, tuned=True)
    block = listed_weights().parts.get(weights or "")
    if block is None:
        return {}
    rows = with_stored_bytes(model.operators, {"quantization_config": block})
    return {row.name: row.stored_bytes for row in rows if row.stored_bytes is not None}


def _in_uneven_file(row: Operator, mean: float, common: float, model: ModelArchitecture) -> float:
    """Return the bytes of one parameter where routed experts have fewer than all else."""
    if row.experts <= 1:
        return common
    held = sum(item.layers * item.parameters for item in model.operators if item.experts > 1)
    return common + (mean - common) * model.total_parameters / held


def stores_as_published(model: ModelArchitecture, weight_format: WeightFormat) -> bool:
    """Return whether a quantised file gives the size of each matrix of the weights."""
    own = weight_format.name == model.weight_format
    stated = own and any(row.stored_bytes is not None for row in model.operators)
    return stated or bool(_in_published_file(model, weight_format))


def network_bytes(model: ModelArchitecture, weight_format: WeightFormat) -> float:
    """Return the bytes of the weights of a network that does not generate.

    Engines that compute in a format hold all its products in it. A format of weights alone
    (bitsandbytes) packs Linear layers: convolutions stay at 16 bits.
    """
    if weight_format.compute == weight_format.name:
        return weight_format.bytes_per_parameter * model.total_parameters
    return _held(model, weight_format)


def _held(model: ModelArchitecture, weight_format: WeightFormat) -> float:
    return sum(
        row.layers * row.parameters * bytes_per_parameter(row, weight_format, model)
        for row in model.operators
    )


def mean_bytes_per_parameter(model: ModelArchitecture, weight_format: WeightFormat) -> float:
    """Return the format's bytes per parameter, or the model's mean if its rows differ."""
    if weight_format.mixture:
        return file_bytes(model, weight_format.name) / model.total_parameters
    if not stores_as_published(model, weight_format):
        return weight_format.bytes_per_parameter
    return _held(model, weight_format) / model.total_parameters
