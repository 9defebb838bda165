"""Reads the calibration: what was fitted on kernels, and what is stated by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import ValidationError

from advisor.errors import CatalogError
from advisor.foundation.data_files import read_yaml
from advisor.foundation.resources import data_path
from advisor.nouns.efficiency import Calibration

FITTED = "calibration.yaml"
FACTS = "calibration_facts.yaml"

Section = dict[str, object]


def load_calibration(path: Path | None = None) -> Calibration:
    """Read and check the constants, once for each path.

    Parameters
    ----------
    path : Path, optional
        The file of fitted constants; the stated ones are read from ``calibration_facts.yaml``
        beside it. None takes the files that ship with the package.

    Returns
    -------
    Calibration

    Raises
    ------
    CatalogError
        If a file is not a YAML mapping, a value stands in both files, or a value is missing,
        unknown or out of bounds; the message names file, entry and field.
    ResourceError
        If the package's own files are missing.

    Examples
    --------
    >>> load_calibration().kernels["Hopper"].evidence.value
    'calibrated'
    """
    return _load(path.resolve() if path else data_path(FITTED))


@cache
def _load(path: Path) -> Calibration:
    return join_calibration(_read(path), path)


def join_calibration(fitted: Section, path: Path) -> Calibration:
    """Check fitted constants together with the stated ones.

    Parameters
    ----------
    fitted : dict
        What ``calibration.yaml`` holds, or will hold.
    path : Path
        That file; the stated constants are read from ``calibration_facts.yaml`` beside it.

    Returns
    -------
    Calibration

    Raises
    ------
    CatalogError
        As :func:`load_calibration`.
    """
    facts = _read(path.with_name(FACTS))
    joined = _joined(fitted, facts, file=path.name, entry="")
    try:
        return Calibration.model_validate(joined)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = [str(part) for part in first["loc"]]
        raise CatalogError(
            file=path.name if _stands_in(fitted, place) else FACTS,
            entry=place[0] if place else "",
            field=".".join(place[1:]),
            value=None if first["type"] == "missing" else first["input"],
            remedy=f"{first['msg'].removeprefix('Value error, ')}.",
        ) from None


def _read(path: Path) -> Section:
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise CatalogError(
            file=path.name,
            entry="",
            field="",
            value=type(content).__name__,
            remedy="The file must be a mapping; restore it from git.",
        )
    return content


def _joined(fitted: Section, facts: Section, *, file: str, entry: str) -> Section:
    """Both mappings in one, section by section."""
    result = dict(fitted)
    for name, value in facts.items():
        place = f"{entry}.{name}" if entry else name
        if name not in result:
            result[name] = value
            continue
        own = result[name]
        if not isinstance(own, dict) or not isinstance(value, dict):
            raise CatalogError(
                file=FACTS,
                entry=entry or name,
                field=name,
                value=value,
                remedy=f"{place} is also fitted in {file}; remove it from one of the two.",
            )
        result[name] = _joined(own, value, file=file, entry=place)
    return result


def _stands_in(section: object, place: list[str]) -> bool:
    """Whether ``place``, or what should hold it, stands in ``section``."""
    for part in place[:2]:
        if not isinstance(section, dict) or part not in section:
            return False
        section = section[part]
    return bool(place)
