"""The cache of one sequence on one accelerator."""

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Operator
from advisor.equations.serving.engine import cache_share
from advisor.equations.training.memory import stage_share
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.estimate.serving.demand import ServedModel
from advisor.estimate.serving.host_parts import host_parts


def block_share(model: ModelArchitecture, layout: LayoutArrays) -> Floats:
    """Return the share of the blocks on the pipeline stage with the most layers."""
    layers = float(model.num_hidden_layers)
    return np.asarray(stage_share(layers=layers, pipeline=layout.pipeline, virtual_stages=1.0))


def cached_bytes_per_sequence(
    served: ServedModel, layout: LayoutArrays, tokens: Floats | float
) -> Floats:
    """Return the cache of one sequence of ``tokens`` tokens on one accelerator, in bytes.

    Includes recurrent state, and the encoder output that a decoder keeps. Windows limit the
    tokens of their layers. Leaves out that paged engines round up to blocks of 16 tokens.
    """
    total = np.zeros(np.broadcast_shapes(np.shape(tokens), layout.tensor.shape))
    for row in served.attention:
        share = row_cache_share(row, layout)
        kept = np.minimum(tokens, row.window) if row.window else tokens
        kept = float(row.keys) if row.keys else kept
        cached = share * row.cache_elements_per_token * kept * served.cache_bytes
        # The format of the cache does not change the format of the state.
        state = row.state_elements_per_sequence * row.state_bytes_per_element / layout.tensor
        total = total + row.layers * (cached + state)
    return (
        total * block_share(served.model, layout) * (1.0 - host_parts(served.model, layout).layers)
    )


def row_cache_share(row: Operator, layout: LayoutArrays) -> Floats:
    """Return the share of the row's cache that one tensor-parallel rank holds."""
    heads = float(max(row.cache_heads, 1))
    return np.asarray(cache_share(heads=heads, tensor_parallel=layout.tensor))
