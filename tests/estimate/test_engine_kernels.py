"""Engines with kernels of their own, worked out by hand on an ideal card."""

import pytest

from advisor.architecture.presets import load_preset
from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.serving.demand import ServingLoad
from advisor.estimate.serving.times import ServingTimes, serving_times
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import BackendFacts
from advisor.nouns.workload import Serving
from tests.estimate.serving_bench import LLAMA_8B, calibration, card, node, served

BLOCKS_8B = 32 * (4096 * (4096 + 2048) + 4096 * 4096 + 3 * 4096 * 14336)
HEAD_8B = 4096 * 128256


def own_kernels(**changes: float) -> Calibration:
    """The ideal world under an engine with kernels of its own, for all formats."""
    facts = {
        "layer_overhead_s": 1e-4,
        "prompt_layer_overhead_s": 5e-4,
        "bandwidth": 0.5,
        "cache_bandwidth": 1.0,
        "expansion": 0.0,
        "expansion_16": 1000.0,
        "compute": 0.4,
        "wide": 1.25,
        "attention": 1.0,
    }
    backend = BackendFacts(**(facts | changes))
    ideal = calibration()
    engine = ideal.serving.model_copy(
        update={
            "backends": {"default": backend},
            "batched_tokens": 512,
            "small_batched_tokens": 512,
            "chunks_follow": True,
        }
    )
    return ideal.model_copy(update={"serving": engine})


def times(
    workload: Serving,
    constants: Calibration,
    *,
    pipeline: int = 1,
    bandwidth: float = 1e12,
    model: ModelArchitecture = LLAMA_8B,
) -> ServingTimes:
    accelerator = card(bandwidth=bandwidth)
    kernels, _ = constants.served_kernels(accelerator, WEIGHT_FORMATS["bf16"])
    hardware = HardwareArrays.of(accelerator, node(), kernels, compute="bf16")
    layout = LayoutArrays.of(ParallelLayout(pipeline=pipeline))
    return serving_times(
        served(model), ServingLoad.of(workload), Candidates(layout, hardware), constants
    )


def test_a_token_pays_for_launches_reading_and_expanding_each_weight() -> None:
    # 32 x 0.1 ms, 2 bytes at half of 1 TB/s and 1,000 operations at 1 PFLOP/s for each weight.
    found = times(Serving(input_tokens=1, output_tokens=2, concurrency=1), own_kernels())

    weights = BLOCKS_8B + HEAD_8B
    expected = 32 * 1e-4 + weights * 2 / 0.5e12 + weights * 1000 / 1e15
    assert found.decode_step_s[0] == pytest.approx(expected, rel=1e-3)


def test_further_heads_read_a_shared_cache_again() -> None:
    # 32 query heads share 8 of the cache: three more of each group take half as long as memory.
    workload = Serving(input_tokens=16384, output_tokens=2, concurrency=1)
    again = times(workload, own_kernels(shared_reading=0.5)).decode_step_s[0]
    once = times(workload, own_kernels()).decode_step_s[0]

    cache_bytes = 16384 * 32 * 2 * 8 * 128 * 2
    assert again - once == pytest.approx(3 * 0.5 * cache_bytes / 1e12, rel=1e-3)


def test_a_token_reads_experts_in_bf16_again_where_no_kernel_multiplies_a_vector() -> None:
    # Qwen3-30B-A3B: 8 of 128 experts in 48 layers, 2,048 x 768 three times each, at half of 1 TB/s.
    model = load_preset("qwen3-30b-a3b")
    workload = Serving(input_tokens=1, output_tokens=2, concurrency=1)
    slow, fast = (
        times(workload, own_kernels(bf16_expert_passes=again), model=model) for again in (4.0, 0.0)
    )

    read_again_s = 4 * 48 * 8 * 3 * 2048 * 768 * 2 / 0.5e12
    assert slow.decode_step_s[0] - fast.decode_step_s[0] == pytest.approx(read_again_s, rel=1e-3)
    assert slow.ttft_s[0] == fast.ttft_s[0]


def test_a_prompt_runs_at_the_rate_of_16_bit_products() -> None:
    # 0.4 x 1.25 of 1 PFLOP/s where memory has no limit; attention is the causal half at 1 PFLOP/s.
    constants = own_kernels(expansion_16=0.0, prompt_layer_overhead_s=0.0)
    workload = Serving(input_tokens=512, output_tokens=1, concurrency=1)
    found = times(workload, constants, bandwidth=1e19)

    products = 2 * (512 * BLOCKS_8B + HEAD_8B) / 0.5e15
    attention = 4 * 32 * 4096 * 512 * 256 / 1e15
    assert found.ttft_s[0] == pytest.approx(products + attention, rel=1e-3)


def test_products_of_8_bit_integers_pass_the_peak_of_16_bits() -> None:
    # An RTX 5090 reads Llama 3.1 8B in Q8_0 at 15,152 tokens/s (desktop_runs.csv): 2 x 7.5e9 x
    # 15,152 is 227 TFLOP/s, and its peak 209.5 in 16 bits, 838 in int8. Three times 1 PFLOP/s is
    # more than the 2 of int8 here.
    plain = card()
    doubled = plain.model_copy(update={"peak_flops_per_s": plain.peak_flops_per_s | {"int8": 2e15}})
    constants = own_kernels(compute=3.0)

    def rate(accelerator: Accelerator, stored: str) -> float:
        kernels, _ = constants.served_kernels(
            accelerator, WEIGHT_FORMATS[stored], constants.serving
        )
        return kernels.matmul["default"].compute

    assert rate(plain, "q8_0") == 1.0
    assert rate(doubled, "q8_0") == 2.0
    assert rate(doubled, "bf16") == 1.0


def test_chunks_of_a_prompt_follow_each_other_through_the_stages() -> None:
    # Eight chunks of 512 on four stages: eleven quarters of a chunk instead of eight chunks.
    workload = Serving(input_tokens=4096, output_tokens=1, concurrency=1)

    one = times(workload, own_kernels()).ttft_s[0]
    four = times(workload, own_kernels(), pipeline=4).ttft_s[0]

    assert four / one == pytest.approx((8 + 3) / 4 / 8, rel=0.02)


def test_layers_and_steps_cost_a_share_on_the_generations_that_the_engine_names() -> None:
    # 32 layers of 0.1 ms and a step of 1 ms, of which the named generation takes 60 %.
    own = calibration(layer_s=1e-4, step_s=1e-3)
    workload = Serving(input_tokens=1, output_tokens=2, concurrency=1)

    def fixed(*cards: str) -> float:
        changes = {"short_layer_cards": cards, "short_layer_share": 0.6}
        engine = own.serving.model_copy(update=changes)
        found = times(workload, own.model_copy(update={"serving": engine}))
        return float(found.shares.fixed[0])

    assert fixed("another") == pytest.approx(32 * 1e-4 + 1e-3)
    assert fixed("ideal") == pytest.approx(0.6 * (32 * 1e-4 + 1e-3))


@pytest.mark.parametrize(
    ("preset", "norms"),
    # transformers, models/*/modeling_*.py: Llama has one norm before each branch; Gemma 2 and 3 one
    # behind each too; Gemma 4's mixture three more beside its experts. Qwen3's are of one head.
    [
        ("llama-3.1-8b", 0),
        ("qwen3-8b", 0),
        ("gemma-2-9b", 2 * 42),
        ("gemma-3-12b", 2 * 48),
        ("gemma-4-26b-a4b", 5 * 30),
    ],
)
def test_norms_besides_the_one_before_each_branch_take_time(preset: str, norms: int) -> None:
    model = served(load_preset(preset))
    assert model.further_norms == norms
