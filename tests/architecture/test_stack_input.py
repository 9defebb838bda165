"""Users' own stacks of layers: read exactly, or refused with a sentence."""

from __future__ import annotations

import copy
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.architecture.resolve import resolve_model
from advisor.architecture.stack.reading import WORDS, stack_from_text
from advisor.architecture.table.model import ModelArchitecture, SampleSize, Unit
from advisor.errors import AdvisorError, InputError
from advisor.nouns.case import ModelSource

ROOT = Path(__file__).parents[2]
STACKS = ROOT / "tests" / "data" / "stacks"
PERCEPTRON = STACKS / "perceptron.yaml"
RESIDUAL = STACKS / "residual.yaml"


def built(layers: object, **more: object) -> ModelArchitecture:
    source = {"input": {"image": 32}, "layers": layers, **more}
    return resolve_model(ModelSource(stack=source))


def test_a_perceptron() -> None:
    model = resolve_model(ModelSource(stack=str(PERCEPTRON)))
    # 784 x 512 + 512 x 256 + 256 x 10 weights, a bias for each output.
    assert model.total_parameters == 535_040 + 778
    assert sum(op.layers * op.flops_per_token for op in model.operators) == 2 * 535_040
    assert (model.name, model.unit, model.vocab_size) == ("small perceptron", Unit.SAMPLE, 10)


def test_a_residual_network_at_any_size() -> None:
    source = ModelSource(stack=RESIDUAL.read_text(encoding="utf-8"))
    model = resolve_model(source)
    # Stem 1728 + 128; three blocks of 2 x (9 x 64 x 64 + 128); 9 x 64 x 128 + 9 x 128 x 128 + 512;
    # shortcut 64 x 128 + 256; classes 128 x 10 + 10.
    assert model.total_parameters == 1856 + 3 * 73_984 + 221_696 + 8448 + 1290
    products = 1024 * (1728 + 6 * 36_864) + 256 * (73_728 + 147_456 + 8192) + 1280
    assert sum(op.layers * op.flops_per_token for op in model.operators) == 2 * products
    larger = resolve_model(source, SampleSize(image_size=64))
    assert larger.total_parameters == model.total_parameters
    assert larger.sample == SampleSize(image_size=64, image_channels=3)


def test_a_mapping_is_as_good_as_a_file() -> None:
    content = yaml.safe_load(PERCEPTRON.read_text(encoding="utf-8"))
    assert resolve_model(ModelSource(stack=content)) == resolve_model(
        ModelSource(stack=str(PERCEPTRON))
    )
    assert stack_from_text(json.dumps(content))[0] == "small perceptron"


def test_a_language_model_of_tokens() -> None:
    """Embedding 1000 x 64; a block of 4 x 64 x 64 and two norms with 2 x 64 x 256; the head."""
    block = [
        {"residual": ["layer_norm", {"attention": {"heads": 4, "causal": True}}]},
        {"residual": ["layer_norm", {"linear": 256}, "gelu", {"linear": 64}]},
    ]
    layers = [
        {"embedding": {"entries": 1000, "width": 64}},
        {"repeat": {"times": 3, "layers": block}},
        {"linear": 1000},
    ]
    model = built(layers, input={"tokens": True})
    one = 4 * 64 * 64 + 4 * 64 + 2 * 64 * 256 + 256 + 64 + 4 * 64
    assert model.total_parameters == 64_000 + 3 * one + 65_000
    assert (model.unit, model.num_attention_heads, model.sample) == (Unit.TOKEN, 4, None)


def test_the_documented_example_and_words() -> None:
    text = (ROOT / "docs" / "models-input.md").read_text(encoding="utf-8")
    example = text.partition("```yaml")[2].partition("```")[0]
    assert resolve_model(ModelSource(stack=example)).name == "small residual network"
    assert [word for word in WORDS if f"`{word}`" not in text] == []


@pytest.mark.parametrize(
    ("layers", "sentence"),
    [
        ([], "missing or empty"),
        (["mystery"], "an unknown layer"),
        ([{"conv": {"out": 8}, "relu": None}], "needs exactly one word"),
        ([{"conv": {"out": 0}}], "conv.out is not usable"),
        ([{"conv": {"out": 10**30}}], "conv.out is not usable"),
        ([{"conv": {"out": float("nan")}}], "conv.out is not usable"),
        ([{"conv": {"width": 3}}], "conv.width is not usable"),
        ([{"relu": 3}], "relu needs named fields"),
        ([{"conv": {"out": 8, "kernel": 64, "padding": 0}}], "smaller than the kernel"),
        ([{"max_pool": 64}], "smaller than the window"),
        ([{"conv": {"out": 8, "groups": 2}}], "groups of a convolution do not divide"),
        ([{"lstm": 8}], "needs tokens"),
        ([{"attention": 2}], "heads do not divide"),
        ([{"concatenate": "nothing"}], "no earlier layer saves"),
        ([{"residual": [{"conv": 8}]}], "two paths of a residual differ"),
        ([{"residual": []}], "missing or empty"),
        ([{"linear": 10**9}, {"linear": 10**9}], "that no memory can hold"),
        (["global_pool", {"conv": 8}], "a convolution needs positions"),
    ],
)
def test_mistakes_are_told(layers: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        built(layers)
    assert caught.value.field.startswith("model.stack")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("layers: [", "not valid YAML"),
        ("- 1\n- 2", "not a mapping"),
        ("a: &x [1]\nlayers: [*x, *x]", "holds the anchor &x"),
        ("layers: " + "[" * 200 + "]" * 200, "more than 60 levels"),
        ("#" * 300_000 + "\n", "too large"),
        ("input: {}\nlayers: [relu]", "needs one kind of input"),
        ("input: {image: 8, tokens: true}\nlayers: [relu]", "needs one kind of input"),
        ("layers: [relu]\n", "input is not usable"),
        ("other: 1\ninput: {image: 8}\nlayers: [relu]", "other is not usable"),
        ("layers: [!!python/object/apply:os.getcwd []]\n", "holds the tag python"),
    ],
)
def test_hostile_texts(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        resolve_model(ModelSource(stack=text if "\n" in text else f"{text}\n"))


def test_files_that_are_none(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, said in (
        (binary, "cannot be read"),
        (tmp_path / "missing.yaml", "cannot be read"),
        (tmp_path, "it is a folder"),
    ):
        with pytest.raises(InputError, match=said):
            resolve_model(ModelSource(stack=str(path)))


def test_repeats_of_repeats_end_at_once() -> None:
    layers: list[Any] = ["relu"]
    for _ in range(18):
        layers = [{"repeat": {"times": 10_000, "layers": layers}}]
    start = time.process_time()
    with pytest.raises(InputError, match="too many"):
        built(layers)
    grows = {"repeat": {"times": 10_000, "layers": [{"save": "a"}, {"concatenate": "a"}]}}
    with pytest.raises(InputError, match="that no memory can hold"):
        built([grows])
    assert time.process_time() - start < 1.0


def test_shared_weights_are_counted_once_and_used_each_time() -> None:
    """Six times 64 x 64 + 64."""
    own, shared = (
        built(
            [{"repeat": {"times": 6, "shared": flag, "layers": [{"linear": 64}, "relu"]}}],
            input={"features": 64},
        )
        for flag in (False, True)
    )
    assert (own.total_parameters, shared.total_parameters) == (6 * 4160, 4160)
    work = [sum(op.layers * op.flops_per_token for op in net.operators) for net in (own, shared)]
    assert work == [6 * 2 * 64 * 64] * 2
    with pytest.raises(InputError, match="share weights change the width"):
        built(
            [{"repeat": {"times": 2, "shared": True, "layers": [{"linear": 32}]}}],
            input={"features": 64},
        )


HOSTILE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 7, 10**30, 0.5, float("nan"), float("inf"), "", "relu", "x" * 5000),
    *([], {}, [[]], {"conv": {}}, ["relu", {"conv": 3}], {"out": -1}, {"times": 10_000}),
)


def mutated(value: Any, source: random.Random) -> Any:
    """Return a stack with some of its values changed, lost or repeated."""
    if source.random() < 0.04:
        return copy.deepcopy(source.choice(HOSTILE))
    if isinstance(value, dict):
        return {
            source.choice([*WORDS, "out"]) if source.random() < 0.04 else key: mutated(item, source)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [mutated(item, source) for item in value if source.random() > 0.03]
    return value


@pytest.mark.parametrize("part", range(4))
def test_mutants_are_built_or_refused(part: int) -> None:
    source = random.Random(part)
    stacks = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (PERCEPTRON, RESIDUAL)]
    good, slowest, refused = 0, 0.0, list[AdvisorError]()
    for _ in range(500):
        text = yaml.safe_dump(mutated(source.choice(stacks), source))
        start = time.process_time()
        try:
            good += resolve_model(ModelSource(stack=f"{text}\n")).total_parameters >= 0
        except AdvisorError as error:
            refused.append(error)
        slowest = max(slowest, time.process_time() - start)
    assert all(isinstance(error, InputError) and error.remedy for error in refused)
    assert all(len(str(error)) < 5000 for error in refused)
    assert slowest < 1.0
    assert 0.05 < good / 500 < 0.95
