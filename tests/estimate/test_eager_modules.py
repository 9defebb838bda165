"""Kernels of eager training steps against the profiler's on one H100 (PyTorch 2.11, 2026-11-28)."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.calibration.fitting.stack_runs import Work
from advisor.calibration.tables.context import shipped_engine
from advisor.calibration.tables.reading import Row
from advisor.estimate.fold import as_computed
from advisor.estimate.hardware.attention_times import attention_passes
from advisor.estimate.hardware.eager_modules import adapter_passes, backward_sums
from advisor.estimate.training.micro_batch import KernelTimes, one_micro_batch

ENGINE = shipped_engine()
USUAL = {
    "workload": "pretraining",
    "accelerator": "h100-sxm",
    "num_accelerators": "1",
    "precision": "bf16_amp",
    "optimizer": "adamw",
    "micro_batch": "16",
    "global_batch": "16",
    "data_sharding": "none",
    "recompute": "none",
    "attention": "sdpa",
    "software": "huggingface",
}
SHAPE = {"head_dim": "64", "gated_mlp": "1", "vocab_size": "32000", "tie_word_embeddings": "0"}
MIXTRAL = SHAPE | {
    "family": "moe_transformer",
    "parameters": "1160373248",
    "num_hidden_layers": "12",
    "hidden_size": "1024",
    "num_attention_heads": "16",
    "num_key_value_heads": "8",
    "intermediate_size": "3584",
    "moe_intermediate_size": "3584",
    "num_experts": "8",
    "experts_per_token": "2",
    "sequence_length": "2048",
    "micro_batch": "4",
    "global_batch": "4",
}
LLAMA = {
    "architecture_key": "meta-llama__Meta-Llama-3.1-8B",
    "sequence_length": "2048",
    "micro_batch": "4",
    "global_batch": "4",
    "precision": "bf16_pure",
}


def work(**columns: str) -> Work:
    return Work.of(Row(USUAL | columns), ENGINE)


def times(one: Work) -> KernelTimes:
    software = ENGINE.calibration.software["huggingface"]
    tokens = np.array([one.candidates.layout.micro_batch[0] * one.run.tokens_per_sample])
    return one_micro_batch(one.run, one.candidates, software, np.ones(1), tokens.astype(float))


@pytest.mark.parametrize(
    ("columns", "kernels"),
    [
        (
            {
                "architecture_key": "google-bert__bert-base-uncased",
                "model_class": "BertForSequenceClassification",
                "sequence_length": "128",
                "micro_batch": "32",
                "global_batch": "32",
            },
            1214,
        ),
        (
            {
                "architecture_key": "t5-base",
                "sequence_length": "512",
                "decoder_sequence_length": "128",
                "attention": "eager",
            },
            4563,
        ),
        ({"architecture_key": "openai-community__gpt2", "sequence_length": "1024"}, 1260),
        (MIXTRAL, 4029),
    ],
)
def test_kernels_of_a_step_are_nearly_as_many_as_the_profiler_counted(
    columns: dict[str, str], kernels: int
) -> None:
    # Left out: the update, partial sums of split products, copies between layouts.
    assert 0.75 * kernels < float(times(work(**columns)).launches[0]) < kernels


def test_experts_under_autocast_multiply_in_tf32() -> None:
    # 759 products of a Mixtral of 1.2 B parameters took 57.2 ms.
    assert float(times(work(**MIXTRAL)).matmul[0]) == pytest.approx(0.0572, rel=0.15)


def test_attention_runs_at_the_rate_of_cudnns_kernel() -> None:
    one = work(**LLAMA)
    row = next(op for op in one.run.architecture.operators if op.heads)
    software = ENGINE.calibration.software["huggingface"]
    forward, backward = attention_passes(row, one.run, one.candidates, software, np.array([8192.0]))

    # Four sequences of 2,048 tokens, 32 heads of 128 elements, causal: 0.264 and 0.957 ms.
    assert float(forward[0]) == pytest.approx(0.264e-3, rel=0.3)
    assert float(backward[0]) == pytest.approx(0.957e-3, rel=0.1)


def test_an_adapter_in_fp32_under_autocast_moves_its_casts() -> None:
    columns = {"workload": "lora", "lora_rank": "16", "lora_targets": "q_proj"}
    columns["adapter_format"] = "fp32"
    one = work(**LLAMA, **columns)
    row = next(op for op in one.run.architecture.operators if op.target == "q")
    software = ENGINE.calibration.software["huggingface"]
    passes = adapter_passes(row, one.run, one.candidates, software, np.array([8192.0]))

    # Forward: the input is read, cast to fp32 and back; the output is written, scaled and added to
    # the layer's. Backward: the input is read, its gradient written, cast twice and added to the
    # layer's; the output's gradient is scaled and read twice.
    moved = np.array([2 + 6 + 6 + 2 + 4 + 6, 2 + 2 + 6 + 6 + 6 + 4 + 4]) * 8192 * 4096
    rates = one.candidates.hardware
    each = moved / (rates.memory_bandwidth_bytes_per_s * rates.elementwise_bandwidth)
    launched = np.array([3, 6]) * rates.matmul_overhead_s
    found = [float(np.ravel(side)[0]) for side in passes]
    assert found == pytest.approx(each + launched)


@pytest.mark.parametrize(("workload", "stack_passes"), [("qlora", 6 * 16), ("lora", 0)])
def test_experts_in_4_bits_each_move_the_gradients_of_the_whole_stack(
    workload: str, stack_passes: int
) -> None:
    """Transformers takes Llama 4's experts apart for bitsandbytes (SequentialLlama4TextExperts).

    Each of 16 reads a slice of 16 x 4,096 x 5,120 elements and writes one. Backward, autograd fills
    a whole stack with zeros for the first (1 pass), adds it to the others' (3), and copies one for
    the second (2).
    """
    columns = {"architecture_key": "llama-4-scout", "sequence_length": "4096", "micro_batch": "1"}
    columns |= {"workload": workload, "lora_rank": "16", "lora_targets": "q,v", "global_batch": "1"}
    one = work(**columns)
    run = as_computed(one.run)
    row = next(op for op in run.architecture.operators if op.name.endswith("experts.down"))
    seconds, _ = backward_sums(row, run, one.candidates, np.array([4096.0]), casts=False)

    rates = one.candidates.hardware
    rate = rates.memory_bandwidth_bytes_per_s * rates.elementwise_bandwidth
    moved = stack_passes * 16 * 4096 * 5120 * 2
    assert float(seconds[0]) == pytest.approx(float(moved / rate[0]), rel=0.02, abs=1e-9)
