"""Names at the door: what passes, what does not, and that every noun asks."""

import unicodedata
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel

from advisor.architecture.stack.reading import WrittenStack
from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Operator
from advisor.catalog.files.rows import OfferRecord
from advisor.catalog.live.prices import LivePrices
from advisor.errors import InputError
from advisor.foundation.names import (
    MAX_NAME,
    MAX_PATH,
    display_name,
    hub_id,
    is_hub_id,
    path_name,
    printable,
    visible,
    weights_name,
)
from advisor.nouns.case import Case
from advisor.nouns.hardware import Accelerator, Offer
from advisor.probe.report import ProbeReport
from tests.hostile import DISPLAYED_ONLY_BY_PATHS, HARMLESS_WHEN_QUOTED, REFUSED

FORBIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
"""Categories of Unicode that have no sign of their own, or break the line."""


@pytest.mark.parametrize("text", {**REFUSED, **DISPLAYED_ONLY_BY_PATHS}.values())
def test_a_hostile_name_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InputError, match=r"^the name ") as refused:
        display_name(text, field="the name")
    assert refused.value.allowed
    assert refused.value.remedy
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("text", HARMLESS_WHEN_QUOTED.values())
def test_what_quoting_makes_harmless_may_pass(text: str) -> None:
    assert display_name(text, field="the name") == text
    assert path_name(text, field="the path") == text


@given(st.text(alphabet=st.characters()))
def test_exactly_what_can_be_printed_passes(text: str) -> None:
    wrong = any(unicodedata.category(one) in FORBIDDEN for one in text)
    if wrong:
        with pytest.raises(InputError):
            printable(text, field="the text")
    else:
        assert printable(text, field="the text") == text


@given(st.text(alphabet=st.characters(codec=None)))
def test_a_visible_text_stays_on_its_line(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(one) in FORBIDDEN for one in shown)
    if text.isprintable():
        assert shown == text


def test_bounds_are_inclusive() -> None:
    assert display_name("x" * MAX_NAME, field="the name")
    assert path_name("x" * MAX_PATH, field="the path")
    with pytest.raises(InputError, match="too long"):
        display_name("x" * (MAX_NAME + 1), field="the name")
    with pytest.raises(InputError, match="too long"):
        path_name("x" * (MAX_PATH + 1), field="the path")


@pytest.mark.parametrize(
    ("text", "right"),
    [  # the rules and examples of huggingface_hub's validate_repo_id
        ("Qwen/Qwen3-30B-A3B", True),
        ("meta-llama/Meta-Llama-3.1-8B", True),
        ("gpt2", True),
        ("01-ai/Yi-1.5_x", True),
        ("x" * 96, True),
        ("x" * 97, False),
        ("datasets/foo/bar", False),
        (".repo_id", False),
        ("foo/bar-", False),
        ("foo--bar/x", False),
        ("foo/bar..x", False),
        ("foo.git", False),
        ("foo/bar baz", False),
        ("foo/", False),
        ("", False),
        ("foo/b\u00e4r", False),
        ("foo/bar\n", False),
    ],
)
def test_hub_ids_follow_the_hub(text: str, right: bool) -> None:
    assert is_hub_id(text) is right


def test_a_hub_id_of_a_case_has_an_organisation() -> None:
    assert hub_id("Qwen/Qwen3-8B", field="hub") == "Qwen/Qwen3-8B"
    with pytest.raises(InputError, match="hub id"):
        hub_id("gpt2", field="hub")


@pytest.mark.parametrize("text", ["org/name", "gpt2", "/data/my model", "./-x", "s3://bucket/x"])
def test_weights_are_a_hub_id_or_a_path(text: str) -> None:
    assert weights_name(text, field="--checkpoint") == text


@pytest.mark.parametrize("text", ["", " ", "--trust-remote-code", "-", "x\n", "x" * 1_025])
def test_other_weights_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--checkpoint"):
        weights_name(text, field="--checkpoint")


NOUNS = (
    *(Case, ModelArchitecture, Accelerator, Offer, ProbeReport, WrittenStack, LivePrices),
    OfferRecord,
)
READ_LATER = {"ModelSource.config", "ModelSource.stack"}
"""A path, or a whole text that its reader checks."""
OWN_WORDS = {Operator}
"""Made by this program alone: its texts are names of rows."""


def models_in(kind: Any, seen: set[type]) -> Iterator[type[BaseModel]]:
    """Every noun that a noun holds, itself first."""
    for part in get_args(kind):
        yield from models_in(part, seen)
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen | OWN_WORDS:
        seen.add(kind)
        yield kind
        for field in kind.model_fields.values():
            yield from models_in(field.annotation, seen)


def unchecked(kind: Any, metadata: tuple[Any, ...] = ()) -> bool:
    """Whether an annotation takes a text that nothing bounds."""
    if kind is str:
        return not any(
            isinstance(item, AfterValidator) or getattr(item, "pattern", None) for item in metadata
        )
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *checks = get_args(kind)
        flat = [part for item in checks for part in (item, *getattr(item, "metadata", ()))]
        return unchecked(inner, (*metadata, *flat))
    if origin in (Union, UnionType):
        return any(unchecked(part, metadata) for part in get_args(kind))
    if origin is dict and get_args(kind)[1] is Any:
        return False  # content that its reader checks
    if origin in (tuple, list, dict):
        return any(unchecked(part) for part in get_args(kind))
    return False


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.__name__)
def test_every_text_of_a_noun_is_checked(noun: type[BaseModel]) -> None:
    wrong = {
        f"{model.__name__}.{name}"
        for model in models_in(noun, set())
        for name, field in model.model_fields.items()
        if unchecked(
            field.annotation,
            (
                *field.metadata,
                *(part for item in field.metadata for part in getattr(item, "metadata", ())),
            ),
        )
    }
    wrong -= READ_LATER
    assert not wrong, f"give these a type of advisor.foundation.names: {', '.join(wrong)}"


def test_the_walk_finds_an_unchecked_text() -> None:
    class Inner(BaseModel):
        label: str

    class Outer(BaseModel):
        inner: tuple[Inner, ...] = ()
        notes: dict[str, float] | None = None

    found = [model.__name__ for model in models_in(Outer, set())]
    assert found == ["Outer", "Inner"]
    assert unchecked(Inner.model_fields["label"].annotation)
    assert unchecked(Outer.model_fields["notes"].annotation)
