"""GGUF mixtures reproduce published file sizes."""

from __future__ import annotations

import pytest

from advisor.architecture.presets import load_preset
from advisor.architecture.weights.gguf_bytes import file_bytes, gguf_facts, row_bytes
from advisor.nouns.precision import WEIGHT_FORMATS

# Bits per value of one block, as the llama.cpp wiki "Tensor Encoding Schemes" and the pull
# requests that added the types state them.
PUBLISHED_BITS = {
    "q4_0": 4.5,
    "q4_1": 5.0,
    "q5_0": 5.5,
    "q5_1": 6.0,
    "q8_0": 8.5,
    "q2_k": 2.625,
    "q3_k": 3.4375,
    "q4_k": 4.5,
    "q5_k": 5.5,
    "q6_k": 6.5625,
    "iq1_s": 1.5625,
    "iq1_m": 1.75,
    "iq2_xxs": 2.0625,
    "iq2_xs": 2.3125,
    "iq2_s": 2.5625,
    "iq3_xxs": 3.0625,
    "iq3_s": 3.4375,
    "iq4_xs": 4.25,
    "iq4_nl": 4.5,
    "tq1_0": 1.6875,
    "tq2_0": 2.0625,
    "mxfp4": 4.25,
    "f16": 16.0,
    "bf16": 16.0,
    "f32": 32.0,
}

# Llama 3.1 8B: bits per parameter of whole files, tools/quantize/README.md of llama.cpp.
README_BITS = {
    "iq1_s": 2.0003,
    "iq1_m": 2.1501,
    "iq2_xxs": 2.3854,
    "iq2_xs": 2.5887,
    "iq2_s": 2.7384,
    "iq2_m": 2.9310,
    "iq3_xxs": 3.2519,
    "iq3_xs": 3.4979,
    "iq3_s": 3.6584,
    "iq3_m": 3.7653,
    "iq4_xs": 4.4606,
    "iq4_nl": 4.6853,
    "q2_k_s": 2.9738,
    "q2_k": 3.1556,
    "q3_k_s": 3.6477,
    "q3_k_l": 4.3002,
    "q4_k_s": 4.6639,
    "q4_k_m": 4.8992,
    "q5_k_s": 5.5731,
    "q5_k_m": 5.7015,
    "q6_k": 6.5679,
    "q8_0": 8.5041,
}

# Llama 3.1 70B: file sizes in GB, model card of bartowski/Meta-Llama-3.1-70B-Instruct-GGUF.
CARD_GB = {
    "q8_0": 74.98,
    "q6_k": 57.89,
    "q5_k_m": 49.95,
    "q5_k_s": 48.66,
    "q4_k_m": 42.52,
    "q4_k_s": 40.35,
    "q4_0": 40.12,
    "iq4_xs": 37.90,
    "q3_k_l": 37.14,
    "q3_k_m": 34.27,
    "iq3_m": 31.94,
    "q3_k_s": 30.91,
}


@pytest.mark.parametrize(("name", "bits"), PUBLISHED_BITS.items())
def test_blocks_have_their_published_size(name: str, bits: float) -> None:
    assert gguf_facts().named(name).bytes_per_value * 8 == bits


@pytest.mark.parametrize(("name", "bits"), README_BITS.items())
def test_8b_files_within_one_percent(name: str, bits: float) -> None:
    model = load_preset("llama-3.1-8b")
    assert file_bytes(model, name) * 8 / model.total_parameters == pytest.approx(bits, rel=1e-2)
    assert WEIGHT_FORMATS[name].bytes_per_parameter * 8 == pytest.approx(bits, rel=1e-9)


@pytest.mark.parametrize(("name", "gigabytes"), CARD_GB.items())
def test_70b_files_within_a_thousandth(name: str, gigabytes: float) -> None:
    # The files hold tokenizer and metadata too, about 8 MB.
    assert file_bytes(load_preset("llama-3.1-70b"), name) / 1e9 == pytest.approx(
        gigabytes, rel=1e-3
    )


def test_a_tied_embedding_is_stored_as_the_output_matrix() -> None:
    # Llama 3.2 1B in Q4_K_M: 807,694,464 bytes (bartowski's file), 7.8 MB of them tokenizer.
    model = load_preset("llama-3.2-1b")
    assert file_bytes(model, "q4_k_m") == pytest.approx(807_694_464, rel=1.2e-2)
    embedding = model.operators[0]
    assert row_bytes(embedding, "q4_k_m", model) * 8 == 6.5625


def test_every_recipe_is_a_weight_format() -> None:
    mixtures = {name for name, item in WEIGHT_FORMATS.items() if item.mixture}
    assert mixtures == set(gguf_facts().mixtures)
    assert set(gguf_facts().files.values()) <= set(WEIGHT_FORMATS)
