"""Weight formats by the quantization blocks that published configurations hold."""

from __future__ import annotations

import pytest

from advisor.architecture.config.quantization import weight_format

GROUP = {"targets": ["Linear"]}


@pytest.mark.parametrize(
    ("block", "stored"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "finegrained_fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "w4a16"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "gptq_marlin", "bits": 4}, "w4a16"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "auto-round", "bits": 4}, "w4a16"),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 8}}}, "int8"),
        ({"quant_method": "exl2", "bits": 4.0}, "w4a16"),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, "w4a16"),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}},
         "int8"),
        ({"quant_method": "quanto", "weights": "float8"}, "fp8"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
         "fp8"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}}, "mxfp4"),
        *(
            ({"quant_method": "compressed-tensors",
              "config_groups": {"group_0": {**GROUP, "weights": weights}}}, stored)
            for weights, stored in (
                ({"num_bits": 8, "type": "float", "group_size": None}, "fp8"),
                ({"num_bits": 4, "type": "int", "group_size": -1}, "w4a16"),
                # Kimi K3 and NVIDIA's files: the size of a scale's group tells the two apart.
                ({"num_bits": 4, "type": "float", "group_size": 32}, "mxfp4"),
                ({"num_bits": 4, "type": "float", "group_size": 16}, "nvfp4"),
                ({"num_bits": 8, "type": "int"}, "int8"),
            )
        ),
    ],
)  # fmt: skip
def test_methods(block: dict[str, object], stored: str) -> None:
    assert weight_format({"torch_dtype": "bfloat16", "quantization_config": block}) == (stored, ())


@pytest.mark.parametrize("spelling", ["dtype", "torch_dtype"])
def test_both_spellings_of_the_plain_format(spelling: str) -> None:
    assert weight_format({spelling: "float16", "quantization_config": None}) == ("fp16", ())


def test_widths_of_no_engine_are_told() -> None:
    block = {"quant_method": "exl2", "bits": 6.5}
    assert weight_format({"quantization_config": block}) == (
        "int8",
        ("weights of 6.5 bits are computed as int8",),
    )


def test_unknown_methods_are_told() -> None:
    stored, notes = weight_format({"quantization_config": {"quant_method": "aqlm"}})
    assert stored == "bf16"
    assert "'aqlm' is not known" in notes[0]
