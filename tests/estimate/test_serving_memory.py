import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.architecture.presets import load_preset
from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog import load_catalog
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.serving.cache import cached_bytes_per_sequence
from advisor.estimate.serving.demand import ServingLoad, served_on
from advisor.estimate.serving.memory import (
    ServingMemory,
    longest_request,
    serving_capacity,
    serving_memory,
)
from advisor.foundation.units import GIB
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.workload import Serving
from tests.estimate.serving_bench import (
    GPT_OSS_120B,
    LLAMA_8B,
    LLAMA_70B,
    QWEN_14B,
    calibration,
    served,
    transformer,
)

DEEPSEEK_CACHE = transformer(
    "one latent head",
    hidden=7168,
    layers=61,
    heads=128,
    cache_heads=1,
    head_dim=288,
    intermediate=18432,
    vocabulary=129280,
)
"""DeepSeek-V3 caches 512 + 64 elements in each layer; 2 x 288 here."""


MOST_SEQUENCES = 1024
"""Of vLLM on large cards, if nobody tells it how many run (vllm/engine/arg_utils.py)."""


def memory_of(
    model: ModelArchitecture,
    layout: ParallelLayout,
    *,
    weight_format: str = "bf16",
    workload: Serving | None = None,
    memory_bytes: float = 80e9,
) -> ServingMemory:
    return serving_memory(
        served(model, weight_format),
        ServingLoad.of(workload or Serving(concurrency=MOST_SEQUENCES)),
        LayoutArrays.of(layout),
        np.array([memory_bytes]),
        calibration(),
    )


@pytest.mark.parametrize(
    ("model", "weight_format", "published_bytes", "tolerance"),
    [
        # 70,553,706,496 parameters (Hugging Face model card) in bf16.
        (LLAMA_70B, "bf16", 2 * 70_553_706_496, 1e-4),
        (LLAMA_8B, "bf16", 2 * 8_030_261_248, 1e-4),
        # gpt-oss model card (arXiv:2508.10925), table 1: checkpoint of 60.8 GiB.
        (GPT_OSS_120B, "mxfp4", 60.8 * GIB, 5e-3),
        # vLLM 0.28 start-up log of Qwen3-14B-AWQ: 9.44 GiB.
        (QWEN_14B, "w4a16", 9.44 * GIB, 2e-2),
    ],
)
def test_weights_of_published_checkpoints(
    model: ModelArchitecture, weight_format: str, published_bytes: float, tolerance: float
) -> None:
    memory = memory_of(model, ParallelLayout(), weight_format=weight_format)
    assert memory.weights[0] == pytest.approx(published_bytes, rel=tolerance)


@pytest.mark.parametrize(
    ("name", "gibibytes", "each"),
    # Bytes of one value of the embedding: q4_k, q6_k and q8_0 (ggml-common.h).
    [("q4_k_m", 4.58, 144 / 256), ("q6_k", 6.14, 210 / 256), ("q8_0", 7.95, 34 / 32)],
)
def test_gguf_weights_are_the_files_own(name: str, gibibytes: float, each: float) -> None:
    # Llama 3.1 8B, tools/quantize/README.md of llama.cpp; tokenizer and metadata are 0.01 GiB. The
    # embedding stays in the host's memory ("CPU buffer size" of its logs).
    memory = memory_of(load_preset("llama-3.1-8b"), ParallelLayout(), weight_format=name)
    embedding = 128256 * 4096 * each
    assert memory.weights[0] + embedding == pytest.approx(gibibytes * GIB, rel=3e-3)


def test_fp8_keeps_embedding_and_head_in_16_bits() -> None:
    # 2 x 128256 x 8192 elements of two bytes; the blocks' 68.45 billion of one.
    table = 128256 * 8192
    memory = memory_of(LLAMA_70B, ParallelLayout(), weight_format="fp8")
    assert memory.weights[0] == pytest.approx(70.5537e9 + 2 * table, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "tensor", "bytes_per_token"),
    [
        # 2 x 32 layers x 8 heads x 128 x 2 bytes.
        (LLAMA_8B, 1, 131_072),
        (LLAMA_8B, 8, 16_384),
        # Sixteen ranks, eight heads: each holds one, as with eight ranks.
        (LLAMA_8B, 16, 16_384),
        # DeepSeek-V3: 61 x 576 x 2 bytes, on every rank (arXiv:2412.19437, section 2.1).
        (DEEPSEEK_CACHE, 1, 70_272),
        (DEEPSEEK_CACHE, 8, 70_272),
    ],
)
def test_cache_of_a_token(model: ModelArchitecture, tensor: int, bytes_per_token: int) -> None:
    layout = LayoutArrays.of(ParallelLayout(tensor=tensor))
    assert cached_bytes_per_sequence(served(model), layout, 1.0)[0] == bytes_per_token


def test_windows_cap_the_cache() -> None:
    # gpt-oss: 18 layers of 2,000 tokens, 18 of 128; 2 x 8 x 64 elements of 2 bytes.
    layout = LayoutArrays.of(ParallelLayout())
    expected = 18 * (2000 + 128) * 2 * 8 * 64 * 2
    assert cached_bytes_per_sequence(served(GPT_OSS_120B), layout, 2000.0)[0] == expected


def test_replicas_share_the_requests() -> None:
    workload = Serving(input_tokens=1000, output_tokens=24, concurrency=10)
    memory = memory_of(LLAMA_8B, ParallelLayout(data=4), workload=workload)
    # Three of ten requests on the busiest of four replicas.
    assert memory.kv_cache[0] == 3 * 1024 * 131_072


def test_the_peak_is_the_larger_of_the_blocks_and_the_sampler() -> None:
    # Blocks: 8192 tokens x 2 bytes x (3 x 4096 + 4096 + 28672); sampler: 1024 x 128256 logits of
    # 18 bytes beside 8192 x 4096 hidden elements of 2 bytes.
    large = memory_of(LLAMA_8B, ParallelLayout(), memory_bytes=80e9)
    assert large.activations[0] + large.logits[0] == 18 * 1024 * 128256 + 2 * 8192 * 4096
    # A head of 1,000 entries needs less than the blocks.
    narrow = LLAMA_8B.model_copy(update={"vocab_size": 1000})
    blocks = memory_of(narrow, ParallelLayout(), memory_bytes=80e9)
    assert blocks.activations[0] == 8192 * 2 * (3 * 4096 + 4096 + 28672)
    assert blocks.logits[0] == 0


def test_a_server_for_few_requests_samples_few() -> None:
    # vllm/v1/worker/gpu_model_runner.py samples min(max_num_seqs, tokens) rows at its start.
    narrow = QWEN_14B.model_copy(update={"vocab_size": 2_000_000})
    some = memory_of(narrow, ParallelLayout(), workload=Serving(concurrency=100))
    assert some.logits[0] == 18 * 100 * 2_000_000


@pytest.mark.parametrize(
    ("model", "card", "gibibytes"),
    [
        # vLLM's "Model loading took": vllm-project/vllm issue 33155 (0.14.1, Triton), and
        # myoceane.fr/index.php/ai-vllm-a100-gemma-4 (0.19.0, Marlin).
        ("gpt-oss-120b", "h100-sxm", 64.38),
        ("gpt-oss-20b", "a100-sxm-80gb", 13.72),
        # A rented T4 has no kernels for it: the checkpoint of the model card.
        ("gpt-oss-120b", "t4", 60.8),
    ],
)
def test_loaded_experts_are_as_wide_as_the_cards_kernels_need(
    model: str, card: str, gibibytes: float
) -> None:
    accelerator = load_catalog().accelerator(card)
    form = WEIGHT_FORMATS["mxfp4"]
    held = serving_memory(
        served_on(accelerator, load_preset(model), Serving(), form),
        ServingLoad.of(Serving()),
        LayoutArrays.of(ParallelLayout()),
        np.array([80e9]),
        calibration(),
    )
    assert held.weights[0] == pytest.approx(gibibytes * GIB, rel=5e-3)


def test_small_cards_take_smaller_steps() -> None:
    large = memory_of(LLAMA_8B, ParallelLayout(), memory_bytes=80e9)
    small = memory_of(LLAMA_8B, ParallelLayout(), memory_bytes=24e9)
    assert large.activations[0] == 4 * small.activations[0]
    assert large.logits[0] == 4 * small.logits[0]


def test_pipeline_ends_do_not_share_a_tied_table() -> None:
    tied = transformer(
        "tied",
        hidden=1024,
        layers=8,
        heads=8,
        cache_heads=8,
        head_dim=128,
        intermediate=4096,
        vocabulary=100_000,
        tied=True,
    )
    block = 8 * (4 * 1024 * 1024 + 3 * 1024 * 4096)
    table = 100_000 * 1024
    assert memory_of(tied, ParallelLayout()).weights[0] == 2 * (block + table)
    assert memory_of(tied, ParallelLayout(pipeline=4)).weights[0] == 2 * (block / 4 + table)


def test_experts_spread_over_their_group() -> None:
    one = memory_of(GPT_OSS_120B, ParallelLayout(data=4)).weights[0]
    four = memory_of(GPT_OSS_120B, ParallelLayout(data=4, expert=4)).weights[0]
    experts = 2 * 36 * 128 * 3 * 2880 * 2880
    assert one - four == pytest.approx(0.75 * experts)


def test_capacity_by_hand() -> None:
    # One layer-less question: room / bytes per token, with the engine's share known.
    constants = calibration()
    load = ServingLoad.of(Serving(input_tokens=3000, output_tokens=1096, concurrency=4))
    layout = LayoutArrays.of(ParallelLayout())
    memory_bytes = np.array([80e9])
    model = served(LLAMA_8B)
    capacity = serving_capacity(model, load, layout, memory_bytes, constants)
    weights = 2 * (8_030_261_248 - 65 * 4096)
    # 0.9 x 80 GB, the context outside it; the engine's share at its high end. A hundred requests
    # sample less than the blocks take.
    blocks = 8192 * 2 * (3 * 4096 + 4096 + 28672)
    room = 72e9 + 0.45e9 - weights - 1.25 * (blocks + 0.5e9) - 0.6e9
    assert capacity.cache_room_bytes[0] == pytest.approx(room)
    assert capacity.max_concurrency[0] == room // (4096 * 131_072)
    assert longest_request(model, load, layout, capacity)[0] == room / 4 // 131_072


def test_longest_context_with_windows_fills_the_room_exactly() -> None:
    constants = calibration()
    layout = LayoutArrays.of(ParallelLayout())
    model = served(GPT_OSS_120B, "mxfp4")
    load = ServingLoad.of(Serving(concurrency=200))
    capacity = serving_capacity(model, load, layout, np.array([80e9]), constants)
    longest = longest_request(model, load, layout, capacity)[0]
    room = capacity.cache_room_bytes[0] / 200
    assert cached_bytes_per_sequence(model, layout, longest)[0] <= room
    assert cached_bytes_per_sequence(model, layout, longest + 1)[0] > room


@given(
    tensor=st.sampled_from([1, 2, 4, 8]),
    pipeline=st.sampled_from([1, 2, 4]),
    concurrency=st.integers(1, 512),
    length=st.integers(1, 100_000),
)
def test_more_parallelism_never_raises_weights_or_cache(
    tensor: int, pipeline: int, concurrency: int, length: int
) -> None:
    workload = Serving(input_tokens=length, output_tokens=1, concurrency=concurrency)
    base = memory_of(LLAMA_70B, ParallelLayout(tensor=tensor, pipeline=pipeline), workload=workload)
    for wider in (
        ParallelLayout(tensor=2 * tensor, pipeline=pipeline),
        ParallelLayout(tensor=tensor, pipeline=2 * pipeline),
    ):
        other = memory_of(LLAMA_70B, wider, workload=workload)
        assert other.weights[0] <= base.weights[0]
        assert other.kv_cache[0] <= base.kv_cache[0]
        assert other.activations[0] <= base.activations[0]


def test_total_is_the_sum_of_its_terms() -> None:
    memory = memory_of(LLAMA_70B, ParallelLayout(tensor=4))
    parts = (
        memory.weights[0],
        memory.kv_cache[0],
        memory.activations[0],
        memory.logits[0],
        memory.workspace[0],
        memory.context[0],
    )
    assert memory.total[0] == pytest.approx(sum(parts))


@given(st.integers(1, 4096), st.integers(1, 50_000), st.sampled_from([1, 2, 4, 8]))
def test_fits_exactly_up_to_the_largest_concurrency(
    concurrency: int, length: int, tensor: int
) -> None:
    load = ServingLoad.of(Serving(input_tokens=length, output_tokens=1, concurrency=concurrency))
    layout = LayoutArrays.of(ParallelLayout(tensor=tensor))
    capacity = serving_capacity(served(LLAMA_70B), load, layout, np.array([80e9]), calibration())
    assert capacity.fits[0] == (concurrency <= capacity.max_concurrency[0])
