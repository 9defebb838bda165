"""Which ``model_type`` is read how, and which are known not to be computed yet."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from advisor.architecture import families
from advisor.architecture.config_fields import ConfigFields
from advisor.architecture.sample import Unit
from advisor.architecture.shapes import TransformerShape

if TYPE_CHECKING:
    from advisor.architecture.stack import Stack


class _Reader(NamedTuple):
    """A reader whose module is imported when it is first called."""

    module: str
    name: str

    @property
    def __wrapped__(self) -> Callable[[ConfigFields], TransformerShape | Stack]:
        read: Callable[[ConfigFields], TransformerShape | Stack] = getattr(
            import_module(f"advisor.architecture.{self.module}"), self.name
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
    from advisor.architecture import (
        classic_families,
        compressed_families,
        convolutional_families,
        dense_families,
        detection_families,
        diffusion_families,
        efficient_detection,
        encoder_families,
        expert_families,
        hybrid_families,
        image_towers,
        mixed_families,
        mobile_families,
        recent_families,
        recurrent_families,
        routed_families,
        sparse_families,
        tower_families,
        translation_families,
        window_families,
    )
else:
    classic_families = _Readers("classic_families")
    compressed_families = _Readers("compressed_families")
    convolutional_families = _Readers("convolutional_families")
    dense_families = _Readers("dense_families")
    detection_families = _Readers("detection_families")
    diffusion_families = _Readers("diffusion_families")
    efficient_detection = _Readers("efficient_detection")
    encoder_families = _Readers("encoder_families")
    expert_families = _Readers("expert_families")
    hybrid_families = _Readers("hybrid_families")
    image_towers = _Readers("image_towers")
    mixed_families = _Readers("mixed_families")
    mobile_families = _Readers("mobile_families")
    recent_families = _Readers("recent_families")
    recurrent_families = _Readers("recurrent_families")
    routed_families = _Readers("routed_families")
    sparse_families = _Readers("sparse_families")
    tower_families = _Readers("tower_families")
    translation_families = _Readers("translation_families")
    window_families = _Readers("window_families")


class Family(NamedTuple):
    """A supported family: its name for people, and the reader of its configurations."""

    title: str
    read: Callable[[ConfigFields], TransformerShape | Stack]
    takes: Unit = Unit.TOKEN
    """What one input is."""
    reserved_positions: int = 0
    """Rows of the position table that no token takes: RoBERTa counts from behind its padding."""


FAMILIES: Final[dict[str, Family]] = {
    "albert": Family("ALBERT", encoder_families.albert),
    "apertus": Family("Apertus", dense_families.apertus),
    "arcee": Family("Arcee AFM", dense_families.arcee),
    "arctic": Family("Arctic", expert_families.arctic),
    "baichuan": Family("Baichuan", families.llama),
    "bamba": Family("Bamba", mixed_families.bamba),
    "bart": Family("BART", translation_families.bart, Unit.SAMPLE),
    "bert": Family("BERT", tower_families.bert),
    "biogpt": Family("BioGPT", classic_families.opt),
    "blenderbot": Family("Blenderbot", translation_families.pegasus, Unit.SAMPLE),
    "bloom": Family("BLOOM", classic_families.bloom),
    "camembert": Family("CamemBERT", tower_families.bert, reserved_positions=2),
    "chatglm": Family("ChatGLM", dense_families.chatglm),
    "clip": Family("CLIP", image_towers.clip, Unit.SAMPLE),
    "codegen": Family("CodeGen", classic_families.gptj),
    "cohere": Family("Command-R", families.cohere),
    "cohere2": Family("Command-R7B and Command A", families.cohere2),
    "cohere2_moe": Family("Command A MoE", expert_families.cohere2_moe),
    "convnext": Family("ConvNeXt", convolutional_families.convnext, Unit.IMAGE),
    "cwm": Family("Code World Model", families.llama),
    "dbrx": Family("DBRX", expert_families.dbrx),
    "deberta": Family("DeBERTa", encoder_families.deberta),
    "deberta-v2": Family("DeBERTa v2 and v3", encoder_families.deberta_v2),
    "deepseek_ref": Family("DeepSeek V4", compressed_families.deepseek_v4),
    "deepseek_v2": Family("DeepSeek V2", routed_families.deepseek),
    "deepseek_v3": Family("DeepSeek V3", routed_families.deepseek),
    "deepseek_v32": Family("DeepSeek V3.2", sparse_families.deepseek_sparse),
    "deepseek_v4": Family("DeepSeek V4", compressed_families.deepseek_v4),
    "deit": Family("DeiT", image_towers.deit, Unit.IMAGE),
    "densenet": Family("DenseNet", convolutional_families.densenet, Unit.IMAGE),
    "dinov2": Family("DINOv2", image_towers.dinov2, Unit.IMAGE),
    "distilbert": Family("DistilBERT", tower_families.distilbert),
    "dit": Family("DiT", diffusion_families.dit, Unit.IMAGE),
    "dots1": Family("dots.llm1", expert_families.scaled_routed),
    "efficientdet": Family("EfficientDet", efficient_detection.efficientdet, Unit.IMAGE),
    "efficientnet": Family("EfficientNet", mobile_families.efficientnet, Unit.IMAGE),
    "efficientnet_v2": Family("EfficientNetV2", mobile_families.efficientnet_v2, Unit.IMAGE),
    "electra": Family("ELECTRA", encoder_families.electra),
    "ernie4_5": Family("ERNIE 4.5", dense_families.ernie4_5),
    "ernie4_5_moe": Family("ERNIE 4.5 MoE", expert_families.ernie_moe),
    "eva02": Family("EVA-02", image_towers.eva02, Unit.IMAGE),
    "exaone": Family("EXAONE 3", families.llama),
    "exaone4": Family("EXAONE 4", dense_families.exaone4),
    "exaone_moe": Family("K-EXAONE", expert_families.exaone_moe),
    "falcon": Family("Falcon", classic_families.falcon),
    "falcon_h1": Family("Falcon-H1", mixed_families.falcon_h1),
    "falcon_mamba": Family("Falcon Mamba", hybrid_families.mamba),
    "flex_olmo": Family("FlexOlmo", expert_families.flex_olmo),
    "fluxtransformer2dmodel": Family("Flux", diffusion_families.flux, Unit.IMAGE),
    "gemma": Family("Gemma", families.gemma),
    "gemma2": Family("Gemma 2", families.gemma2),
    "gemma3_text": Family("Gemma 3", families.gemma3),
    "gemma3n_text": Family("Gemma 3n", dense_families.gemma3n),
    "gemma4": Family("Gemma 4", recent_families.gemma4),
    "gemma4_text": Family("Gemma 4", recent_families.gemma4),
    "gemma4_unified_text": Family("Gemma 4 unified", recent_families.gemma4_unified),
    "glm": Family("GLM-4 of 2024", dense_families.glm),
    "glm4": Family("GLM-4", families.glm4),
    "glm4_moe": Family("GLM-4.5", routed_families.glm4_moe),
    "glm4_moe_lite": Family("GLM-4.7 Flash", routed_families.deepseek_after_one),
    "glm4v_moe_text": Family("GLM-4.5V", routed_families.glm4_moe),
    "glm4v_text": Family("GLM-4.1V", families.glm4),
    "glm5_next": Family("GLM-5.3 Flash", sparse_families.glm5_next),
    "glm5_next_text": Family("GLM-5.3 Flash", sparse_families.glm5_next),
    "glm_moe_dsa": Family("GLM-5", sparse_families.deepseek_sparse),
    "gpt-sw3": Family("GPT-SW3", classic_families.gpt2),
    "gpt2": Family("GPT-2", classic_families.gpt2),
    "gpt_bigcode": Family("StarCoder 1", dense_families.gpt_bigcode),
    "gpt_neo": Family("GPT-Neo", dense_families.gpt_neo),
    "gpt_neox": Family("GPT-NeoX", classic_families.gpt_neox),
    "gpt_oss": Family("gpt-oss", routed_families.gpt_oss),
    "gptj": Family("GPT-J", classic_families.gptj),
    "granite": Family("Granite", families.llama),
    "granite_docling_text": Family("Granite Docling", families.llama),
    "granitemoe": Family("Granite 3 MoE", expert_families.granite_moe),
    "granitemoehybrid": Family("Granite 4", mixed_families.granite_hybrid),
    "granitemoeshared": Family("Granite 3 MoE", expert_families.granite_moe),
    "grok-1": Family("Grok 1", expert_families.grok),
    "gru": Family("GRU", recurrent_families.gru),
    "helium": Family("Helium", dense_families.helium),
    "hunyuan_v1_dense": Family("Hunyuan", families.qwen3),
    "hunyuan_v1_moe": Family("Hunyuan MoE", expert_families.hunyuan_moe),
    "hunyuan_vl_text": Family("Hunyuan", families.qwen3),
    "internlm": Family("InternLM", families.llama),
    "internlm2": Family("InternLM 2", families.llama),
    "internlm3": Family("InternLM 3", families.llama),
    "iquestcoder": Family("IQuest Coder", families.llama),
    "jais2": Family("Jais 2", dense_families.nemotron),
    "jamba": Family("Jamba", mixed_families.jamba),
    "kimi_k2": Family("Kimi K2", routed_families.deepseek),
    "kimi_linear": Family("Kimi Linear", mixed_families.kimi_linear),
    "lfm2": Family("LFM 2", mixed_families.lfm2),
    "lfm2_moe": Family("LFM 2 MoE", mixed_families.lfm2_moe),
    "llama": Family("Llama", families.llama),
    "llama4": Family("Llama 4", recent_families.llama4),
    "llama4_text": Family("Llama 4", recent_families.llama4),
    "longcat_flash": Family("LongCat-Flash", routed_families.longcat),
    "lstm": Family("LSTM", recurrent_families.lstm),
    "m2m_100": Family("M2M-100 and NLLB", translation_families.m2m_100, Unit.SAMPLE),
    "mamba": Family("Mamba", hybrid_families.mamba),
    "mamba2": Family("Mamba-2", hybrid_families.mamba2),
    "marian": Family("Marian", translation_families.marian, Unit.SAMPLE),
    "mbart": Family("mBART", translation_families.mbart, Unit.SAMPLE),
    "mellum": Family("Mellum", routed_families.mellum),
    "mimo_v2_flash": Family("MiMo-V2-Flash", recent_families.mimo_v2),
    "minicpm3": Family("MiniCPM 3", routed_families.minicpm3),
    "minimax": Family("MiniMax-01", mixed_families.minimax),
    "minimax_m1": Family("MiniMax-M1", mixed_families.minimax),
    "minimax_m2": Family("MiniMax-M2", routed_families.minimax_m2),
    "minimax_m3": Family("MiniMax-M3", expert_families.minimax_m3),
    "minimax_m3_vl_text": Family("MiniMax-M3", expert_families.minimax_m3),
    "minimax_text_01": Family("MiniMax-01", mixed_families.minimax),
    "ministral": Family("Ministral", families.mistral),
    "ministral3": Family("Ministral 3", families.llama),
    "mistral": Family("Mistral", families.mistral),
    "mistral4": Family("Mistral 4", routed_families.deepseek),
    "mistral_large4_text": Family("Mistral Large 4", sparse_families.mistral_large4),
    "mixtral": Family("Mixtral", routed_families.mixtral),
    "mllama_text_model": Family("Llama 3.2 Vision", dense_families.mllama),
    "mlp": Family("Multilayer perceptron", recurrent_families.mlp, Unit.SAMPLE),
    "mobilenet_v3": Family("MobileNetV3", mobile_families.mobilenet_v3, Unit.IMAGE),
    "modernbert": Family("ModernBERT", encoder_families.modernbert),
    "mpt": Family("MPT", classic_families.mpt),
    "mt5": Family("mT5", tower_families.t5, Unit.SAMPLE),
    "mvp": Family("MVP", translation_families.bart, Unit.SAMPLE),
    "nemotron": Family("Nemotron 4 and Minitron", dense_families.nemotron),
    "nemotron_h": Family("Nemotron-H and Nemotron 3", hybrid_families.nemotron_h),
    "olmo": Family("OLMo", dense_families.olmo),
    "olmo2": Family("OLMo 2", families.olmo2),
    "olmo3": Family("OLMo 3", families.olmo2),
    "olmo_hybrid": Family("OLMo Hybrid", hybrid_families.olmo_hybrid),
    "olmoe": Family("OLMoE", expert_families.olmoe),
    "opt": Family("OPT", classic_families.opt),
    "pegasus": Family("Pegasus", translation_families.pegasus, Unit.SAMPLE),
    "phi": Family("Phi", classic_families.phi),
    "phi3": Family("Phi 3 and 4", families.phi3),
    "phi3_v": Family("Phi 3 Vision", families.phi3),
    "phi4_multimodal": Family("Phi 4 Multimodal", families.phi3),
    "phimoe": Family("Phi-3.5-MoE", expert_families.phimoe),
    "qwen": Family("Qwen", families.qwen1),
    "qwen2": Family("Qwen 2", families.qwen2),
    "qwen2_5_omni_text": Family("Qwen 2.5 Omni", families.qwen2),
    "qwen2_5_vl": Family("Qwen 2.5 VL", families.qwen2),
    "qwen2_5_vl_text": Family("Qwen 2.5 VL", families.qwen2),
    "qwen2_moe": Family("Qwen 2 MoE", routed_families.qwen2_moe),
    "qwen2_vl": Family("Qwen 2 VL", families.qwen2),
    "qwen2_vl_text": Family("Qwen 2 VL", families.qwen2),
    "qwen3": Family("Qwen 3", families.qwen3),
    "qwen3_5": Family("Qwen 3.5", hybrid_families.qwen3_5),
    "qwen3_5_moe": Family("Qwen 3.5 MoE", hybrid_families.qwen3_next),
    "qwen3_5_moe_text": Family("Qwen 3.5 MoE", hybrid_families.qwen3_next),
    "qwen3_5_text": Family("Qwen 3.5", hybrid_families.qwen3_5),
    "qwen3_moe": Family("Qwen 3 MoE", routed_families.qwen3_moe),
    "qwen3_next": Family("Qwen3-Next", hybrid_families.qwen3_next),
    "qwen3_omni_moe_text": Family("Qwen 3 Omni", routed_families.qwen3_moe),
    "qwen3_vl_moe_text": Family("Qwen 3 VL", routed_families.qwen3_moe),
    "qwen3_vl_text": Family("Qwen 3 VL", families.qwen3),
    "rcnn": Family("Faster, Mask and Keypoint R-CNN", detection_families.rcnn, Unit.IMAGE),
    "regnet": Family("RegNet", convolutional_families.regnet, Unit.IMAGE),
    "resnet": Family("ResNet and ResNeXt", convolutional_families.resnet, Unit.IMAGE),
    "retinanet": Family("RetinaNet", detection_families.retinanet, Unit.IMAGE),
    "roberta": Family("RoBERTa", tower_families.bert, reserved_positions=2),
    "seed_oss": Family("Seed-OSS", dense_families.seed_oss),
    "siglip": Family("SigLIP", image_towers.siglip, Unit.SAMPLE),
    "siglip_vision_model": Family("SigLIP vision", image_towers.siglip_vision, Unit.IMAGE),
    "smollm3": Family("SmolLM 3", families.smollm3),
    "ssd": Family("SSD", detection_families.ssd, Unit.IMAGE),
    "stablelm": Family("StableLM", dense_families.stablelm),
    "starcoder2": Family("StarCoder 2", classic_families.starcoder2),
    "step3p5": Family("Step 3.5 and 3.7", recent_families.step3),
    "step3p7": Family("Step 3.5 and 3.7", recent_families.step3),
    "swin": Family("Swin", window_families.swin, Unit.IMAGE),
    "t5": Family("T5", tower_families.t5, Unit.SAMPLE),
    "unet": Family("U-Net", convolutional_families.unet, Unit.IMAGE),
    "unet2dconditionmodel": Family(
        "Stable Diffusion U-Net", diffusion_families.latent_unet, Unit.IMAGE
    ),
    "vaultgemma": Family("VaultGemma", families.vaultgemma),
    "vgg": Family("VGG", convolutional_families.vgg, Unit.IMAGE),
    "vit": Family("ViT", image_towers.vit, Unit.IMAGE),
    "whisper": Family("Whisper", tower_families.whisper, Unit.SAMPLE),
    "xglm": Family("XGLM", classic_families.xglm),
    "xlm-roberta": Family("XLM-RoBERTa", tower_families.bert, reserved_positions=2),
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
