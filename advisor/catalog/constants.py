"""Reads the calibration: the fitted constants, and those written by hand with a source."""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from pydantic import ValidationError

from advisor.catalog.records import required
from advisor.foundation.data_files import kept, read_yaml
from advisor.foundation.noun import RESTORE, check_numbers, refuse, shown
from advisor.foundation.resources import data_path
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.stacks import SOFTWARE, fitted_stacks, known_stacks, stack_rows

FITTED = "calibration.yaml"
FACTS = "calibration_facts.yaml"

Section = dict[str, object]


def load_calibration(path: Path | None = None) -> Calibration:
    """Read and check the calibration constants; the result is cached for each path.

    ``path``: the file of fitted constants. The constants written by hand come from
    ``calibration_facts.yaml`` in the same folder, and those of software from the shipped
    ``software.yaml``. None reads the shipped files.

    Raises CatalogError if a file is not a YAML mapping, both files hold the same value, or a value
    is missing, unknown or out of bounds. The message names file, entry and field. Raises
    ResourceError if the shipped files are missing.

    >>> load_calibration().kernels["Hopper"].evidence.value
    'calibrated'
    """
    return _load(path.resolve() if path else data_path(FITTED))


@cache
def _load(path: Path) -> Calibration:
    beside = (path.with_name(FACTS), data_path(SOFTWARE), data_path("required.yaml"))
    return kept("checked_calibration", partial(_read_all, path), path, *beside)


def _read_all(path: Path) -> Calibration:
    fitted = _read(path)
    facts = path.with_name(FACTS)
    for file, section, names in (
        (path, fitted, required().fitted),
        (facts, _read(facts), required().facts),
    ):
        _check_present(section, names.sections, file=file.name, entry="")
        intervals = section["intervals"]
        if isinstance(intervals, dict):
            _check_present(intervals, names.intervals, file=file.name, entry="intervals")
    return join_calibration(fitted, path)


def _check_present(
    section: Mapping[str, object], names: frozenset[str], *, file: str, entry: str
) -> None:
    for name in sorted(names - section.keys()):
        refuse(file, None, f"Add it. {RESTORE}", entry=entry or name, field=name if entry else "")


def join_calibration(fitted: Section, path: Path) -> Calibration:
    """Join fitted constants with those written by hand, and check the whole.

    ``fitted`` is the content of the file at ``path``, written already or not; the rest comes from
    the files that :func:`load_calibration` names, with its errors.
    """
    _check_stacks(fitted)
    facts = _read(path.with_name(FACTS)) | {"software": stack_rows()}
    joined = _joined(fitted, facts, file=path.name, entry="")
    try:
        return Calibration.model_validate(joined)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        # An error about the whole file starts with the name of the wrong section.
        place = [str(part) for part in first["loc"]] or message.split()[0].rstrip(":").split(".")
        whole = first["type"] in {"missing", "value_error"}
        remedy = f"{message}. {RESTORE}"
        refuse(
            path.name if _is_fitted(place, fitted, facts) else _stated_in(place[0]),
            None if whole else shown(first["input"]),
            remedy,
            entry=place[0],
            field=".".join(place[1:]),
        )


def _check_stacks(fitted: Section) -> None:
    """Refuse a wrong table of stacks, and stacks that one of the two files lacks."""
    known, software = known_stacks(), fitted.get("software")
    if not isinstance(software, dict):
        return
    for name in software:
        if name not in known:
            remedy = f"Add its row, or fit the constants again: {FITTED} has some of it. {RESTORE}"
            refuse(SOFTWARE, None, remedy, entry=str(name))
    for name in fitted_stacks():
        if name not in software:
            remedy = f"No run of it is fitted in {FITTED}: give its `slowdown`, with a source."
            refuse(SOFTWARE, None, remedy, entry=name, field="slowdown")


def _read(path: Path) -> Section:
    content = read_yaml(path)
    if not isinstance(content, dict):
        remedy = "The file must be a mapping; restore it from git."
        refuse(path.name, type(content).__name__, remedy)
    check_numbers(content, file=path.name)
    return content


def _joined(fitted: Section, facts: Section, *, file: str, entry: str) -> Section:
    """Join both mappings, section by section."""
    result = dict(fitted)
    for name, value in facts.items():
        place = f"{entry}.{name}" if entry else name
        if name not in result:
            result[name] = value
            continue
        own, stated = result[name], _stated_in(place.partition(".")[0])
        if isinstance(own, dict) != isinstance(value, dict):
            wrong, at_fault = (value, stated) if isinstance(own, dict) else (own, file)
            remedy = f"It must be a mapping of fields. {RESTORE}"
            refuse(at_fault, wrong, remedy, entry=entry or name, field=name if entry else "")
        if not isinstance(own, dict) or not isinstance(value, dict):
            remedy = f"{place} is also fitted in {file}; remove it from one of the two."
            refuse(stated, value, remedy, entry=entry or name, field=name)
        result[name] = _joined(own, value, file=file, entry=place)
    return result


def _stated_in(section: str) -> str:
    """Return the file of stated constants that holds a section."""
    return SOFTWARE if section == "software" else FACTS


def _is_fitted(place: list[str], fitted: Section, facts: Section) -> bool:
    """Whether a place belongs to the fitted file: it is there, or should be there."""
    depths = [_depth(section, place) for section in (fitted, facts)]
    if depths[0] != depths[1]:
        return depths[0] > depths[1]
    named = required().fitted.fields.get(place[0], frozenset()).intersection(place)
    return bool(named) or place[0] not in required().facts.sections | {"software"}


def _depth(section: object, place: list[str]) -> int:
    """Return how many leading parts of a place a file contains."""
    for depth, part in enumerate(place):
        if not isinstance(section, dict) or part not in section:
            return depth
        section = section[part]
    return len(place)
