"""Where the data files and the app lie: in a checkout, or inside the installed package.

A checkout wins. An editable install runs the checkout's own code, yet it also
leaves a copy of the data beside the installed packages, which grows stale.
"""

import os
import sys
from pathlib import Path
from typing import Final

from advisor.errors import ResourceError

CACHE_FOLDER: Final = "GPU_ADVISOR_CACHE_DIR"
"""Environment variable that moves the cache folder."""

_PACKAGE = Path(__file__).resolve().parent.parent


def data_path(name: str) -> Path:
    """Path of a data file or of a folder of data files.

    Parameters
    ----------
    name : str
        Path below the data folder, with ``/`` between its parts.

    Returns
    -------
    Path
        An existing file or folder.

    Raises
    ------
    ResourceError
        If there is no such file in the one place where it should be.

    Examples
    --------
    >>> data_path("gpu_catalog.yaml").name
    'gpu_catalog.yaml'
    """
    checkout = _checkout()
    folder = checkout / "data" if checkout else _PACKAGE / "_data"
    return _existing(folder / name, what=f"data file {name!r}")


def app_path() -> Path:
    """Path of the script that Streamlit runs.

    Returns
    -------
    Path
        An existing file.

    Raises
    ------
    ResourceError
        If the script is missing.
    """
    checkout = _checkout()
    script = checkout / "app.py" if checkout else _PACKAGE / "_app.py"
    return _existing(script, what="web app")


def cache_path(name: str) -> Path:
    """Path of a file in the user's cache folder; neither need exist.

    Parameters
    ----------
    name : str
        File name.

    Returns
    -------
    Path
        Below ``GPU_ADVISOR_CACHE_DIR`` where that is set, else where the system keeps caches:
        ``~/.cache`` or ``XDG_CACHE_HOME``, ``~/Library/Caches``, ``LOCALAPPDATA``. The home of a
        user whom the system does not know is ``/``, as in containers.
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
    """Root of the checkout that the package lies in, if it lies in one."""
    root = _PACKAGE.parent
    marks = (root / "pyproject.toml", root / "data" / "gpu_catalog.yaml")
    return root if all(mark.is_file() for mark in marks) else None


def _existing(path: Path, *, what: str) -> Path:
    if path.exists():
        return path
    remedy = "restore it from git" if _checkout() else "reinstall gpu-advisor or use a checkout"
    raise ResourceError(f"the {what} is missing: expected {path}; {remedy}")
