"""The page *Advisor* with a stand-in for the engine."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest, local_script_runner

from advisor.nouns.case import Case
from advisor.planning.fits import request
from advisor.planning.results import Recommendation
from tests.ui import factory

# A server looks through all installed packages for components once, `AppTest` for each page.
vars(manifest_scanner).update(
    scan_component_manifests=cache(manifest_scanner.scan_component_manifests)
)

LOOK = local_script_runner.require_widgets_deltas


def wait(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
    """Wait for the end of a script: to look each millisecond takes a part of its time."""
    if runner._script_thread is not None:
        runner._script_thread.join(timeout)
    LOOK(runner, timeout)


vars(local_script_runner).update(require_widgets_deltas=wait)
FEW = ["llama-3.2-1b", "llama-3.1-8b", "mistral-small-24b", "qwen3-32b"]


@pytest.fixture(scope="module")
def few_models() -> Iterator[None]:
    """*What fits* has the same parts, boxes and addresses for four models as for all."""
    st.cache_resource.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request, "short_list", lambda: FEW)
        yield
    st.cache_resource.clear()


@pytest.fixture
def fresh_caches() -> Iterator[None]:
    """No answer is left from another test, and none stays."""
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, fresh_caches: None) -> list[Case]:
    """Cases that the page asked the stand-in engine about."""
    cases: list[Case] = []

    def recommend(
        case: Case, on_sentence: Callable[[str], object] = str, **left_out: bool
    ) -> Recommendation:
        cases.append(case)
        return factory.recommend_aloud(case, on_sentence)

    monkeypatch.setattr("advisor.api.recommend", recommend)
    return cases


@pytest.fixture
def page(root: Path, asked: list[Case]) -> AppTest:
    """The page, not yet opened."""
    return AppTest.from_file(str(root / "app.py"), default_timeout=60)
