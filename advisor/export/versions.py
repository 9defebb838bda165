"""The versions that generated files install and run, from ``data/launch_versions.yaml``."""

from functools import cache
from pathlib import Path
from typing import Annotated, Final, NoReturn

from pydantic import Field

from advisor.catalog.records import IsoDay
from advisor.foundation.noun import Noun, read_record, refuse
from advisor.foundation.resources import data_path

FILE: Final = "launch_versions.yaml"
Version = Annotated[
    str, Field(max_length=128, pattern=r"^([A-Za-z_][0-9A-Za-z_.-]*)?[0-9][0-9A-Za-z_.-]*$")
]
"""A tag by the rules of container registries, with a digit, because ``latest`` is no version."""


class Package(Noun):
    """A package at one version."""

    version: Version
    date: IsoDay
    """When the source was read. ISO 8601."""
    source: Annotated[str, Field(min_length=1)]


class Requirement(Package):
    """A package of the package index."""

    index_name: Annotated[str, Field(pattern=r"^[a-z][0-9a-z-]*(\[[a-z,-]+\])?$")] | None = None


class Image(Package):
    """A container image at one version."""

    image: Annotated[str, Field(pattern=r"^[0-9a-z][0-9a-z._/-]{0,254}$")]
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    build: str = ""

    @property
    def name(self) -> str:
        """The image reference as container programs expect it."""
        pinned = f"{self.image}:{self.version}"
        return f"{pinned}@{self.digest}" if self.digest else pinned


class CudaBuild(Package):
    """The CUDA that pip brings with PyTorch for some cards."""

    capability: Annotated[str, Field(pattern=r"^\d+\.\d$")]
    driver: Version
    last: str = ""
    install: tuple[str, ...] = ()


class TorchBuild(Package):
    """PyTorch for cards that plain pip leaves out."""

    install: tuple[str, ...]


class Versions(Noun):
    """The whole of ``launch_versions.yaml``."""

    cuda_builds: dict[str, CudaBuild]
    torch_builds: dict[str, TorchBuild]
    packages: Annotated[dict[str, Requirement], Field(min_length=1)]
    images: Annotated[dict[str, Image], Field(min_length=1)]


def read_versions(path: Path) -> Versions:
    """Read ``launch_versions.yaml``."""
    return read_record(path, Versions)


@cache
def _versions() -> Versions:
    return read_versions(data_path(FILE))


def _package(name: str) -> Requirement:
    """Return a package, which may be named with extras: ``infinity-emb[all]``."""
    return _versions().packages.get(name.partition("[")[0]) or _absent("packages", name)


def version_of(package: str) -> str:
    """Return the version of a package."""
    return _package(package).version


def image_named(name: str) -> str:
    """Return an image with its version."""
    return (_versions().images.get(name) or _absent("images", name)).name


def image_source(image: str) -> str:
    """Return the command that brings an image, named with its version, to a machine."""
    built = (one.build for one in _versions().images.values() if one.name == image and one.build)
    return next(built, f"docker pull {image}")


def cuda_build(capability: str) -> CudaBuild | None:
    """Return what pip brings to a card with a compute capability; None if no build runs on it."""
    builds = _versions().cuda_builds.values()
    fits = (one for one in builds if float(one.capability) <= float(capability))
    return next(fits, None)


def torch_build(backend: str) -> TorchBuild | None:
    """Return the PyTorch that pip installs first for a backend; None if plain pip brings it."""
    return _versions().torch_builds.get(backend)


def git_clone(repository: str, package: str, *, tag: str = "v") -> tuple[str, ...]:
    """Return the command that fetches the listed release; ``tag`` is before its number."""
    release = f"{tag}{version_of(package)}"
    return ("git", "clone", "--depth", "1", "--branch", release, repository)


def pip_install(*packages: str) -> tuple[str, ...]:
    """Return the command that installs the listed version of each package."""
    found = ((name, _package(name)) for name in packages)
    return ("pip", "install", *(f"{one.index_name or name}=={one.version}" for name, one in found))


def _absent(part: str, name: str) -> NoReturn:
    remedy = "Add it with its version, date and source."
    refuse(FILE, None, remedy, entry=f"{part}.{name}", field="version")
