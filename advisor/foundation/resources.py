"""Finds the data files and the app, in a checkout or in the installed package.

A checkout takes precedence. An editable install runs the checkout's code, but it also leaves a
copy of the data beside the installed packages, and that copy becomes outdated.
"""

# Help is printed without `pathlib`.
# ruff: noqa: PTH110, PTH118, PTH120

from __future__ import annotations

import os
import re
import sys

from advisor.errors import ResourceError

TYPE_CHECKING = False  # its module takes long to import
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

CACHE_FOLDER: Final = "GPU_ADVISOR_CACHE_DIR"
"""Environment variable that moves the cache folder."""

_ENTRY: Final = r"(?m)^([\w-]+):"
"""A key that starts its line."""
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def data_path(name: str) -> Path:
    """Return the path of a file or a folder of the data folder; ``ResourceError`` if it is missing.

    >>> data_path("gpu_catalog.yaml").name
    'gpu_catalog.yaml'
    """
    from pathlib import Path

    return Path(data_file(name))


def data_file(name: str) -> str:
    """Return the same path as a text."""
    checkout = _checkout()
    folder = f"{checkout}/data" if checkout else f"{_PACKAGE}/_data"
    return _existing(os.path.join(folder, name), what=f"data file {name!r}")


def entry_names(name: str) -> tuple[str, ...]:
    """Names of the entries of a YAML data file that is a mapping, in order, without a YAML reader.

    >>> entry_names("software.yaml")[:2]
    ('huggingface', 'plain')
    """
    text = data_path(name).read_text(encoding="utf-8", errors="replace")
    return tuple(re.findall(_ENTRY, text))


def app_path() -> Path:
    """Return the path of the script that Streamlit runs; ``ResourceError`` if it is missing."""
    from pathlib import Path

    checkout = _checkout()
    script = f"{checkout}/app.py" if checkout else f"{_PACKAGE}/_app.py"
    return Path(_existing(script, what="web app"))


def cache_path(name: str) -> Path:
    """Return the path of a file in the user's cache folder; neither has to exist.

    Below ``GPU_ADVISOR_CACHE_DIR`` if that is set, otherwise below the system's cache folder:
    ``~/.cache`` or ``XDG_CACHE_HOME``, ``~/Library/Caches``, ``LOCALAPPDATA``. A user whom the
    system does not know has the home ``/``, as in containers.
    """
    from pathlib import Path

    own = os.environ.get(CACHE_FOLDER)
    if own:
        return Path(own) / name
    if sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache")
    return base / "gpu-advisor" / name


def _home() -> Path:
    from pathlib import Path

    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry among the system's users
        return Path(os.sep)


def _checkout() -> str | None:
    """Return the root of the checkout that contains the package, or None."""
    root = os.path.dirname(_PACKAGE)
    marks = (f"{root}/pyproject.toml", f"{root}/data/gpu_catalog.yaml")
    return root if all(map(os.path.isfile, marks)) else None


def _existing(path: str, *, what: str) -> str:
    if os.path.exists(path):
        return path
    remedy = "restore it from git" if _checkout() else "reinstall gpu-advisor or use a checkout"
    raise ResourceError(f"the {what} is missing: expected {path}; {remedy}")
