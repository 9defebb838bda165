"""What a server allows its visitors."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from streamlit.testing.v1 import AppTest

import advisor.ui.pages
from advisor.ui.parts import my_machine
from advisor.ui.session import server
from advisor.ui.session.server import PUBLIC, is_public, keep_newest

PAGES = Path(advisor.ui.pages.__file__).parent


def opened(page: str) -> AppTest:
    found = AppTest.from_file(str(PAGES / f"{page}.py"), default_timeout=60).run()
    assert not found.exception
    assert not found.error
    return found


@pytest.mark.parametrize("value", ["1", "yes", "TRUE", "anything"])
def test_strangers_neither_measure_the_server_nor_have_it_fetch_prices(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv(PUBLIC, value)

    machine, catalog = opened("my_machine"), opened("catalog")

    assert "machine_start" not in {button.key for button in machine.button}
    assert any("does not measure itself" in text.value for text in machine.markdown)
    assert "catalog_refresh" not in {button.key for button in catalog.button}
    assert not [item for item in catalog.expander if "live" in item.label.lower()]


def test_on_ones_own_machine_both_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0", " No ", "false", "off"):
        monkeypatch.setenv(PUBLIC, value)
        assert not is_public()
    monkeypatch.delenv(PUBLIC)

    assert opened("my_machine").button(key="machine_start").label == "Measure this machine"
    assert opened("catalog").button(key="catalog_refresh").label == "Fetch live prices"


def test_a_link_to_a_measurement_opens_on_a_public_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PUBLIC, "1")
    page = AppTest.from_file(str(PAGES / "my_machine.py"), default_timeout=60)
    page.query_params["mode"] = "thorough"
    page.run()

    assert not page.exception
    assert my_machine.JOB not in page.session_state


def test_a_session_holds_its_newest_uploads_alone() -> None:
    files = MemoryUploadedFileManager("/upload")
    keep_newest(files)
    for session in ("one", "two"):
        for number in range(50):
            files.add_file(session, UploadedFileRec(f"{number}", "a.json", "", bytes(1000)))

    held = {name: [*found] for name, found in files.file_storage.items()}
    assert held == {"one": ["48", "49"], "two": ["48", "49"]}
    [newest] = files.get_files("two", ["49"])
    assert len(newest.data) == 1000


def test_an_error_that_no_part_expects_is_no_markup() -> None:
    shown = AppTest.from_function(_boundary).run()

    assert shown.error[0].value.startswith(r"\[name\]\(https\:")
    assert r"\$1 to \$2" in shown.error[0].value


def _boundary() -> None:
    from advisor.errors import InputError
    from advisor.ui.session import state

    with state.boundary():
        raise InputError(
            "[name](https://evil.example) is wrong", value="x", allowed="$1 to $2", remedy="."
        )


def test_garbage_among_what_is_exempt_is_collected_every_five_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Node:
        me: object = None

    now = iter((1000.0, 1290.0, 1301.0))
    monkeypatch.setattr("advisor.ui.session.server.time.monotonic", lambda: next(now))
    node = Node()
    node.me, seen = node, weakref.ref(node)
    server._SWEPT.clear()
    try:
        server.settle()
        del node
        gc.collect()
        server.settle()
        assert seen() is not None
        server.settle()
        assert seen() is None
    finally:
        gc.unfreeze()
        server._SWEPT.clear()
