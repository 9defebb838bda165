"""Which ``model_type`` is read how, and which are known not to be computed yet."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.families import mainstream
from advisor.architecture.mixers.shapes import TransformerShape
from advisor.architecture.table.sample import Unit

if TYPE_CHECKING:
    from advisor.architecture.stack.compile import Stack


class _Reader(NamedTuple):
    """A reader whose module is imported when it is first called."""

    module: str
    name: str

    @property
    def __wrapped__(self) -> Callable[[ConfigFields], TransformerShape | Stack]:
        read: Callable[[ConfigFields], TransformerShape | Stack] = getattr(
            import_module(f"advisor.architecture.families.{self.module}"), self.name
        )
        return read

    def __call__(self, fields: ConfigFields) -> TransformerShape | Stack:
        return self.__wrapped__(fields)


class _Readers:
    """Stands for a module of readers."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> _Reader:
        return _Reader(self._module, name)


if TYPE_CHECKING:
    from advisor.architecture.families import (
        attention_hybrids,
        classic,
        compressed,
        convolutional,
        dense,
        detection,
        diffusion,
        efficient_detection,
        encoders,
        image_towers,
        mobile,
        recent,
        recurrent,
        recurrent_hybrids,
        routed,
        routed_experts,
        sparse,
        towers,
        translation,
        windowed,
    )
else:
    classic = _Readers("classic")
    compressed = _Readers("compressed")
    convolutional = _Readers("convolutional")
    dense = _Readers("dense")
    detection = _Readers("detection")
    diffusion = _Readers("diffusion")
    efficient_detection = _Readers("efficient_detection")
    encoders = _Readers("encoders")
    routed_experts = _Readers("routed_experts")
    recurrent_hybrids = _Readers("recurrent_hybrids")
    image_towers = _Readers("image_towers")
    attention_hybrids = _Readers("attention_hybrids")
    mobile = _Readers("mobile")
    recent = _Readers("recent")
    recurrent = _Readers("recurrent")
    routed = _Readers("routed")
    sparse = _Readers("sparse")
    towers = _Readers("towers")
    translation = _Readers("translation")
    windowed = _Readers("windowed")


class Family(NamedTuple):
    """A supported family: its name for people, and the reader of its configurations."""

    title: str
    read: Callable[[ConfigFields], TransformerShape | Stack]
    takes: Unit = Unit.TOKEN
    """What one input is."""
    reserved_positions: int = 0
    """Rows of the position table that no token takes: RoBERTa counts from behind its padding."""


FAMILIES: Final[dict[str, Family]] = {
    "albert": Family("ALBERT", encoders.albert),
    "apertus": Family("Apertus", dense.apertus),
    "arcee": Family("Arcee AFM", dense.arcee),
    "arctic": Family("Arctic", routed_experts.arctic),
    "baichuan": Family("Baichuan", mainstream.llama),
    "bamba": Family("Bamba", attention_hybrids.bamba),
    "bart": Family("BART", translation.bart, Unit.SAMPLE),
    "bert": Family("BERT", towers.bert),
    "biogpt": Family("BioGPT", classic.opt),
    "blenderbot": Family("Blenderbot", translation.pegasus, Unit.SAMPLE),
    "bloom": Family("BLOOM", classic.bloom),
    "camembert": Family("CamemBERT", towers.bert, reserved_positions=2),
    "chatglm": Family("ChatGLM", dense.chatglm),
    "clip": Family("CLIP", image_towers.clip, Unit.SAMPLE),
    "codegen": Family("CodeGen", classic.gptj),
    "cohere": Family("Command-R", mainstream.cohere),
    "cohere2": Family("Command-R7B and Command A", mainstream.cohere2),
    "cohere2_moe": Family("Command A MoE", routed_experts.cohere2_moe),
    "convnext": Family("ConvNeXt", convolutional.convnext, Unit.IMAGE),
    "cwm": Family("Code World Model", mainstream.llama),
    "dbrx": Family("DBRX", routed_experts.dbrx),
    "deberta": Family("DeBERTa", encoders.deberta),
    "deberta-v2": Family("DeBERTa v2 and v3", encoders.deberta_v2),
    "deepseek_ref": Family("DeepSeek V4", compressed.deepseek_v4),
    "deepseek_v2": Family("DeepSeek V2", routed.deepseek),
    "deepseek_v3": Family("DeepSeek V3", routed.deepseek),
    "deepseek_v32": Family("DeepSeek V3.2", sparse.deepseek_sparse),
    "deepseek_v4": Family("DeepSeek V4", compressed.deepseek_v4),
    "deit": Family("DeiT", image_towers.deit, Unit.IMAGE),
    "densenet": Family("DenseNet", convolutional.densenet, Unit.IMAGE),
    "dinov2": Family("DINOv2", image_towers.dinov2, Unit.IMAGE),
    "distilbert": Family("DistilBERT", towers.distilbert),
    "dit": Family("DiT", diffusion.dit, Unit.IMAGE),
    "dots1": Family("dots.llm1", routed_experts.scaled_routed),
    "efficientdet": Family("EfficientDet", efficient_detection.efficientdet, Unit.IMAGE),
    "efficientnet": Family("EfficientNet", mobile.efficientnet, Unit.IMAGE),
    "efficientnet_v2": Family("EfficientNetV2", mobile.efficientnet_v2, Unit.IMAGE),
    "electra": Family("ELECTRA", encoders.electra),
    "ernie4_5": Family("ERNIE 4.5", dense.ernie4_5),
    "ernie4_5_moe": Family("ERNIE 4.5 MoE", routed_experts.ernie_moe),
    "eva02": Family("EVA-02", image_towers.eva02, Unit.IMAGE),
    "exaone": Family("EXAONE 3", mainstream.llama),
    "exaone4": Family("EXAONE 4", dense.exaone4),
    "exaone_moe": Family("K-EXAONE", routed_experts.exaone_moe),
    "falcon": Family("Falcon", classic.falcon),
    "falcon_h1": Family("Falcon-H1", attention_hybrids.falcon_h1),
    "falcon_mamba": Family("Falcon Mamba", recurrent_hybrids.mamba),
    "flex_olmo": Family("FlexOlmo", routed_experts.flex_olmo),
    "fluxtransformer2dmodel": Family("Flux", diffusion.flux, Unit.IMAGE),
    "gemma": Family("Gemma", mainstream.gemma),
    "gemma2": Family("Gemma 2", mainstream.gemma2),
    "gemma3_text": Family("Gemma 3", mainstream.gemma3),
    "gemma3n_text": Family("Gemma 3n", dense.gemma3n),
    "gemma4": Family("Gemma 4", recent.gemma4),
    "gemma4_text": Family("Gemma 4", recent.gemma4),
    "gemma4_unified_text": Family("Gemma 4 unified", recent.gemma4_unified),
    "glm": Family("GLM-4 of 2024", dense.glm),
    "glm4": Family("GLM-4", mainstream.glm4),
    "glm4_moe": Family("GLM-4.5", routed.glm4_moe),
    "glm4_moe_lite": Family("GLM-4.7 Flash", routed.deepseek_after_one),
    "glm4v_moe_text": Family("GLM-4.5V", routed.glm4_moe),
    "glm4v_text": Family("GLM-4.1V", mainstream.glm4),
    "glm5_next": Family("GLM-5.3 Flash", sparse.glm5_next),
    "glm5_next_text": Family("GLM-5.3 Flash", sparse.glm5_next),
    "glm_moe_dsa": Family("GLM-5", sparse.deepseek_sparse),
    "gpt-sw3": Family("GPT-SW3", classic.gpt2),
    "gpt2": Family("GPT-2", classic.gpt2),
    "gpt_bigcode": Family("StarCoder 1", dense.gpt_bigcode),
    "gpt_neo": Family("GPT-Neo", dense.gpt_neo),
    "gpt_neox": Family("GPT-NeoX", classic.gpt_neox),
    "gpt_oss": Family("gpt-oss", routed.gpt_oss),
    "gptj": Family("GPT-J", classic.gptj),
    "granite": Family("Granite", mainstream.llama),
    "granite_docling_text": Family("Granite Docling", mainstream.llama),
    "granitemoe": Family("Granite 3 MoE", routed_experts.granite_moe),
    "granitemoehybrid": Family("Granite 4", attention_hybrids.granite_hybrid),
    "granitemoeshared": Family("Granite 3 MoE", routed_experts.granite_moe),
    "grok-1": Family("Grok 1", routed_experts.grok),
    "gru": Family("GRU", recurrent.gru),
    "helium": Family("Helium", dense.helium),
    "hunyuan_v1_dense": Family("Hunyuan", mainstream.qwen3),
    "hunyuan_v1_moe": Family("Hunyuan MoE", routed_experts.hunyuan_moe),
    "hunyuan_vl_text": Family("Hunyuan", mainstream.qwen3),
    "internlm": Family("InternLM", mainstream.llama),
    "internlm2": Family("InternLM 2", mainstream.llama),
    "internlm3": Family("InternLM 3", mainstream.llama),
    "iquestcoder": Family("IQuest Coder", mainstream.llama),
    "jais2": Family("Jais 2", dense.nemotron),
    "jamba": Family("Jamba", attention_hybrids.jamba),
    "kimi_k2": Family("Kimi K2", routed.deepseek),
    "kimi_linear": Family("Kimi Linear", attention_hybrids.kimi_linear),
    "lfm2": Family("LFM 2", attention_hybrids.lfm2),
    "lfm2_moe": Family("LFM 2 MoE", attention_hybrids.lfm2_moe),
    "llama": Family("Llama", mainstream.llama),
    "llama4": Family("Llama 4", recent.llama4),
    "llama4_text": Family("Llama 4", recent.llama4),
    "longcat_flash": Family("LongCat-Flash", routed.longcat),
    "lstm": Family("LSTM", recurrent.lstm),
    "m2m_100": Family("M2M-100 and NLLB", translation.m2m_100, Unit.SAMPLE),
    "mamba": Family("Mamba", recurrent_hybrids.mamba),
    "mamba2": Family("Mamba-2", recurrent_hybrids.mamba2),
    "marian": Family("Marian", translation.marian, Unit.SAMPLE),
    "mbart": Family("mBART", translation.mbart, Unit.SAMPLE),
    "mellum": Family("Mellum", routed.mellum),
    "mimo_v2_flash": Family("MiMo-V2-Flash", recent.mimo_v2),
    "minicpm3": Family("MiniCPM 3", routed.minicpm3),
    "minimax": Family("MiniMax-01", attention_hybrids.minimax),
    "minimax_m1": Family("MiniMax-M1", attention_hybrids.minimax),
    "minimax_m2": Family("MiniMax-M2", routed.minimax_m2),
    "minimax_m3": Family("MiniMax-M3", routed_experts.minimax_m3),
    "minimax_m3_vl_text": Family("MiniMax-M3", routed_experts.minimax_m3),
    "minimax_text_01": Family("MiniMax-01", attention_hybrids.minimax),
    "ministral": Family("Ministral", mainstream.mistral),
    "ministral3": Family("Ministral 3", mainstream.llama),
    "mistral": Family("Mistral", mainstream.mistral),
    "mistral4": Family("Mistral 4", routed.deepseek),
    "mistral_large4_text": Family("Mistral Large 4", sparse.mistral_large4),
    "mixtral": Family("Mixtral", routed.mixtral),
    "mllama_text_model": Family("Llama 3.2 Vision", dense.mllama),
    "mlp": Family("Multilayer perceptron", recurrent.mlp, Unit.SAMPLE),
    "mobilenet_v3": Family("MobileNetV3", mobile.mobilenet_v3, Unit.IMAGE),
    "modernbert": Family("ModernBERT", encoders.modernbert),
    "mpt": Family("MPT", classic.mpt),
    "mt5": Family("mT5", towers.t5, Unit.SAMPLE),
    "mvp": Family("MVP", translation.bart, Unit.SAMPLE),
    "nemotron": Family("Nemotron 4 and Minitron", dense.nemotron),
    "nemotron_h": Family("Nemotron-H and Nemotron 3", recurrent_hybrids.nemotron_h),
    "olmo": Family("OLMo", dense.olmo),
    "olmo2": Family("OLMo 2", mainstream.olmo2),
    "olmo3": Family("OLMo 3", mainstream.olmo2),
    "olmo_hybrid": Family("OLMo Hybrid", recurrent_hybrids.olmo_hybrid),
    "olmoe": Family("OLMoE", routed_experts.olmoe),
    "opt": Family("OPT", classic.opt),
    "pegasus": Family("Pegasus", translation.pegasus, Unit.SAMPLE),
    "phi": Family("Phi", classic.phi),
    "phi3": Family("Phi 3 and 4", mainstream.phi3),
    "phi3_v": Family("Phi 3 Vision", mainstream.phi3),
    "phi4_multimodal": Family("Phi 4 Multimodal", mainstream.phi3),
    "phimoe": Family("Phi-3.5-MoE", routed_experts.phimoe),
    "qwen": Family("Qwen", mainstream.qwen1),
    "qwen2": Family("Qwen 2", mainstream.qwen2),
    "qwen2_5_omni_text": Family("Qwen 2.5 Omni", mainstream.qwen2),
    "qwen2_5_vl": Family("Qwen 2.5 VL", mainstream.qwen2),
    "qwen2_5_vl_text": Family("Qwen 2.5 VL", mainstream.qwen2),
    "qwen2_moe": Family("Qwen 2 MoE", routed.qwen2_moe),
    "qwen2_vl": Family("Qwen 2 VL", mainstream.qwen2),
    "qwen2_vl_text": Family("Qwen 2 VL", mainstream.qwen2),
    "qwen3": Family("Qwen 3", mainstream.qwen3),
    "qwen3_5": Family("Qwen 3.5", recurrent_hybrids.qwen3_5),
    "qwen3_5_moe": Family("Qwen 3.5 MoE", recurrent_hybrids.qwen3_next),
    "qwen3_5_moe_text": Family("Qwen 3.5 MoE", recurrent_hybrids.qwen3_next),
    "qwen3_5_text": Family("Qwen 3.5", recurrent_hybrids.qwen3_5),
    "qwen3_moe": Family("Qwen 3 MoE", routed.qwen3_moe),
    "qwen3_next": Family("Qwen3-Next", recurrent_hybrids.qwen3_next),
    "qwen3_omni_moe_text": Family("Qwen 3 Omni", routed.qwen3_moe),
    "qwen3_vl_moe_text": Family("Qwen 3 VL", routed.qwen3_moe),
    "qwen3_vl_text": Family("Qwen 3 VL", mainstream.qwen3),
    "rcnn": Family("Faster, Mask and Keypoint R-CNN", detection.rcnn, Unit.IMAGE),
    "regnet": Family("RegNet", convolutional.regnet, Unit.IMAGE),
    "resnet": Family("ResNet and ResNeXt", convolutional.resnet, Unit.IMAGE),
    "retinanet": Family("RetinaNet", detection.retinanet, Unit.IMAGE),
    "roberta": Family("RoBERTa", towers.bert, reserved_positions=2),
    "seed_oss": Family("Seed-OSS", dense.seed_oss),
    "siglip": Family("SigLIP", image_towers.siglip, Unit.SAMPLE),
    "siglip_vision_model": Family("SigLIP vision", image_towers.siglip_vision, Unit.IMAGE),
    "smollm3": Family("SmolLM 3", mainstream.smollm3),
    "ssd": Family("SSD", detection.ssd, Unit.IMAGE),
    "stablelm": Family("StableLM", dense.stablelm),
    "starcoder2": Family("StarCoder 2", classic.starcoder2),
    "step3p5": Family("Step 3.5 and 3.7", recent.step3),
    "step3p7": Family("Step 3.5 and 3.7", recent.step3),
    "swin": Family("Swin", windowed.swin, Unit.IMAGE),
    "t5": Family("T5", towers.t5, Unit.SAMPLE),
    "unet": Family("U-Net", convolutional.unet, Unit.IMAGE),
    "unet2dconditionmodel": Family("Stable Diffusion U-Net", diffusion.latent_unet, Unit.IMAGE),
    "vaultgemma": Family("VaultGemma", mainstream.vaultgemma),
    "vgg": Family("VGG", convolutional.vgg, Unit.IMAGE),
    "vit": Family("ViT", image_towers.vit, Unit.IMAGE),
    "whisper": Family("Whisper", towers.whisper, Unit.SAMPLE),
    "xglm": Family("XGLM", classic.xglm),
    "xlm-roberta": Family("XLM-RoBERTa", towers.bert, reserved_positions=2),
}
"""Supported families by ``model_type``."""


def named_type(fields: ConfigFields) -> str:
    """Return the ``model_type`` of a configuration, or the class that diffusers name, in small."""
    return fields.text("model_type", fields.text("_class_name", "")).lower()


KNOWN_UNSUPPORTED: Final = frozenset(
    {
        *("bitnet", "diffllama", "doge", "embedding_gemma2_text", "git", "glm_image_text"),
        *("granite_swa", "hrm_text", "hyperclovax", "lfm3", "molmo2_text", "moshi"),
        *("muse_glimmer_text", "nanochat", "persimmon", "recurrent_gemma", "rwkv", "xlstm"),
        *("zamba", "zamba2"),
        # Encoders whose fields would pass for those of a decoder.
        *("bert-generation", "big_bird", "convbert", "data2vec-text", "ernie", "esmc", "eurobert"),
        *("gte", "ibert", "jina_embeddings_v3", "layoutlm", "longformer", "luke", "megatron-bert"),
        *("mobilebert", "modernbert-decoder", "mpnet", "mra", "neomme", "nomic_bert"),
        *("nystromformer", "rembert", "roberta-prelayernorm", "roc_bert", "roformer"),
    }
)
"""Families known not to be computed exactly; refused even where their fields look familiar."""
