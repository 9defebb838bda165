"""Reads from a GGUF header the configuration from which its model was converted.

Facts missing in the metadata (tied head, biases, widths of experts) come from the tensor table.
"""

from collections.abc import Mapping
from typing import Final

from advisor.architecture.weights.gguf_bytes import gguf_facts
from advisor.architecture.weights.gguf_header import GgufHeader, Value
from advisor.architecture.weights.tensor_table import TensorTable, refuse
from advisor.errors import UnsupportedArchitectureError

ROUTED_THROUGHOUT: Final = frozenset({"gpt_oss", "minimax_m2", "mixtral"})
"""Families whose ``intermediate_size`` means the width of an expert."""

NOT_PARAMETERS: Final = ("rope_freqs", "rope_factors_long", "rope_factors_short")
"""Tables of the position encoding that a file stores as tensors."""


def config_from_gguf(header: GgufHeader) -> dict[str, object]:
    """Return the configuration of the model in a GGUF file.

    Fields as in ``config.json``, for ``architecture_from_config``.

    ``header``: of the whole model, with all parts if the file is split. Raises
    UnsupportedArchitectureError for another family, InputError for a missing or unusable key.
    """
    family = header.metadata.get("general.architecture")
    facts = gguf_facts()
    if not isinstance(family, str) or family not in facts.architectures:
        raise UnsupportedArchitectureError(
            "the GGUF file's general.architecture is not supported",
            value=family,
            allowed=", ".join(facts.architectures),
            remedy="Give the config.json of the model that it was converted from, "
            "or the parameter count.",
            field="model.config",
        )
    metadata, shapes = header.metadata, header.table.shapes()
    config: dict[str, object] = {
        field: _uniform(f"{family}.{key}", metadata[f"{family}.{key}"])
        for key, field in facts.fields.items()
        if f"{family}.{key}" in metadata
    }
    config["num_hidden_layers"] = block_count(metadata, family)
    config["vocab_size"] = _vocabulary(metadata, family, shapes)
    config["tie_word_embeddings"] = "output.weight" not in shapes
    kind = facts.architectures[family]
    if not config.get("num_experts"):
        # Dense files of families with routing state zero experts.
        config.pop("num_experts", None)
        config.pop("num_experts_per_tok", None)
    elif kind == "llama":
        kind = "mixtral"
    config["model_type"] = kind
    if not config.get("sliding_window"):
        config.pop("sliding_window", None)
    _biases(config, shapes)
    _experts(config, kind, shapes)
    if kind == "deepseek_v3":
        _latent(config, metadata, family, shapes)
    return config


def block_count(metadata: Mapping[str, Value], family: str) -> int:
    """Return the number of blocks, without multi-token prediction layers.

    Raises InputError if the key is missing or not a whole number.
    """
    key = f"{family}.block_count"
    blocks, further = metadata.get(key), metadata.get(f"{family}.nextn_predict_layers", 0)
    if not isinstance(blocks, int) or not isinstance(further, int) or not 0 <= further < blocks:
        refuse(f"the GGUF metadata has no usable {key}", blocks, "the number of blocks")
    return blocks - further


def counted(table: TensorTable, blocks: int) -> int:
    """Return the parameters of the first ``blocks`` blocks, the embedding and the head in a table.

    Later blocks are for multi-token prediction.
    """
    total = 0
    for tensor in table.tensors:
        first, _, rest = tensor.name.partition(".")
        index = rest.partition(".")[0]
        beyond = first == "blk" and index.isdecimal() and int(index[:9]) >= blocks
        if first not in NOT_PARAMETERS and not beyond:
            total += tensor.elements
    return total


def _uniform(key: str, value: Value) -> Value:
    """Return the single value of a key that may have one value per layer."""
    if not isinstance(value, tuple):
        return value
    if len(set(value)) != 1:
        refuse(
            f"{key} differs between layers, which is not supported",
            value[:8],
            "one value",
            "Give the config.json of the model that it was converted from.",
        )
    return value[0]


def _vocabulary(
    metadata: Mapping[str, Value], family: str, shapes: Mapping[str, tuple[int, ...]]
) -> Value:
    shape = shapes.get("token_embd.weight", ())
    if len(shape) == 2:
        return shape[0]
    stated = metadata.get(f"{family}.vocab_size")
    if stated is None:
        refuse("the GGUF file has no token embedding", shape, "token_embd.weight")
    return stated


def _biases(config: dict[str, object], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Set the bias flags from the tensors of the first block."""
    config["attention_bias"] = "blk.0.attn_q.bias" in shapes
    config["mlp_bias"] = "blk.0.ffn_up.bias" in shapes
    config["use_qk_norm"] = "blk.0.attn_q_norm.weight" in shapes


def _experts(config: dict[str, object], kind: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Set the widths of experts, which older files leave out."""
    if "num_experts" not in config:
        return
    for field, part in (
        ("moe_intermediate_size", ".ffn_up_exps.weight"),
        ("shared_expert_intermediate_size", ".ffn_up_shexp.weight"),
    ):
        found = (shape for name, shape in shapes.items() if name.endswith(part))
        shape = next(found, ())
        if field not in config and len(shape) >= 2:
            config[field] = shape[-2]
    if kind in ROUTED_THROUGHOUT and "moe_intermediate_size" in config:
        config["intermediate_size"] = config["moe_intermediate_size"]


def _latent(
    config: dict[str, object],
    metadata: Mapping[str, Value],
    family: str,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Set the dimensions of latent attention. Older files cache full heads."""
    rope = metadata.get(f"{family}.rope.dimension_count")
    key = metadata.get(
        f"{family}.attention.key_length_mla", metadata.get(f"{family}.attention.key_length")
    )
    if not isinstance(rope, int) or not isinstance(key, int):
        refuse(
            "the GGUF metadata has no usable rope.dimension_count and key length",
            (rope, key),
            "whole numbers",
        )
    config["qk_rope_head_dim"] = rope
    config["qk_nope_head_dim"] = key - rope
    config["v_head_dim"] = metadata.get(
        f"{family}.attention.value_length_mla", metadata.get(f"{family}.attention.value_length")
    )
    config["kv_lora_rank"] = metadata.get(f"{family}.attention.kv_lora_rank")
    config["q_lora_rank"] = metadata.get(f"{family}.attention.q_lora_rank") or None
    config["num_key_value_heads"] = config.get("num_attention_heads")
    config.pop("head_dim", None)
    if not any(name.endswith("exp_probs_b.bias") for name in shapes):
        config["model_type"] = "deepseek_v2"
