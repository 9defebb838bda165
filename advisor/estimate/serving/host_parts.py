"""Which layers of a served model the host's memory holds."""

import numpy as np

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Part
from advisor.estimate.candidates import Floats, LayoutArrays
from advisor.foundation.record import record


@record
class HostParts:
    """Shares of a served model's layers that the host's memory holds, one element each."""

    layers: Floats
    """Layers that the host holds wholly."""
    experts: Floats
    """Layers whose routed experts the host holds."""

    @property
    def touched(self) -> Floats:
        """Share of the layers that the host works on."""
        return np.maximum(self.layers, self.experts)

    def share(self, part: Part, *, routed: bool) -> Floats:
        """Return the share of the rows of this part that the host holds."""
        if part is not Part.BLOCK:
            return np.zeros_like(self.layers)
        return self.touched if routed else self.layers


def host_parts(model: ModelArchitecture, layout: LayoutArrays) -> HostParts:
    """Return which layers the host's memory holds: the first ones, the output is the last."""
    layers = float(model.num_hidden_layers)
    whole = np.clip(layers + 1.0 - layout.gpu_layers, 0.0, layers)
    # Dense layers come first; they have no experts to hold.
    routed = layers if model.num_experts > 1 else 0.0
    return HostParts(whole / layers, np.minimum(layout.cpu_expert_layers, routed) / layers)
