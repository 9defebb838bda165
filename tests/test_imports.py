"""Which room of the package may import which, read from the source.

Imports inside functions and under ``if TYPE_CHECKING`` count. An import of ``advisor`` itself is
an import of the facade. A new module or folder needs a place in the table below.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

GROUND = {"errors", "foundation"}
BASE = GROUND | {"architecture", "nouns"}
ENGINE = BASE | {"calibration", "catalog", "equations", "estimate", "fleet", "owning", "planning"}
FACADE = {"__init__", "api"}

# From a room to the rooms that it may import, itself aside.
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(GROUND, GROUND),
    "nouns": BASE,
    "architecture": BASE,
    "equations": {"foundation"},
    "catalog": BASE,
    "estimate": BASE | {"equations"},
    "planning": BASE | {"catalog", "equations", "estimate"},
    "owning": BASE | {"catalog", "equations", "estimate", "planning"},
    "fleet": BASE | {"catalog", "equations", "estimate", "owning", "planning"},
    "calibration": BASE | {"catalog", "equations", "estimate"},
    "probe": BASE | {"calibration", "catalog", "equations", "estimate"},
    "export": (ENGINE - {"calibration"}) | {"terminal"},
    "api": ENGINE | {"export", "probe"},
    "__init__": ENGINE | {"api", "export", "probe", "sweeps"},  # lazily: see LAZY
    "lessons": ENGINE | FACADE,
    "frames": ENGINE | {"compare", "export", "probe"},
    "charts": ENGINE | {"export", "frames", "lessons", "probe"},
    "compare": BASE | {"catalog", "planning"},
    "services": ENGINE | FACADE | {"compare", "terminal"},
    "sweeps": ENGINE | {"__init__", "export"},
    "terminal": ENGINE | {"compare", "lessons", "probe", "sweeps"},
    "arguments": BASE,
    "commands": BASE
    | FACADE
    | {"arguments", "compare", "lessons", "probe", "services", "sweeps", "terminal"},
    "cli": GROUND | FACADE | {"arguments", "commands", "terminal"},
    "ui": BASE | FACADE | {"charts", "compare", "frames", "lessons", "probe"},
    "__main__": {"cli"},
    "app": FACADE | {"ui"},
}
TYPE_CHECKING = {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
# These may import rooms only inside functions, or for annotations.
LAZY = {"__init__"}

# From a library to the rooms that may import it; the others are everyone's.
LIBRARY_ROOMS = {
    "distributed": {"sweeps"},
    "fastapi": {"services"},
    "mcp": {"services"},
    "pandas": {"charts", "frames", "sweeps", "ui"},
    "plotly": {"charts"},
    "pyarrow": {"sweeps"},
    "pynvml": {"probe"},
    "streamlit": {"app", "ui"},
    "torch": {"probe"},
}
# Rooms that may import no other libraries than these.
ROOM_LIBRARIES = {"equations": sys.stdlib_module_names | {"numpy"}}


class Import(NamedTuple):
    """One imported module: ``target`` is a room where ``internal``, else a library."""

    file: str
    line: int
    room: str
    target: str
    internal: bool
    eager: bool


def test_arrows_run_one_way(root: Path) -> None:
    wrong = wrong_arrows(root)
    assert not wrong, "imports against the direction of docs/architecture.md:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("file", "source", "arrow"),
    [
        ("foundation/units.py", "from advisor.nouns.hardware import Node", "foundation -> nouns"),
        ("equations/memory.py", "from advisor import nouns", "equations -> nouns"),
        ("equations/memory.py", "import advisor.nouns.layout as la", "equations -> nouns"),
        ("equations/memory.py", "from ..nouns.layout import ParallelLayout", "equations -> nouns"),
        ("equations/memory.py", "def f():\n    from advisor import nouns", "equations -> nouns"),
        (
            "equations/memory.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import advisor.errors",
            "equations -> errors",
        ),
        ("equations/memory.py", "import scipy.stats", "equations -> scipy"),
        ("catalog/load.py", "from advisor.estimate import memory", "catalog -> estimate"),
        ("estimate/step.py", "from .. import planning", "estimate -> planning"),
        ("estimate/step.py", "from ..planning.rank import best", "estimate -> planning"),
        ("planning/rank.py", "import advisor", "planning -> __init__"),
        ("charts.py", "from advisor.api import estimate", "charts -> api"),
        ("frames.py", "import plotly.express as px", "frames -> plotly"),
        ("api.py", "from pandas import DataFrame", "api -> pandas"),
        ("calibration/fit.py", "def f():\n    import torch", "calibration -> torch"),
        ("cli.py", "from streamlit.web import cli", "cli -> streamlit"),
        ("cli.py", "from advisor.planning import rank", "cli -> planning"),
        ("__init__.py", "from advisor.api import estimate", "__init__ -> api"),
        ("helpers.py", "import math", "helpers"),
    ],
)
def test_a_wrong_arrow_is_named(tmp_path: Path, file: str, source: str, arrow: str) -> None:
    write(tmp_path, file, source)

    [message] = wrong_arrows(tmp_path)

    assert message.startswith(f"advisor/{file}:")
    assert arrow in message


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("equations/memory.py", "import numpy as np\nfrom advisor.foundation.units import GIB"),
        ("equations/memory.py", "from .collectives import ring\nfrom . import roofline"),
        ("planning/rank.py", "from advisor.estimate.results import Estimate"),
        ("architecture/vision.py", "from . import operators\nfrom ..foundation.units import GIB"),
        ("__init__.py", "def __getattr__(name):\n    from advisor import api"),
        (
            "__init__.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from advisor.api import go",
        ),
        ("ui/pages/learn.py", "import streamlit as st\nfrom advisor import recommend"),
        ("probe/gpu.py", "def f():\n    import torch"),
    ],
)
def test_a_right_arrow_passes(tmp_path: Path, file: str, source: str) -> None:
    write(tmp_path, file, source)

    assert wrong_arrows(tmp_path) == []


def test_equations_know_only_the_units_of_the_ground_floor(root: Path) -> None:
    used = {
        module
        for path in (root / "advisor" / "equations").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for module in modules(node, path.relative_to(root).parent.parts)
        if module.startswith("advisor.foundation")
    }
    assert used == {"advisor.foundation.units"}


def test_the_app_script_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from advisor.planning import rank\n")

    [message] = wrong_arrows(tmp_path)

    assert message.startswith("app.py:1: app -> planning")


def write(root: Path, file: str, source: str) -> None:
    path = root / "advisor" / file
    path.parent.mkdir(parents=True)
    path.write_text(source + "\n")


def wrong_arrows(root: Path) -> list[str]:
    """One line for each import that the tables forbid, and for each room they do not know."""
    messages = []
    for path in source_files(root):
        room = room_of(path, root)
        if room not in MAY_IMPORT:
            messages.append(f"{path.relative_to(root).as_posix()}: room {room} has no place yet")
            continue
        for found in imports(path, room, root):
            if reason := objection(found):
                place = f"{found.file}:{found.line}"
                messages.append(f"{place}: {room} -> {found.target} ({reason})")
    return messages


def source_files(root: Path) -> Iterator[Path]:
    yield from sorted((root / "advisor").rglob("*.py"))
    if (root / "app.py").exists():
        yield root / "app.py"


def room_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return parts[1] if parts[0] == "advisor" else parts[0]


def objection(found: Import) -> str:
    """Why the tables forbid an import; empty if they do not."""
    room, target = found.room, found.target
    if found.internal:
        if target not in MAY_IMPORT[room]:
            return f"{room} may import: {', '.join(sorted(MAY_IMPORT[room]))}"
        if room in LAZY and found.eager:
            return f"{room} may import rooms only inside functions"
        return ""
    if room not in LIBRARY_ROOMS.get(target, {room}):
        return f"only in: {', '.join(sorted(LIBRARY_ROOMS[target]))}"
    if target not in ROOM_LIBRARIES.get(room, {target}):
        return f"{room} keeps to numpy and the standard library"
    return ""


def imports(path: Path, room: str, root: Path) -> Iterator[Import]:
    """Everything that a file imports from outside its own room."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    package = path.relative_to(root).parent.parts
    deferred = deferred_nodes(tree)
    for node in ast.walk(tree):
        for module in modules(node, package):
            top, _, rest = module.partition(".")
            internal = top == "advisor"
            target = room_named(rest, root) if internal else top
            if internal and target == room:
                continue
            file = path.relative_to(root).as_posix()
            line = getattr(node, "lineno", 0)
            yield Import(file, line, room, target, internal, eager=node not in deferred)


def modules(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Dotted names, made absolute, that an import statement may load."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if node.level else ()
        module = ".".join([*above, *([node.module] if node.module else [])])
        if module == "advisor":  # the names may be rooms
            yield from (f"advisor.{alias.name}" for alias in node.names)
        else:
            yield module


def room_named(name: str, root: Path) -> str:
    """The room of ``advisor.<name>``: a name that is no module comes from the facade."""
    first = name.partition(".")[0]
    known = first in MAY_IMPORT or (root / "advisor" / first).is_dir()
    return first if first and known else "__init__"


def deferred_nodes(tree: ast.Module) -> set[ast.AST]:
    """Nodes that do not run when the module is imported."""
    later: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            later.update(ast.walk(node))
        elif isinstance(node, ast.If) and ast.unparse(node.test) in TYPE_CHECKING:
            later.update(child for statement in node.body for child in ast.walk(statement))
    return later
