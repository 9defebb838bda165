"""Versions of generated files: each pinned, dated and sourced; damage is told by its place."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.errors import CatalogError
from advisor.export.versions import image_named, pip_install, read_versions, version_of

Change = Callable[[dict[str, Any]], object]
DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.fixture
def content(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((root / "data" / "launch_versions.yaml").read_text())
    return found


def test_every_version_has_a_date_that_was_and_a_source(content: dict[str, Any]) -> None:
    for part in content.values():
        for item in part.values():
            assert date(2026, 1, 1) <= date.fromisoformat(item["date"]) <= date.today()
            assert item["source"]
            assert "latest" not in item["version"]


def test_a_package_and_its_image_are_of_one_release(content: dict[str, Any]) -> None:
    packages, images = content["packages"], content["images"]
    assert images["vllm-nvidia"]["version"] == f"v{packages['vllm']['version']}"
    assert images["vllm-amd"]["version"] == f"v{packages['vllm']['version']}"
    assert images["trl-nvidia"]["version"] == packages["trl"]["version"]


def test_a_digest_follows_the_tag(tmp_path: Path, content: dict[str, Any]) -> None:
    content["images"]["vllm-amd"]["digest"] = DIGEST
    path = tmp_path / "launch_versions.yaml"
    path.write_text(yaml.safe_dump(content))
    image = read_versions(path).images["vllm-amd"]
    assert image.name == f"{image.image}:{image.version}@{DIGEST}"


def test_packages_are_installed_at_their_version(content: dict[str, Any]) -> None:
    version = content["packages"]["vllm"]["version"]
    assert pip_install("vllm") == ("pip", "install", f"vllm=={version}")


def test_what_is_not_named_is_not_guessed() -> None:
    with pytest.raises(CatalogError, match=r"launch_versions\.yaml"):
        version_of("no-package")
    with pytest.raises(CatalogError, match=r"launch_versions\.yaml"):
        image_named("vllm-other")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda it: it.pop("images"), "'images'"),
        (lambda it: it["packages"].clear(), "'packages'"),
        (lambda it: it["packages"]["vllm"].update(version="latest"), "'version'"),
        (lambda it: it["packages"]["vllm"].update(version="1.0; touch p"), "'version'"),
        (lambda it: it["packages"]["vllm"].update(version=0.25), "'version'"),
        (lambda it: it["packages"]["vllm"].pop("source"), "'source'"),
        (lambda it: it["packages"]["vllm"].update(date="20260231"), "'date'"),
        (lambda it: it["packages"]["vllm"].update(extra=1), "'extra'"),
        (lambda it: it["images"]["trl-amd"].update(image="x y"), "'image'"),
        (lambda it: it["images"]["trl-amd"].update(digest="sha256:0"), "'digest'"),
    ],
    ids=(
        *("no images", "no packages", "latest", "shell", "number", "no source", "no date"),
        *("unknown field", "blank", "short digest"),
    ),
)
def test_damage_is_told_by_its_place(
    change: Change, words: str, content: dict[str, Any], tmp_path: Path
) -> None:
    change(content)
    path = tmp_path / "launch_versions.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(CatalogError, match=words) as refused:
        read_versions(path)
    assert "launch_versions.yaml" in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "packages", "packages: {", "x: 1"])
def test_a_file_that_is_none_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "launch_versions.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=r"launch_versions\.yaml"):
        read_versions(path)
