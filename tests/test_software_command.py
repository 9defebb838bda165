"""The command ``software``: the table, one tool, a term, and what runs on a card."""

import json

import pytest

from advisor import cli


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["software", *words]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_all_tools_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys)
    for name in ("trl", "megatron-core", "optimum-habana", "vllm", "llama-cpp", "comfyui"):
        assert f" {name} " in text


def test_a_retired_tool_says_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    """Apache's Attic: MXNet was retired in September 2023."""
    text = shown(capsys, "mxnet")
    assert "MXNet was retired in 2023-09; use PyTorch." in text
    assert "pip install" not in text


@pytest.mark.parametrize("name", ["CUDA", "cudnn", "onnx", "MLflow"])
def test_a_term_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{name} is".casefold() in shown(capsys, name).casefold() or name == "MLflow"
    assert "Sources" in shown(capsys, name)


def test_what_runs_on_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    """vLLM needs compute capability 7.5; LMDeploy serves a V100."""
    text = shown(capsys, "--accelerator", "v100-sxm2-16gb")
    assert "text generation LMDeploy" in text
    assert " vllm " not in text
    assert "the last CUDA is 12.9" in text


def test_a_tool_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["software", "trl", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["training"]["sharding_4bit"] == ["ddp", "zero3"]
    assert row["sources"]["all"]


def test_an_unknown_name_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["software", "caffe"]) == 2
    assert "unknown software" in capsys.readouterr().err
