"""Two thousand broken configurations: each is built or refused with a sentence, at once."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.families.registry import FAMILIES
from advisor.errors import AdvisorError, InputError

CONFIGS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "hf_configs.json").read_text(encoding="utf-8")
)
MUTANTS = 2000
PARTS = 8
HOSTILE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    10_000,
    65_536,
    10**9,
    10**30,
    0.5,
    -0.0,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "auto",
    "M*",
    "\x00",
    "x" * 100_000,
    [],
    [0],
    [1, 0, 1],
    [None, "a", {}],
    ["full_attention"] * 48,
    [[]] * 10,
    [float("nan")],
    {},
    {"hidden_size": "x"},
    {"0": {"head_dim": -1}},
)
BLOCKS: tuple[dict[str, Any], ...] = (
    {"quant_method": "gptq", "bits": 4, "group_size": 32, "modules_in_block_to_quantize": [["a"]]},
    {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["re:(((", "layers.\u00b2", "."]},
    {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3}}},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": ["lm_head"]},
    {"quant_method": "fp8", "quantized_layers": {"layers.1*": {"quant_algo": "NVFP4"}}},
    {"config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 128}}}, "ignore": []},
)


def mutated(source: random.Random) -> dict[str, Any]:
    """Return a published configuration with one to six changes, nested ones included."""
    config: dict[str, Any] = json.loads(json.dumps(CONFIGS[source.choice(sorted(CONFIGS))]))
    for _ in range(source.randint(1, 6)):
        places = [config, *(value for value in config.values() if isinstance(value, dict))]
        place = source.choice(places)
        if not place:
            continue
        field = source.choice(sorted(place))
        change = source.random()
        if change < 0.15:
            del place[field]
        elif change < 0.25:
            place["model_type"] = source.choice(sorted(FAMILIES))
        elif change < 0.45 and isinstance(place[field], int):
            place[field] = int(place[field] * source.choice([-1, 2, 3, 0.5, 1000]))
        elif change < 0.5:
            place["quantization_config"] = json.loads(json.dumps(source.choice(BLOCKS)))
        elif change < 0.57:
            # A field of another family.
            other = CONFIGS[source.choice(sorted(CONFIGS))]
            name = source.choice(sorted(other))
            place[name] = other[name]
        else:
            place[field] = source.choice(HOSTILE)
    return config


@pytest.mark.parametrize("part", range(PARTS))
def test_mutants_are_built_or_refused(part: int) -> None:
    source = random.Random(part)
    built, slowest, refused = 0, 0.0, list[AdvisorError]()
    for _ in range(MUTANTS // PARTS):
        config = mutated(source)
        start = time.process_time()
        try:
            model = architecture_from_config(config)
        except AdvisorError as error:
            refused.append(error)
        else:
            built += 1
            assert 0 < model.active_parameters <= model.total_parameters
            assert model.cache_elements_per_token >= 0
        slowest = max(slowest, time.process_time() - start)
    assert all(isinstance(error, InputError) and error.remedy for error in refused)
    assert all(len(str(error)) < 5000 for error in refused)
    # The product's own limit, a hundred times what it takes.
    assert slowest < 1.0
    # Neither everything nor nothing passes: the mutations hit what is read.
    assert 0.1 < built / (MUTANTS // PARTS) < 0.9
