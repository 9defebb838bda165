"""A plain transformer in PyTorch with the shape of its operator table.

It runs eager operations one by one, like Hugging Face models, so it is compared with the estimate
for unfused software.
"""

from typing import Any, Final

from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.table.model import ModelArchitecture
from advisor.probe.report import StepShape

NORM_EPSILON: Final = 1e-6
ROTARY_BASE: Final = 10_000.0
"""Base of rotary embeddings (Su et al. 2021, arXiv:2104.09864, section 3.4.3)."""
INITIAL_DEVIATION: Final = 0.02
"""Standard deviation of initial weights (Radford et al. 2019, GPT-2)."""

Weights = dict[str, Any]


def architecture_of(shape: StepShape) -> ModelArchitecture:
    """Return the operator table of a shape."""
    config = {
        "model_type": "mixtral" if shape.experts > 1 else "llama",
        "hidden_size": shape.hidden_size,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "intermediate_size": shape.intermediate_size,
        "vocab_size": shape.vocab_size,
        "num_local_experts": shape.experts,
        "num_experts_per_tok": shape.active_experts,
        "max_position_embeddings": shape.sequence_length,
    }
    return architecture_from_config(config, name=shape.name).changed(family="transformer")


class StepModel:
    """The weights of a shape on a device, and its loss."""

    def __init__(self, shape: StepShape, torch: Any, device: Any) -> None:
        self._shape, self._torch, self._device = shape, torch, device
        hidden, wide = shape.hidden_size, shape.intermediate_size
        narrow = hidden // shape.heads * shape.key_value_heads
        self._embedding = self._matrix(shape.vocab_size, hidden)
        self._layers: list[Weights] = []
        for _ in range(shape.layers):
            layer: Weights = {
                "attention_norm": self._scale(),
                "query": self._matrix(hidden, hidden),
                "key": self._matrix(narrow, hidden),
                "value": self._matrix(narrow, hidden),
                "output": self._matrix(hidden, hidden),
                "norm": self._scale(),
                "experts": [
                    {
                        "gate": self._matrix(wide, hidden),
                        "up": self._matrix(wide, hidden),
                        "down": self._matrix(hidden, wide),
                    }
                    for _ in range(shape.experts)
                ],
            }
            if shape.experts > 1:
                layer["router"] = self._matrix(shape.experts, hidden)
            self._layers.append(layer)
        self._norm, self._head = self._scale(), self._matrix(shape.vocab_size, hidden)
        self._rotation = self._angles(hidden // shape.heads)

    def parameters(self) -> list[Any]:
        """Return all trained tensors."""
        found = [self._embedding, self._norm, self._head]
        for layer in self._layers:
            for value in layer.values():
                found += (
                    [tensor for expert in value for tensor in expert.values()]
                    if isinstance(value, list)
                    else [value]
                )
        return found

    def loss(self, tokens: Any, targets: Any) -> Any:
        """Return the cross-entropy of the next tokens."""
        functional = self._torch.nn.functional
        stream = functional.embedding(tokens, self._embedding)
        for layer in self._layers:
            stream = (
                self._torch.utils.checkpoint.checkpoint(
                    self._block, stream, layer, use_reentrant=False
                )
                if self._shape.recompute
                else self._block(stream, layer)
            )
        logits = functional.linear(self._normalised(stream, self._norm), self._head).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def _block(self, stream: Any, layer: Weights) -> Any:
        stream = stream + self._attention(self._normalised(stream, layer["attention_norm"]), layer)
        inner = self._normalised(stream, layer["norm"])
        if self._shape.experts > 1:
            return stream + self._routed(inner, layer)
        return stream + self._expert(inner, layer["experts"][0])

    def _attention(self, inner: Any, layer: Weights) -> Any:
        functional = self._torch.nn.functional
        batch, length, hidden = inner.shape

        def heads(weight: Any, count: int) -> Any:
            projected = functional.linear(inner, weight)
            return projected.view(batch, length, count, -1).transpose(1, 2)

        query = self._rotated(heads(layer["query"], self._shape.heads))
        key = self._rotated(heads(layer["key"], self._shape.key_value_heads))
        value = heads(layer["value"], self._shape.key_value_heads)
        mixed = functional.scaled_dot_product_attention(
            query.to(value.dtype),
            key.to(value.dtype),
            value,
            is_causal=True,
            enable_gqa=self._shape.key_value_heads < self._shape.heads,
        )
        joined = mixed.transpose(1, 2).reshape(batch, length, hidden)
        return functional.linear(joined, layer["output"])

    def _expert(self, inner: Any, weights: Weights) -> Any:
        functional = self._torch.nn.functional
        gate = functional.silu(functional.linear(inner, weights["gate"]))
        return functional.linear(gate * functional.linear(inner, weights["up"]), weights["down"])

    def _routed(self, inner: Any, layer: Weights) -> Any:
        torch, functional = self._torch, self._torch.nn.functional
        flat = inner.flatten(0, 1)
        scores = functional.linear(flat, layer["router"]).float().softmax(-1)
        shares, chosen = scores.topk(self._shape.active_experts, dim=-1)
        shares = shares / shares.sum(-1, keepdim=True)
        result = torch.zeros_like(flat)
        for number, expert in enumerate(layer["experts"]):
            token, place = torch.where(chosen == number)
            made = self._expert(flat[token], expert) * shares[token, place, None]
            result = result.index_add(0, token, made.to(result.dtype))
        return result.view_as(inner)

    def _normalised(self, stream: Any, scale: Any) -> Any:
        wide = stream.float()
        spread = wide.pow(2).mean(-1, keepdim=True)
        return scale * (wide * self._torch.rsqrt(spread + NORM_EPSILON)).to(stream.dtype)

    def _rotated(self, heads: Any) -> Any:
        cosine, sine = self._rotation
        first, second = heads.chunk(2, dim=-1)
        turned = self._torch.cat((-second, first), dim=-1)
        return heads * cosine.to(heads.dtype) + turned * sine.to(heads.dtype)

    def _angles(self, head_dim: int) -> tuple[Any, Any]:
        torch = self._torch
        steps = torch.arange(0, head_dim, 2, device=self._device) / head_dim
        positions = torch.arange(self._shape.sequence_length, device=self._device)
        angles = torch.outer(positions, ROTARY_BASE**-steps)
        both = torch.cat((angles, angles), dim=-1)
        return both.cos(), both.sin()

    def _matrix(self, rows: int, columns: int) -> Any:
        made = self._torch.randn(rows, columns, device=self._device) * INITIAL_DEVIATION
        return made.requires_grad_()

    def _scale(self) -> Any:
        made = self._torch.ones(self._shape.hidden_size, device=self._device)
        return made.requires_grad_()
