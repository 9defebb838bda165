"""Three real cases, the same answer from Python and from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.cli import main
from tests.cases import CASES

FLAGS = {
    "lora": "--model meta-llama/Llama-3.1-8B --task lora --tokens 50M --sequence 4096"
    " --deadline 24h --objective cheapest",
    "pretrain": "--model 7B --task pretrain --tokens 300B --deadline 30d --budget 300000"
    " --objective fastest",
    "serve": "--model llama-3.1-70b --task serve --input-tokens 1024 --output-tokens 256"
    " --concurrency 32",
}


@cache
def by_python(name: str) -> advisor.Recommendation:
    return advisor.recommend(CASES[name])


def without_case(text: str) -> dict[str, Any]:
    """A model can be named in several ways; the answer must not depend on it."""
    answer: dict[str, Any] = json.loads(text)
    del answer["case"]
    return answer


@pytest.mark.parametrize("name", CASES)
def test_a_case_file_gives_the_answer_of_python(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump(CASES[name]), encoding="utf-8")
    assert main(["recommend", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(by_python(name).to_json())


def test_a_process_of_its_own_gives_the_answer_of_python() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "advisor", "recommend", *FLAGS["lora"].split(), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert without_case(done.stdout) == without_case(by_python("lora").to_json())


@pytest.mark.parametrize("name", CASES)
def test_flags_give_the_answer_of_python(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", *FLAGS[name].split(), "--json"]) == 0
    assert without_case(capsys.readouterr().out) == without_case(by_python(name).to_json())


def test_the_real_config_file_gives_the_answer_of_the_preset(tmp_path: Path) -> None:
    """The fields of meta-llama/Llama-3.1-8B's config.json that decide its shape."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    case = {**CASES["lora"], "model": {"config": str(path)}}
    file_plan = advisor.recommend(case).plans[0].estimate
    preset_plan = by_python("lora").plans[0].estimate
    assert file_plan.parameters.total == 8_030_261_248
    assert file_plan.memory == preset_plan.memory
    assert file_plan.time == preset_plan.time
    assert file_plan.cost == preset_plan.cost


def test_estimate_has_the_fields_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    line = "estimate --model llama-3.1-8b --task lora --tokens 50M --accelerator h100-sxm"
    assert main([*line.split(), "--count", "8", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["parameters"]["total"] == 8_030_261_248
    states = ("weights", "gradients", "optimizer", "activations", "logits", "kv_cache")
    for name in (*states, "workspace", "context", "fragmentation", "total"):
        assert {"low", "expected", "high"} <= set(answer["memory"][f"{name}_bytes"]), name
    assert isinstance(answer["memory"]["fits"], bool)
    assert answer["flops"]["hardware_per_step"] >= answer["flops"]["model_per_step"] > 1e12
    for name in ("step_s", "tokens_per_s_per_accelerator", "model_flops_utilization", "run_hours"):
        assert answer["time"][name]["low"] <= answer["time"][name]["high"]
    assert answer["cost"]["rent_usd"]["expected"] > answer["cost"]["usd_per_hour"]["expected"] * 0.1
    assert answer["assumptions"]
    assert answer["references"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("recommend --model lama-3.1-8b --task lora", ["lama-3.1-8b", "llama-3.1-8b"]),
        ("recommend --model llama-3.1-8b --task lora --tokens=-5", ["tokens", "-5"]),
        ("recommend --model llama-3.1-8b --task lora --deadline soon", ["deadline", "soon"]),
        ("recommend /nowhere/case.yaml", ["/nowhere/case.yaml"]),
        ("estimate --model 7B --task pretrain --accelerator h1000", ["h1000", "h100"]),
        ("compare h100-sxm h1000", ["h1000", "h100"]),
        ("recommend --model llama-3.1-8b --task lora --provider Nowhere", ["Nowhere", "AWS"]),
    ],
)
def test_mistakes_get_a_sentence_and_exit_code_two(
    arguments: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert not said.out
    for word in words:
        assert word in said.err, said.err


@pytest.mark.parametrize(
    "content", ["{", "[1, 2]", '{"model_type": "inception"}', "\x00\x01", '{"model_type": "llama"}']
)
def test_a_broken_config_gets_a_sentence(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    assert main(["recommend", "--model", str(path), "--task", "lora"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert len(said.strip()) > 20
