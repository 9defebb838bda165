"""Reading the two files of constants: what is wrong is said, where, and how to mend it."""

import re
from pathlib import Path

import pytest
import yaml

from advisor.catalog.constants import FACTS, FITTED, load_calibration
from advisor.errors import CatalogError
from advisor.foundation.resources import data_path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Path of a copy of the fitted constants, the stated ones beside it."""
    for name in (FITTED, FACTS):
        (tmp_path / name).write_bytes(data_path(name).read_bytes())
    return tmp_path / FITTED


def change(path: Path, place: str, value: object) -> None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    *parents, last = place.split("/")
    section = content
    for name in parents:
        section = section.setdefault(name, {})
    if value is None:
        del section[last]
    else:
        section[last] = value
    path.write_text(yaml.safe_dump(content), encoding="utf-8")


def test_the_shipped_files_are_read_once():
    assert load_calibration() is load_calibration()


def test_a_copy_equals_the_original(files):
    assert load_calibration(files) == load_calibration()


def test_interruptions_are_those_of_llama_3():
    # 419 unexpected interruptions in 54 days on 16,384 GPUs.
    rate = load_calibration().reliability.interruptions_per_accelerator_hour
    assert rate * 54 * 24 * 16384 == pytest.approx(419, rel=0.001)


@pytest.mark.parametrize(
    ("name", "place", "value", "file", "field"),
    [
        (FITTED, "kernels/Hopper/matmul/default/compute", 4.5, FITTED, "Hopper.matmul.default"),
        (FITTED, "kernels/Hopper/matmul/default/rate", 0.5, FITTED, "Hopper.matmul.default.rate"),
        (FITTED, "kernels/Hopper/attention", None, FITTED, "Hopper.attention"),
        (FACTS, "memory/workspace_bytes", -1, FACTS, "workspace_bytes"),
        (FACTS, "reliability/source", None, FACTS, "source"),
    ],
)
def test_a_bad_value_is_named_with_its_file(files, name, place, value, file, field):
    change(files.with_name(name), place, value)

    with pytest.raises(CatalogError) as caught:
        load_calibration(files)

    assert caught.value.file == file
    assert caught.value.field.startswith(field)


def test_a_value_in_both_files_is_refused(files):
    change(files.with_name(FACTS), "network/intra_bandwidth", 0.9)

    with pytest.raises(CatalogError, match=r"intra_bandwidth is also fitted in calibration\.yaml"):
        load_calibration(files)


def test_a_relative_must_exist(files):
    change(files.with_name(FACTS), "relatives/Volta", "Amper")

    with pytest.raises(CatalogError, match="no kernels for 'Amper'"):
        load_calibration(files)


def test_a_generation_has_kernels_or_a_relative_not_both(files):
    change(files.with_name(FACTS), "relatives/Hopper", "Ampere")

    with pytest.raises(CatalogError, match="kernels of its own"):
        load_calibration(files)


def test_kernels_need_a_default(files):
    change(files, "kernels/default", None)

    with pytest.raises(CatalogError, match="kernels has no 'default'"):
        load_calibration(files)


@pytest.mark.parametrize(("text", "said"), [("a: [1\n", "YAML"), ("- 1\n", "must be a mapping")])
def test_a_file_that_is_no_mapping_is_refused(files, text, said):
    files.write_text(text, encoding="utf-8")

    with pytest.raises(CatalogError, match=said):
        load_calibration(files)


def test_a_missing_file_is_refused(files):
    files.with_name(FACTS).unlink()

    with pytest.raises(CatalogError, match=re.escape(FACTS)):
        load_calibration(files)
