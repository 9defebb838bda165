"""The table of software: what runs on which card, against what the tools' documents say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.architecture.families.registry import family_of, supported_types
from advisor.catalog import load_catalog
from advisor.errors import CatalogError, InputError
from advisor.export.versions import version_of
from advisor.foundation import resources
from advisor.nouns.layout import Recompute, Sharding
from advisor.nouns.software import tools
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.software.tool_choice import Duty
from advisor.nouns.software.tool_offers import TrainingOffer
from advisor.nouns.software.tools import Status, known_tools, tool_choice, tool_named, usual_tools
from advisor.nouns.training_choices import FineTuningMethod

CATALOG = load_catalog()
NAMES = list(known_tools())


def usual(card: str, duty: Duty, parameters: float | None = None) -> list[str]:
    return [tool.name for tool in usual_tools(CATALOG.accelerator(card), duty, parameters)]


# A model that one card holds several times over is pretrained with PyTorch's own tools.
@pytest.mark.parametrize(("parameters", "tool"), [(1.24e8, "torchtitan"), (7e9, "megatron-core")])
def test_small_models_are_pretrained_without_megatron(parameters: float, tool: str) -> None:
    assert usual("rtx-4090", Duty.PRETRAIN, parameters)[0] == tool


# docs.nvidia.com/nemo/megatron-bridge/0.6.0, supported models: DeepSeek V3, Kimi K2.
@pytest.mark.parametrize(("parameters", "tool"), [(6.7e11, "megatron-core"), (7e10, "trl")])
def test_the_largest_models_are_fine_tuned_with_megatron(parameters: float, tool: str) -> None:
    assert usual("b200-sxm", Duty.TUNE, parameters)[0] == tool


def test_torchtitan_knows_the_families_of_its_wheel() -> None:
    """torchtitan/models of 0.3.0: llama3, qwen3, deepseek_v3, gpt_oss and networks with images.

    Llama 4 was removed (pytorch/torchtitan, pull 3573).
    """
    known = {"Llama", "Qwen 3", "Qwen 3 MoE", "DeepSeek V3", "gpt-oss"}
    assert set(known_tools()["torchtitan"].families) == known


# docs.vllm.ai, v0.21.0, gpu.cuda.inc.md: capability 7.5 or higher. LMDeploy README: TurboMind
# "starting from V100". Ollama docs/gpu.mdx: compute capability 5.0+.
@pytest.mark.parametrize(
    ("card", "engine"),
    [
        ("h100-sxm", "vllm"),
        ("t4", "vllm"),
        ("v100-sxm2-16gb", "lmdeploy"),
        ("p100-pcie-16gb", "llama-cpp"),
        ("m60", "llama-cpp"),
        ("mi300x", "vllm"),
        ("mi100", "llama-cpp"),
        ("rx-6900-xt", "llama-cpp"),
        ("gaudi3", "vllm"),
        ("trainium2", "vllm"),
        ("apple-m3-max", "llama-cpp"),
        ("epyc-9654", "llama-cpp"),
        ("tpu-v6e", "vllm"),
    ],
)
def test_the_first_engine_for_text(card: str, engine: str) -> None:
    assert usual(card, Duty.GENERATE)[0] == engine


@pytest.mark.parametrize(
    ("card", "duty", "tool"),
    [
        ("h100-sxm", Duty.PRETRAIN, "megatron-core"),
        ("h100-sxm", Duty.TUNE, "trl"),
        ("gaudi2", Duty.PRETRAIN, "optimum-habana"),
        ("gaudi2", Duty.TUNE, "optimum-habana"),
        ("tpu-v5e", Duty.PRETRAIN, "maxtext"),
        ("trainium1", Duty.TUNE, "optimum-neuron"),
        ("apple-m4-max", Duty.TUNE, "mlx-lm"),
        ("mi300x", Duty.PRETRAIN, "primus"),
        ("rx-7900-xtx", Duty.PRETRAIN, "accelerate"),
        ("epyc-9654", Duty.TRAIN_SAMPLES, "pytorch"),
        # Megatron-Core's install guide: Turing or later.
        ("v100-sxm2-16gb", Duty.PRETRAIN, "accelerate"),
        # The README of Text Embeddings Inference: Volta is not supported.
        ("v100-sxm2-16gb", Duty.ENCODE, "pytorch"),
        ("a100-sxm-40gb", Duty.ENCODE, "tei"),
    ],
)
def test_the_usual_tool_follows_card_and_duty(card: str, duty: Duty, tool: str) -> None:
    assert usual(card, duty)[0] == tool


def test_a_card_without_software() -> None:
    """PyTorch's wheels begin at compute capability 5.0; a K80 has 3.7."""
    assert usual("k80", Duty.TUNE) == []
    assert usual("inferentia2", Duty.TUNE) == []
    assert usual("inferentia2", Duty.GENERATE) == ["vllm", "optimum-neuron"]


def test_no_tool_is_usual_where_it_does_not_run() -> None:
    for duty, by_backend in tool_choice().usual.items():
        for backend, names in by_backend.items():
            for name in names:
                tool = known_tools()[name]
                assert duty in tool.does, (duty, name)
                assert backend in tool.backends, (backend, name)
                assert tool.status is not Status.RETIRED


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_complete(name: str) -> None:
    tool = known_tools()[name]

    assert "all" in tool.sources
    trains = any(duty.trains for duty in tool.does)
    if tool.status is not Status.CURRENT:
        assert tool.instead
    if name == "mxnet":
        return
    assert (tool.training is not None) is trains
    assert (tool.serving is not None) is any(not duty.trains for duty in tool.does)
    if trains:
        assert tool.stack in known_stacks()
    if tool.serving:
        assert all(item.weights for item in tool.backends.values())


def test_releases_are_those_that_launch_files_install() -> None:
    for name in ("trl", "accelerate", "deepspeed", "vllm"):
        assert known_tools()[name].release == version_of(name)
    assert known_tools()["liger"].release == version_of("liger-kernel")
    tag = version_of("megatron-lm")
    assert f"core_v{known_tools()['megatron-core'].release}" == tag


def test_published_limits_of_tools() -> None:
    """Each against the document that the row names."""
    found = known_tools()
    # gradient_checkpointing of Hugging Face's Trainer; Megatron-Core's --recompute-granularity.
    assert Recompute.SELECTIVE not in offer(found["trl"]).recompute
    assert Recompute.SELECTIVE in offer(found["megatron-core"]).recompute
    # bitsandbytes, FSDP-QLoRA; ZeRO-3 loads the whole 4-bit model on every card.
    assert Sharding.ZERO3 in offer(found["trl"]).sharding_4bit
    assert Sharding.ZERO3 not in offer(found["deepspeed"]).sharding_4bit
    # Unsloth's requirements: lowest CUDA capability 7.0.
    assert found["unsloth"].backends["cuda"].lowest == "7.0"
    # Optimum Neuron's training guide: ZeRO-1, tensor and pipeline parallelism.
    assert offer(found["optimum-neuron"]).sharding == (Sharding.DDP, Sharding.ZERO1)
    assert offer(found["optimum-neuron"]).divides == ("tensor", "pipeline")


def offer(tool: tools.Tool) -> TrainingOffer:
    assert tool.training is not None
    return tool.training


def test_retired_tools_say_since_when_and_what_to_use() -> None:
    assert tool_named("MXNet").ended == "MXNet was retired in 2023-09; use PyTorch."
    assert "vLLM" in tool_named("tgi").ended
    assert "2025-07-15" in tool_named("torchtune").ended
    assert tool_named("vllm").ended == ""


def test_weights_by_capability() -> None:
    """docs.vllm.ai/quantization: AWQ from Turing on; bf16 needs 8.0."""
    support = known_tools()["vllm"].backends["cuda"]

    assert not support.serves(CATALOG.accelerator("t4"), "bf16")
    assert support.serves(CATALOG.accelerator("t4"), "w4a16")
    assert support.serves(CATALOG.accelerator("rubin-r200"), "bf16")
    amd = known_tools()["vllm"].backends["rocm"]
    assert amd.serves(CATALOG.accelerator("mi300x"), "fp8")
    assert not amd.serves(CATALOG.accelerator("mi250x"), "fp8")
    gguf = known_tools()["llama-cpp"].backends["cuda"]
    assert gguf.serves(CATALOG.accelerator("p40"), "q4_k_m")


@pytest.mark.parametrize("name", ["llama.cpp", "LLAMA_CPP", "Llama-Factory", "whisper.cpp"])
def test_names_as_people_type_them(name: str) -> None:
    assert tool_named(name).title.casefold().startswith(name[:5].casefold())


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="unknown software"):
        tool_named("caffe")


@pytest.fixture
def write_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Return a way to replace ``tools.yaml`` in a checkout that has all other data files."""
    shipped = resources.data_path("tools.yaml")
    (tmp_path / "data").mkdir()
    for file in shipped.parent.iterdir():
        if file != shipped:
            (tmp_path / "data" / file.name).symlink_to(file)
    (tmp_path / "pyproject.toml").touch()

    def write(changes: dict[str, Any]) -> None:
        rows = yaml.safe_load(shipped.read_text(encoding="utf-8"))
        rows.update(changes)
        lines = (f"{name}: {json.dumps(row)}\n" for name, row in rows.items())
        (tmp_path / "data" / "tools.yaml").write_text("".join(lines))
        monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "advisor")
        forget()

    def forget() -> None:
        for one in (tools.known_tools, tools.tool_choice):
            one.cache_clear()

    yield write
    monkeypatch.undo()
    forget()


def test_a_new_row_suffices(write_rows: Callable[[dict[str, Any]], None]) -> None:
    row = {
        "title": "Own server",
        "does": ["generate"],
        "framework": "pytorch",
        "release": "1.0",
        "backends": {"cuda": {"lowest": "9.0", "weights": {"bf16": None}}},
        "serving": {},
        "sources": {"all": "recalled"},
    }
    write_rows({"own-server": row})

    assert tool_named("own_server").support(CATALOG.accelerator("h100-sxm")) is not None
    assert tool_named("own_server").support(CATALOG.accelerator("a100-sxm-40gb")) is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"does": ["knit"]}, "does"),
        ({"backends": {}}, "backends"),
        ({"colour": "red"}, "colour"),
        ({"backends": {"cuda": {"lowest": "new"}}}, "lowest"),
    ],
)
def test_a_wrong_row_is_named(
    write_rows: Callable[[dict[str, Any]], None], change: dict[str, Any], field: str
) -> None:
    shipped = yaml.safe_load(resources.data_path("tools.yaml").read_text(encoding="utf-8"))
    write_rows({"vllm": shipped["vllm"] | change})

    with pytest.raises(CatalogError, match="vllm") as caught:
        known_tools()
    assert field in str(caught.value)


# transformers 5.23.0, integrations/bitsandbytes.py: only Linear gets 4 bits. peft 0.21.2,
# utils/transformers_weight_conversion.py: all-linear goes on to the experts of Qwen 3 MoE, not of
# gpt-oss. unsloth_zoo 2026.10.9, temporary_patches/moe_utils_bnb4bit.py: all experts.
@pytest.mark.parametrize(
    ("tool", "method", "family", "reached"),
    [
        ("trl", "lora", "Qwen 3 MoE", True),
        ("trl", "lora", "gpt-oss", False),
        ("trl", "qlora", "gpt-oss", False),
        ("trl", "qlora", "Mixtral", True),
        ("trl", "qlora", "Qwen 3.5 MoE", False),
        ("unsloth", "qlora", "gpt-oss", True),
        ("axolotl", "qlora", "Qwen 3.5 MoE", True),
        ("llama-factory", "lora", "gpt-oss", False),
    ],
)
def test_adapters_reach_the_experts_that_a_tool_names(
    tool: str, method: str, family: str, reached: bool
) -> None:
    assert known_tools()[tool].reaches_experts(FineTuningMethod(method), family) is reached


def test_families_of_experts_are_known_families() -> None:
    titles = {family_of(kind).title for kind in supported_types()}
    for families in tool_choice().experts.values():
        assert {*families} <= titles
