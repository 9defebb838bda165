"""The built wheel holds all that it needs and runs where there is no checkout and no network."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FIND_RESOURCES = """
from advisor.foundation.resources import app_path, data_path
print(app_path(), data_path("gpu_catalog.yaml"), sep="\\n")
"""


@pytest.fixture(scope="module")
def source(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git has or would add, so that no build writes into the checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True).stdout
    copy = tmp_path_factory.mktemp("source")
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=source)
    [built] = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interpreter of a fresh environment with the wheel."""
    return environment_with(wheel, folder=tmp_path_factory.mktemp("installed"))


def test_the_wheel_carries_data_app_and_theme(wheel: Path, root: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}

    expected = {
        f"advisor/_data/{path.relative_to(root / 'data').as_posix()}": path.read_bytes()
        for path in (root / "data").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    expected["advisor/_app.py"] = (root / "app.py").read_bytes()
    expected["advisor/.streamlit/config.toml"] = (root / ".streamlit/config.toml").read_bytes()
    assert "advisor/_data/gpu_catalog.yaml" in expected
    assert {name: packed.get(name) for name in expected} == expected
    assert "advisor/py.typed" in packed


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}

    assert tops == {"advisor", f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"}


def test_the_wheel_has_the_version_of_pyproject(wheel: Path, root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]

    assert wheel.name == f"gpu_advisor-{project['version']}-py3-none-any.whl"


def test_the_installed_wheel_uses_its_own_files(installed: Path, tmp_path: Path) -> None:
    app, catalog = map(Path, run(installed, "-c", FIND_RESOURCES, cwd=tmp_path).splitlines())

    assert (app.parent.name, app.name) == ("advisor", "_app.py")
    assert catalog == app.parent / "_data" / "gpu_catalog.yaml"
    assert installed.parent.parent in app.parents


@pytest.mark.parametrize("how", ["module", "script"])
def test_the_installed_command_runs(installed: Path, tmp_path: Path, how: str) -> None:
    script = installed.with_name("gpu-advisor")
    command = [installed, "-m", "advisor"] if how == "module" else [script]

    shown = run(*command, "--help", cwd=tmp_path)

    assert "usage: gpu-advisor" in shown.lower()
    assert "recommend" in shown


def test_an_editable_install_uses_the_checkout(source: Path, tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path, cwd=source)
    [editable] = tmp_path.glob("*.whl")
    python = environment_with(editable, folder=tmp_path)

    found = run(python, "-c", FIND_RESOURCES, cwd=tmp_path).splitlines()

    # The stale copies that the rule is for are really there.
    assert list((tmp_path / "venv").rglob("advisor/_data/gpu_catalog.yaml"))
    assert found == [str(source / "app.py"), str(source / "data" / "gpu_catalog.yaml")]


def environment_with(wheel: Path, *, folder: Path) -> Path:
    """Make an environment that has this wheel and, for dependencies, what this one has."""
    home = folder / "venv"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    # The folder, not its .pth files: an editable install of the checkout stays out of sight.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel)
    return python


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Standard output of a command, its surroundings kept from it; a failure shows all it said."""
    hidden = ("PYTHON", "VIRTUAL_ENV", "COLUMNS")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, check=False, capture_output=True, text=True
    )
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}"
        pytest.fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}")
    return done.stdout.strip()
