"""Passes of unfused attention, against kernels counted one by one in published modules."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.equations.training.scores import score_passes

# Reads and writes of the scores by each kernel; a mask of bytes is half a 16-bit score.
# NVIDIA/DeepLearningExamples@729963dd, PyTorch/LanguageModeling/BERT/modeling.py: product, scale,
# mask, softmax, dropout, product.
BERT = (1, 2, 2, 2, 2.5, 1)
# Gradients of probabilities and values, dropout, softmax, division, gradients of queries and keys.
BERT_BACKWARD = (1, 1, 2.5, 3, 2, 2)
# karpathy/nanoGPT@5a725d90, model.py and bench.py, without dropout: product, scale, mask, to fp32
# and its softmax, back to bf16, product.
NANO_GPT = (1, 2, 2, 3, 4, 3, 1)


@pytest.mark.parametrize(
    ("kernels", "setting"),
    [
        ((BERT, BERT_BACKWARD), {"dropped": True, "widened": False}),
        ((NANO_GPT, None), {"dropped": False, "widened": True}),
    ],
)
def test_passes_are_those_of_the_kernels(
    kernels: tuple[tuple[float, ...], tuple[float, ...] | None], setting: dict[str, Any]
) -> None:
    forward, backward = score_passes(fused=False, mask_share=0.5, **setting)
    counted, counted_backward = kernels

    assert forward == sum(counted)
    assert counted_backward is None or backward == sum(counted_backward)
