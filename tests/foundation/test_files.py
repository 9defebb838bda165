"""Whatever a path is, looking it up answers: also what the system refuses to look up."""

from pathlib import Path

import pytest

from advisor.cli import main
from advisor.foundation import resources
from advisor.foundation.files.reading import is_file, is_folder

LONG = "x" * 5_000
MISTAKE = 2
LONGEST_MESSAGE = 600
ON_H100 = "--task finetune --accelerator h100-sxm"


@pytest.fixture(params=["too long", "no path", "not searchable"])
def odd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path that the system refuses to look up; a superuser's tests may search every folder."""
    if request.param == "not searchable":

        def refuse(self: Path, **_: object) -> None:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "stat", refuse)
    return Path({"too long": LONG, "no path": "a\0b"}.get(request.param, "home/somebody"))


def test_what_cannot_be_looked_up_is_neither_file_nor_folder(odd: Path) -> None:
    assert not is_file(odd)
    assert not is_folder(odd)


def test_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    assert (is_file(file), is_folder(file)) == (True, False)
    assert (is_file(tmp_path), is_folder(tmp_path)) == (False, True)
    assert not is_file(tmp_path / "none")


@pytest.mark.parametrize(
    "command",
    [
        f"estimate --model {LONG} {ON_H100}",
        f"estimate --model org/{LONG} {ON_H100}",
        *(f"estimate --model {LONG}.{end} {ON_H100}" for end in ("json", "yaml", "gguf")),
        f"recommend --model 7B --task finetune --owned {LONG}.json",
        f"estimate {LONG}",
        f"validate {LONG}",
        f"validate data/measurements/memory_tp.csv --configs {LONG}",
        f"probe --report {LONG}",
        "probe --report=",
    ],
    ids=lambda text: text.replace(LONG, "LONG"),
)
def test_an_odd_path_is_the_users_mistake(
    command: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)

    assert main(command.split()) == MISTAKE
    said = capsys.readouterr().err.removesuffix("\n")
    assert len(said.removeprefix("gpu-advisor: error: ")) <= LONGEST_MESSAGE
    assert said.isprintable()


def test_a_cache_that_cannot_be_looked_up_leaves_the_shipped_prices(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(resources.CACHE_FOLDER, f"/{LONG}")

    assert main(["prices", "show"]) == 0
    assert "The cached live prices are not used" in capsys.readouterr().out


def test_somebody_without_a_home_has_a_cache_at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as any number, where HOME is ``/``."""

    def unknown() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.setattr("sys.platform", "linux")
    for name in (resources.CACHE_FOLDER, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    assert resources.cache_path("x") == Path("/.cache/gpu-advisor/x")
