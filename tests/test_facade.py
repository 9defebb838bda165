"""Names that are imported on first use are the names that a type checker sees."""

import ast
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pytest

import advisor
from advisor import api


def declared(module: str) -> set[str]:
    """Names imported under ``if TYPE_CHECKING``."""
    path = import_module(module).__file__
    assert path is not None
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    blocks = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name
        for block in blocks
        if ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }


@pytest.mark.parametrize(
    ("module", "later"),
    [("advisor", set(advisor.__all__) - {"__version__"}), ("advisor.api", api._LATER)],
)
def test_every_name_has_its_home(module: str, later: Iterable[str]) -> None:
    assert declared(module) == set(later)
    for name in later:
        assert getattr(import_module(module), name) is not None


def test_an_unknown_name_is_no_attribute() -> None:
    for module in (advisor, api):
        with pytest.raises(AttributeError, match="nonsense"):
            module.nonsense  # noqa: B018
