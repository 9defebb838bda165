"""From a Hugging Face ``config.json`` to the operator table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from advisor.architecture import classic_families, families, routed_families
from advisor.architecture.config_fields import REMEDY, ConfigFields
from advisor.architecture.model import ModelArchitecture
from advisor.architecture.quantization import weight_format
from advisor.architecture.shapes import TransformerShape
from advisor.architecture.transformer import routed, transformer_operators
from advisor.errors import UnsupportedArchitectureError
from advisor.quantities import Evidence


class Family(NamedTuple):
    """A supported family: its name for people, and the reader of its configurations."""

    title: str
    read: Callable[[ConfigFields], TransformerShape]


FAMILIES: Final[dict[str, Family]] = {
    "bloom": Family("BLOOM", classic_families.bloom),
    "cohere": Family("Command-R", families.cohere),
    "cohere2": Family("Command-R7B and Command A", families.cohere2),
    "deepseek_v2": Family("DeepSeek V2", routed_families.deepseek),
    "deepseek_v3": Family("DeepSeek V3", routed_families.deepseek),
    "deepseek_v32": Family("DeepSeek V3.2", routed_families.deepseek_sparse),
    "falcon": Family("Falcon", classic_families.falcon),
    "gemma": Family("Gemma", families.gemma),
    "gemma2": Family("Gemma 2", families.gemma2),
    "gemma3_text": Family("Gemma 3", families.gemma3),
    "glm4": Family("GLM-4", families.glm4),
    "glm4_moe": Family("GLM-4.5", routed_families.glm4_moe),
    "glm_moe_dsa": Family("GLM-5", routed_families.deepseek_sparse),
    "gpt2": Family("GPT-2", classic_families.gpt2),
    "gpt_neox": Family("GPT-NeoX", classic_families.gpt_neox),
    "gpt_oss": Family("gpt-oss", routed_families.gpt_oss),
    "gptj": Family("GPT-J", classic_families.gptj),
    "granite": Family("Granite", families.llama),
    "kimi_k2": Family("Kimi K2", routed_families.deepseek),
    "llama": Family("Llama", families.llama),
    "minimax_m2": Family("MiniMax-M2", routed_families.minimax_m2),
    "ministral": Family("Ministral", families.mistral),
    "mistral": Family("Mistral", families.mistral),
    "mixtral": Family("Mixtral", routed_families.mixtral),
    "mpt": Family("MPT", classic_families.mpt),
    "olmo2": Family("OLMo 2", families.olmo2),
    "olmo3": Family("OLMo 3", families.olmo2),
    "opt": Family("OPT", classic_families.opt),
    "phi": Family("Phi", classic_families.phi),
    "phi3": Family("Phi 3 and 4", families.phi3),
    "qwen": Family("Qwen", families.qwen1),
    "qwen2": Family("Qwen 2", families.qwen2),
    "qwen2_5_vl": Family("Qwen 2.5 VL", families.qwen2),
    "qwen2_moe": Family("Qwen 2 MoE", routed_families.qwen2_moe),
    "qwen2_vl": Family("Qwen 2 VL", families.qwen2),
    "qwen3": Family("Qwen 3", families.qwen3),
    "qwen3_moe": Family("Qwen 3 MoE", routed_families.qwen3_moe),
    "qwen3_vl_moe_text": Family("Qwen 3 VL", routed_families.qwen3_moe),
    "qwen3_vl_text": Family("Qwen 3 VL", families.qwen3),
    "smollm3": Family("SmolLM 3", families.smollm3),
    "starcoder2": Family("StarCoder 2", classic_families.starcoder2),
}
"""Supported families by ``model_type``."""

KNOWN_UNSUPPORTED: Final = frozenset(
    {
        "bart",
        "bert",
        "clip",
        "dbrx",
        "deepseek_ref",
        "deepseek_v4",
        "falcon_h1",
        "falcon_mamba",
        "gemma3n",
        "gemma4",
        "gemma4_text",
        "granitemoe",
        "granitemoehybrid",
        "jamba",
        "kimi_k3",
        "kimi_linear",
        "lfm2",
        "llama4",
        "llama4_text",
        "mamba",
        "mamba2",
        "mimo_v2_flash",
        "minimax",
        "minimax_m3",
        "nemotron_h",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_next",
        "roberta",
        "rwkv",
        "step3p7",
        "t5",
        "vit",
        "whisper",
    }
)
"""Families known not to be computed exactly; refused even where their fields look familiar."""

LLAMA_FIELDS: Final = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
)
"""What an unknown ``model_type`` must state to be computed as Llama-like."""

FOREIGN_FIELDS: Final = (
    "num_experts",
    "kv_lora_rank",
    "linear_num_value_heads",
    "ssm_state_size",
    "state_size",
    "layers_block_type",
    "hybrid_override_pattern",
    "index_topk",
    "encoder_layers",
)
"""Fields that no Llama-like model has: with one of them the guess would be wrong."""


def architecture_from_config(
    config: Mapping[str, object],
    *,
    name: str | None = None,
    hub_id: str | None = None,
    source: str = "config",
) -> ModelArchitecture:
    """Architecture of a Hugging Face configuration.

    Parameters
    ----------
    config : mapping
        Parsed ``config.json``. Of a multimodal one the text tower is built.
    name : str, optional
        For display; otherwise the configuration's own name or its family.
    hub_id : str, optional
        Where it was published.
    source : str
        ``preset`` or ``config``.

    Returns
    -------
    ModelArchitecture
        Exact for supported families; ``evidence`` is ``assumed`` for an unknown ``model_type``
        with complete Llama-like fields.

    Raises
    ------
    UnsupportedArchitectureError
        If the family is not supported, or unknown and not Llama-like.
    InputError
        If a field is missing or unusable.
    """
    text, assumptions = _text_tower(config)
    fields = ConfigFields(text)
    kind = fields.text("model_type", "").lower()
    family, guessed = _family(kind, fields)
    shape = family.read(fields)
    stored, notes = weight_format(text if "quantization_config" in text else config)
    assumptions = (*assumptions, *guessed, *_left_out(fields), *notes)
    return assembled(
        shape,
        name=name or _published_name(fields) or kind or "pasted config",
        family=family.title,
        hub_id=hub_id,
        source=source,
        evidence=Evidence.ASSUMED if guessed else Evidence.DERIVED,
        assumptions=assumptions,
        max_position_embeddings=fields.optional_count("max_position_embeddings"),
        weight_format=stored,
    )


def _published_name(fields: ConfigFields) -> str:
    """Return the last part of the path that the configuration was saved from."""
    path = fields.text("_name_or_path", "").rstrip("/")
    return path.rpartition("/")[2][:96]


def assembled(
    shape: TransformerShape,
    *,
    name: str,
    family: str,
    source: str,
    evidence: Evidence,
    assumptions: tuple[str, ...],
    max_position_embeddings: int | None,
    weight_format: str = "bf16",
    hub_id: str | None = None,
) -> ModelArchitecture:
    """Build the architecture noun of a shape; parameters as its fields."""
    attention, experts = shape.attention[0], routed(shape)
    return ModelArchitecture(
        name=name,
        family=family,
        hub_id=hub_id,
        source=source,
        evidence=evidence,
        assumptions=assumptions,
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=attention.heads,
        num_key_value_heads=attention.key_value_heads,
        vocab_size=shape.vocab_size,
        max_position_embeddings=max_position_embeddings,
        num_experts=experts.experts if experts else 1,
        experts_per_token=experts.active if experts else 1,
        weight_format=weight_format,
        tied_embeddings=shape.tied,
        operators=transformer_operators(shape),
    )


def _text_tower(config: Mapping[str, object]) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return the text configuration of a multimodal one, with what is left out."""
    outer = ConfigFields(config)
    kind = outer.text("model_type", "").lower()
    if kind in KNOWN_UNSUPPORTED:
        raise _unsupported(kind)
    nested = outer.mapping("text_config")
    if nested is None:
        towers = [key for key in ("vision_config", "audio_config") if outer.has(key)]
        return config, (_TEXT_ONLY,) if towers else ()
    text = dict(nested)
    # Families whose text configuration names no type of its own.
    text.setdefault("model_type", {"gemma3": "gemma3_text", "mistral3": "mistral"}.get(kind, ""))
    if "tie_word_embeddings" not in text and outer.has("tie_word_embeddings"):
        text["tie_word_embeddings"] = outer.flag("tie_word_embeddings", False)
    return text, (_TEXT_ONLY,)


_TEXT_ONLY: Final = "only the text tower is counted; image and audio towers are left out"


def _left_out(fields: ConfigFields) -> tuple[str, ...]:
    """State what the published checkpoint holds besides the counted layers."""
    predicted = fields.count("num_nextn_predict_layers", 0, minimum=0)
    if not predicted:
        predicted = fields.count("num_mtp_modules", 0, minimum=0)
    notes = []
    if predicted:
        notes.append(f"{predicted} multi-token prediction layer(s) of the checkpoint are left out")
    if fields.has("index_topk"):
        notes.append("decoding is counted as reading the whole cache, not only the picked keys")
    return tuple(notes)


def _family(kind: str, fields: ConfigFields) -> tuple[Family, tuple[str, ...]]:
    """Return the reader of a ``model_type``, and what had to be assumed for an unknown one."""
    if kind in FAMILIES:
        return FAMILIES[kind], ()
    if kind in KNOWN_UNSUPPORTED:
        raise _unsupported(kind)
    missing = fields.missing(LLAMA_FIELDS)
    if missing:
        raise UnsupportedArchitectureError(
            f"model_type is unknown and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing",
            value=kind,
            allowed=f"a supported model_type ({_supported()}), or complete Llama-like fields",
            remedy=_suggestion(kind) + REMEDY,
            field="model.config.model_type",
        )
    foreign = [name for name in FOREIGN_FIELDS if fields.has(name)]
    if foreign or fields.flag("is_encoder_decoder", False):
        raise UnsupportedArchitectureError(
            f"model_type is unknown and {(foreign or ['is_encoder_decoder'])[0]} says that it is "
            "not Llama-like",
            value=kind,
            allowed=f"a supported model_type ({_supported()})",
            remedy=_suggestion(kind) + "Give the model's parameter count instead.",
            field="model.config.model_type",
        )
    shown = kind[:40] or "none"
    return Family(shown, families.llama), (
        f"model_type {shown!r} is unknown; computed as a Llama-like model from its fields",
    )


def _unsupported(kind: str) -> UnsupportedArchitectureError:
    return UnsupportedArchitectureError(
        "this model_type is not supported yet",
        value=kind,
        allowed=_supported(),
        remedy="Give the model's parameter count instead, e.g. model: {parameters: 7e9}.",
        field="model.config.model_type",
    )


def _supported() -> str:
    return ", ".join(FAMILIES)


def _suggestion(kind: str) -> str:
    near = get_close_matches(kind, FAMILIES, n=1)
    return f"Did you mean {near[0]}? " if near else ""
