"""Fields that open files or download are found wherever they are in a question."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from advisor.errors import InputError
from advisor.foundation.names import HubId, Name, PathName, PathOrContent
from advisor.foundation.noun import Noun
from advisor.nouns.case_files import refuse_reach


class Inner(Noun):
    file: Annotated[PathName | None, Field(description="optional")] = None
    content: PathOrContent | dict[str, Any] | None = None
    hub: HubId | None = None


class Outer(Noun):
    title: Name = ""
    bare: PathName | None = None
    inner: Inner = Inner()
    many: tuple[Inner, ...] = ()
    named: dict[str, Inner] = Field(default_factory=dict)
    paths: tuple[PathName, ...] = ()
    by_name: dict[str, PathName] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"bare": "a.csv"}, "bare"),
        ({"inner": {"file": "a.csv"}}, "inner.file"),
        ({"many": [{}, {"file": "a.csv"}]}, "many.1.file"),
        ({"named": {"x": {"content": "a.yaml"}}}, "named.x.content"),
        ({"paths": ["a.csv"]}, "paths"),
        ({"by_name": {"x": "a.csv"}}, "by_name"),
        ({"inner": {"hub": "org/name"}}, "inner.hub"),
    ],
)
def test_what_reaches_outside_is_refused_by_its_path(question: object, field: str) -> None:
    with pytest.raises(InputError) as caught:
        refuse_reach(Outer.model_validate(question))

    assert caught.value.field == field


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"title": "/etc/hostname"},
        {"inner": {"content": {"tokenizer": "/etc/hostname"}}},
        {"inner": {"content": '\ufeff {"model_type": "llama"}'}},
        {"inner": {"content": "layers:\n- linear: 8"}},
    ],
)
def test_names_and_content_pass(question: object) -> None:
    refuse_reach(Outer.model_validate(question))
