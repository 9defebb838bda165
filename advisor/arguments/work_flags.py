"""Options that set model and workload of a case, for parser, help and documents alike."""

from __future__ import annotations

from typing import Final

from advisor.arguments.flags import (
    FINE_TUNING,
    ONLY_SERVING,
    TRAINING,
    Flag,
    read_count,
    read_length,
    read_number,
    read_text,
    read_word,
)
from advisor.foundation.resources import entry_names


def _yes(text: str, option: str) -> object:
    """The case itself refuses other words."""
    return {"yes": True, "no": False}.get(text.lower(), text)


STACKS: Final = entry_names("software.yaml")

SHAPE: Final = (
    Flag(
        "--shape-like",
        "model.shape.like",
        "NAME",
        "published model whose shape is scaled: llama-3.1-8b; the nearest by size",
        read_text,
    ),
    Flag("--layers", "model.shape.num_hidden_layers", "N", "layers", read_count),
    Flag("--hidden-size", "model.shape.hidden_size", "N", "width between layers", read_count),
    Flag("--heads", "model.shape.num_attention_heads", "N", "attention heads", read_count),
    Flag(
        "--kv-heads", "model.shape.num_key_value_heads", "N", "heads of keys and values", read_count
    ),
    Flag(
        "--intermediate-size",
        "model.shape.intermediate_size",
        "N",
        "feed-forward width",
        read_count,
    ),
    Flag(
        "--vocabulary-size", "model.shape.vocab_size", "N", "entries of the vocabulary", read_count
    ),
)
WORK: Final = (
    Flag(
        "--pruning",
        "model.pruning",
        "SHARE",
        "heads and inner widths that structured pruning removed: 0.3",
        read_number,
    ),
    Flag("--tokens", "workload.tokens", "N", "tokens in the whole run: 50M", read_number, TRAINING),
    Flag(
        "--sequence",
        "workload.sequence_length",
        "N",
        "tokens per sequence: 4096, or 4K for the same",
        read_length,
        TRAINING,
    ),
    Flag(
        "--global-batch",
        "workload.global_batch",
        "N",
        "sequences or images per optimizer step",
        read_count,
        TRAINING,
    ),
    Flag(
        "--samples",
        "workload.samples",
        "N",
        "images or sequences in the whole run, instead of tokens: 1.2M",
        read_number,
        TRAINING,
    ),
    Flag(
        "--epochs",
        "workload.epochs",
        "N",
        "times that the run goes through them (1)",
        read_number,
        TRAINING,
    ),
    Flag(
        "--evaluation-tokens",
        "workload.evaluation_tokens",
        "N",
        "evaluated during the whole run (images: samples)",
        read_number,
        TRAINING,
    ),
    Flag("--image-size", "workload.image_size", "PX", "side of a square image", read_count),
    Flag("--image-channels", "workload.image_channels", "N", "channels of an image", read_count),
    Flag(
        "--decoder-sequence",
        "workload.decoder_sequence_length",
        "N",
        "tokens that the decoder of an encoder-decoder pair writes",
        read_length,
    ),
    Flag(
        "--denoising-steps",
        "workload.denoising_steps",
        "N",
        "diffusion: passes for one image (50)",
        read_count,
        ONLY_SERVING,
    ),
    Flag(
        "--guidance",
        "workload.guidance",
        "yes|no",
        "diffusion: classifier-free guidance, which doubles every pass (as usual for the model)",
        _yes,
        ONLY_SERVING,
    ),
    Flag(
        "--precision",
        "workload.precision",
        "RECIPE",
        "fp32, fp16_amp, bf16_amp, bf16_mixed, fp16_mixed, bf16_pure, fp8, mxfp8 or nvfp4",
        read_word,
        TRAINING,
    ),
    Flag(
        "--optimizer",
        "workload.optimizer",
        "NAME",
        "adamw, adamw_8bit, paged_adamw_8bit, sgd_momentum, sgd, lion, adafactor or muon",
        read_word,
        TRAINING,
    ),
    Flag(
        "--software",
        "workload.software",
        "STACK",
        f"{', '.join(STACKS[:-1])} or {STACKS[-1]}",
        read_word,
        TRAINING,
    ),
    Flag(
        "--attention", "workload.attention", "KERNEL", "flash, flash1 or eager", read_word, TRAINING
    ),
    Flag(
        "--cross-entropy",
        "workload.cross_entropy",
        "HOW",
        "plain, fused, chunked or linear; what the software does",
        read_word,
        TRAINING,
    ),
    Flag(
        "--reduce-format",
        "workload.reduce_format",
        "FORMAT",
        "gradients are summed in fp32, bf16 or fp16; what the software does",
        read_word,
        TRAINING,
    ),
    Flag(
        "--gradient-sync",
        "workload.gradient_sync",
        "WHEN",
        "ZeRO-2 and 3 sum gradients after each micro-batch, or after the last (FSDP under Hugging "
        "Face's Trainer without sync_each_batch: whole gradients wait)",
        read_word,
        TRAINING,
    ),
    Flag(
        "--data-loading",
        "workload.data_loading",
        "HOW",
        "images: jpeg (decoded on the host by Pillow), turbo (libjpeg-turbo) or cached (synthetic, "
        "decoded ahead or on the accelerator)",
        read_word,
        TRAINING,
    ),
    Flag(
        "--loader-workers",
        "workload.loader_workers",
        "N",
        "images: processes that decode, for each accelerator; one on each core",
        read_count,
        TRAINING,
    ),
    Flag(
        "--worker-rate",
        "workload.worker_images_per_s",
        "N",
        "images per second that one of them makes ready",
        read_number,
        TRAINING,
    ),
    Flag(
        "--storage-rate",
        "workload.storage_bytes_per_s",
        "BYTES/S",
        "images: what the storage of one machine reads: 2G; they lie in memory",
        read_number,
        TRAINING,
    ),
    Flag(
        "--preference",
        "workload.preference",
        "HOW",
        "pairs of answers: dpo (with a reference model) or orpo (without)",
        read_word,
        frozenset({FINE_TUNING}),
    ),
    Flag(
        "--lora-rank",
        "workload.lora_rank",
        "N",
        "rank of the adapters",
        read_count,
        frozenset({FINE_TUNING}),
    ),
    Flag(
        "--input-tokens",
        "workload.input_tokens",
        "N",
        "prompt tokens per request: 8192, or 8K for the same",
        read_length,
        ONLY_SERVING,
    ),
    Flag(
        "--output-tokens",
        "workload.output_tokens",
        "N",
        "generated tokens per request",
        read_length,
        ONLY_SERVING,
    ),
    Flag(
        "--concurrency",
        "workload.concurrency",
        "N",
        "requests in flight at the same time; of images, the batch",
        read_count,
        ONLY_SERVING,
    ),
    Flag(
        "--weights",
        "workload.weight_format",
        "FORMAT",
        "fp32, bf16, fp16, fp8, int8, w4a16, nf4, mxfp4, nvfp4, q8_0, q6_k, q5_k_m, q5_k_s, "
        "q5_1, q5_0, q4_k_m, q4_k_s, q4_1, q4_0, iq4_nl, iq4_xs, q3_k_l, q3_k_m, iq3_m, "
        "iq3_s, q3_k_s, iq3_xs, iq3_xxs, q2_k, q2_k_s, iq2_m, iq2_s, iq2_xs, iq2_xxs, iq1_m "
        "or iq1_s",
        read_word,
        ONLY_SERVING,
    ),
    Flag(
        "--kv-cache",
        "workload.kv_cache_format",
        "FORMAT",
        "fp32, bf16, fp16 or fp8",
        read_word,
        ONLY_SERVING,
    ),
)
