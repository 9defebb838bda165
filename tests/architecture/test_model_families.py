"""The rows of ``data/model_families.yaml`` are whole, and defaults stand in one place."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from advisor.architecture.config.class_defaults import class_defaults
from advisor.architecture.config.fields import ALIASES, ConfigFields
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.families import registry
from advisor.architecture.families.registry import family_of, refused_types, supported_types
from advisor.catalog.files.checks import check_order
from advisor.errors import CatalogError, InputError, UnsupportedArchitectureError

FOLDER = Path(registry.__file__).parent


def test_every_row_is_whole() -> None:
    for kind in supported_types():
        family = family_of(kind)
        assert family.summary[0].isupper(), kind
        assert not family.summary.endswith("."), kind
        if family.reader:
            module, _, name = family.reader.partition(".")
            reader = getattr(import_module(f"advisor.architecture.families.{module}"), name)
            assert callable(reader), kind


def test_rows_are_in_order() -> None:
    check_order(list(supported_types()), file=registry.FILE)


def test_every_refusal_has_a_reason() -> None:
    assert all(reason.strip() for reason in refused_types().values())


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"title": "A", "summary": "B", "reader": "irregular_decoders.opt", "norm": "rms"}, ""),
        ({"title": "A", "summary": "B", "norm": "root"}, "norm"),
        ({"title": "A", "summary": "B", "attention": {"bais": True}}, "attention.bais"),
        ({"title": "A"}, "summary"),
        ({"title": "A", "like": "nothing"}, "like"),
    ],
)
def test_a_wrong_row_is_told(
    row: dict[str, Any], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        registry, "_file", lambda: registry._FamilyFile(families={"wrong_family": row}, refused=())
    )
    monkeypatch.setattr(registry, "family_of", registry.family_of.__wrapped__)
    with pytest.raises(CatalogError, match="wrong_family") as caught:
        registry.family_of("wrong_family")
    assert caught.value.field == field


def test_a_row_takes_from_another_what_it_leaves_out() -> None:
    granite, llama = family_of("granite"), family_of("llama")
    assert (granite.title, granite.summary) == ("Granite", llama.summary)
    assert granite.attention == llama.attention


def test_defaults_stand_in_the_table_alone() -> None:
    """Mend it by removing the constant: the table lies under every configuration."""
    held: dict[str, set[str]] = {}
    for kind in supported_types():
        reader = family_of(kind).reader
        if reader:
            names = held.setdefault(reader.partition(".")[0], set())
            names |= set(class_defaults(kind, sizes=True))
    repeated = {
        (file.stem, name)
        for file in FOLDER.glob("*.py")
        for name in _literal_defaults(file)
        if {name, *ALIASES.get(name, ())} & held.get(file.stem, set())
    }
    assert repeated == set()


def _literal_defaults(file: Path) -> set[str]:
    """Fields that a module reads with a constant other than false as their default."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name("fields"), attr=reads),
                args=[ast.Constant(str(name)), ast.Constant(int() | float() | str()), *_],
            ) if reads != "refuse":
                found.add(name)
    return found


@pytest.mark.parametrize(
    ("config", "total"),
    [
        # roberta-base of the class's own vocabulary: bert-base (109,482,240 parameters) and the
        # (50,265 - 30,522) rows of 768 that its vocabulary has more.
        ({"model_type": "roberta"}, 124_644_864),
        # bart-large has 406,291,456; MVP's vocabulary has two rows of 1,024 more.
        ({"model_type": "mvp", "architectures": ["MvpForConditionalGeneration"]}, 406_293_504),
    ],
)
def test_a_type_takes_its_own_class_not_that_of_the_family(
    config: dict[str, Any], total: int
) -> None:
    """Readers used to give every type the sizes of the first that they read."""
    assert architecture_from_config(config).total_parameters == total


def test_heads_of_hunyuan_divide_the_hidden_size() -> None:
    """Its class has no head dimension; the reader used to take that of Qwen 3, 128."""
    fields = {"hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 8}
    config = {"model_type": "hunyuan_v1_dense", "intermediate_size": 1024, "vocab_size": 1000}
    model = architecture_from_config(config | fields | {"tie_word_embeddings": True})
    # Four square matrices, three of the feed-forward, the table, norms of 512 and of 64.
    assert model.total_parameters == 4 * 512**2 + 3 * 512 * 1024 + 1000 * 512 + 3 * 512 + 2 * 64


def test_a_null_is_the_default_of_the_class_but_of_sizes() -> None:
    fields = ConfigFields(
        {"attn_layer_period": None, "num_experts": None}, class_defaults("jamba", sizes=False)
    )
    assert fields.count("attn_layer_period") == 8
    with pytest.raises(InputError, match="num_experts"):
        fields.count("num_experts")


def test_a_null_width_of_values_is_refused_unless_the_class_derives_it() -> None:
    """It used to be read as hidden size / heads: 56 instead of 128 for DeepSeek V3."""
    with pytest.raises(InputError, match="v_head_dim"):
        architecture_from_config(
            {"model_type": "deepseek_v3", "v_head_dim": None, **_SIZES, "num_experts_per_tok": 2}
        )
    # MiniCPM3Config of transformers 5.23.0: "if None, hidden_size // num_attention_heads".
    stated, null, absent = (
        architecture_from_config({"model_type": "minicpm3", **_SIZES, **own}).total_parameters
        for own in ({"v_head_dim": 32}, {"v_head_dim": None}, {})
    )
    assert stated == null == absent


_SIZES = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "intermediate_size": 512,
    "vocab_size": 1000,
}


def test_lfm2_ties_its_head_as_its_older_field_says() -> None:
    """Lfm2Config of transformers reads ``tie_embedding`` before ``tie_word_embeddings``."""
    config = {"model_type": "lfm2", **_SIZES, "num_key_value_heads": 8}
    tied, untied = (
        architecture_from_config({**config, "tie_embedding": tie}).total_parameters
        for tie in (True, False)
    )
    assert untied - tied == 1000 * 256


def test_a_whole_file_without_its_sizes_was_cut_off() -> None:
    """Only those that the row names may be missing."""
    with pytest.raises(InputError, match="hidden_size"):
        architecture_from_config({"model_type": "gemma3_text", "num_hidden_layers": 4})


@pytest.mark.parametrize("foreign", [{"patch_size": 16}, {"cross_layer_interval": 1}])
def test_unknown_networks_that_read_images_are_not_taken_for_decoders(
    foreign: dict[str, int],
) -> None:
    """BEiT's and IDEFICS's configurations have all of a decoder's sizes."""
    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size"), 768)
    layers = {"num_hidden_layers": 12, "num_attention_heads": 12}
    with pytest.raises(UnsupportedArchitectureError, match="not Llama-like"):
        architecture_from_config({"model_type": "beit", **sizes, **layers, **foreign})
