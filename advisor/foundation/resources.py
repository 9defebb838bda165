"""Finds the data files and the app, in a checkout or in the installed package.

A checkout takes precedence. An editable install runs the checkout's code, but it also leaves a
copy of the data beside the installed packages, and that copy becomes outdated.
"""

import os
import re
import sys
from pathlib import Path
from typing import Final

from advisor.errors import ResourceError

CACHE_FOLDER: Final = "GPU_ADVISOR_CACHE_DIR"
"""Environment variable that moves the cache folder."""

_ENTRY: Final = re.compile(r"^([\w-]+):", re.MULTILINE)
"""A key that starts its line."""
_PACKAGE = Path(__file__).resolve().parent.parent


def data_path(name: str) -> Path:
    """Return the path of a file or a folder of the data folder; ``ResourceError`` if it is missing.

    >>> data_path("gpu_catalog.yaml").name
    'gpu_catalog.yaml'
    """
    checkout = _checkout()
    folder = checkout / "data" if checkout else _PACKAGE / "_data"
    return _existing(folder / name, what=f"data file {name!r}")


def entry_names(name: str) -> tuple[str, ...]:
    """Names of the entries of a YAML data file that is a mapping, in order, without a YAML reader.

    >>> entry_names("software.yaml")[:2]
    ('huggingface', 'plain')
    """
    text = data_path(name).read_text(encoding="utf-8", errors="replace")
    return tuple(_ENTRY.findall(text))


def app_path() -> Path:
    """Return the path of the script that Streamlit runs; ``ResourceError`` if it is missing."""
    checkout = _checkout()
    script = checkout / "app.py" if checkout else _PACKAGE / "_app.py"
    return _existing(script, what="web app")


def cache_path(name: str) -> Path:
    """Return the path of a file in the user's cache folder; neither has to exist.

    Below ``GPU_ADVISOR_CACHE_DIR`` if that is set, otherwise below the system's cache folder:
    ``~/.cache`` or ``XDG_CACHE_HOME``, ``~/Library/Caches``, ``LOCALAPPDATA``. A user whom the
    system does not know has the home ``/``, as in containers.
    """
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
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry among the system's users
        return Path(os.sep)


def _checkout() -> Path | None:
    """Return the root of the checkout that contains the package, or None."""
    root = _PACKAGE.parent
    marks = (root / "pyproject.toml", root / "data" / "gpu_catalog.yaml")
    return root if all(mark.is_file() for mark in marks) else None


def _existing(path: Path, *, what: str) -> Path:
    if path.exists():
        return path
    remedy = "restore it from git" if _checkout() else "reinstall gpu-advisor or use a checkout"
    raise ResourceError(f"the {what} is missing: expected {path}; {remedy}")
