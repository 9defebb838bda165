"""The container and the server as they are published: what holds without Docker."""

import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

START_S = 120.0


def instructions(root: Path) -> dict[str, list[str]]:
    """Return the lines of the Dockerfile by their first word."""
    text = (root / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            found.setdefault(word, []).append(" ".join(rest.split()))
    return found


def test_the_base_image_is_named_by_digest(root: Path) -> None:
    for image in instructions(root)["FROM"]:
        assert re.fullmatch(r"python:3\.11\.\d+-slim@sha256:[0-9a-f]{64}", image)


def test_the_container_is_not_root(root: Path) -> None:
    """By number: Kubernetes cannot tell whether a name is root (runAsNonRoot)."""
    user, _, group = instructions(root)["USER"][-1].partition(":")
    assert int(user) >= 10_000
    assert int(group) >= 10_000


def test_the_container_tells_its_health(root: Path) -> None:
    [health] = instructions(root)["HEALTHCHECK"]
    assert "/_stcore/health" in health
    assert "timeout=" in health


def test_all_that_is_written_goes_to_the_one_folder_that_is_writable(root: Path) -> None:
    settings = dict(re.findall(r"(\w+)=(\S+)", " ".join(instructions(root)["ENV"])))
    assert settings["HOME"] == "/tmp"
    assert settings["PYTHONDONTWRITEBYTECODE"] == "1"
    assert instructions(root)["WORKDIR"][-1] == "/tmp"


@pytest.mark.parametrize("page", ["Dockerfile", "SECURITY.md", "README.md"])
def test_the_documented_run_takes_all_rights_away(root: Path, page: str) -> None:
    text = re.sub(r"\\\n#?\s*", "", (root / page).read_text(encoding="utf-8"))
    [command] = re.findall(r"docker run .*", text)
    for option in ("--read-only", "--tmpfs /tmp", "--cap-drop ALL", "no-new-privileges"):
        assert option in command


def test_the_server_has_limits_that_streamlit_knows(root: Path) -> None:
    from streamlit import config

    settings = tomllib.loads((root / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    server = settings["server"]
    assert server["address"] == "127.0.0.1"
    assert server["maxUploadSize"] <= 3
    assert server["maxMessageSize"] <= 10
    assert server["maxWidgetStateSize"] <= 2
    assert server["disconnectedSessionTTL"] <= 120
    assert server["enableCORS"] is True
    assert server["enableXsrfProtection"] is True
    assert settings["client"]["showErrorDetails"] == "none"
    known = config.get_config_options()
    for section in ("server", "browser", "client", "runner"):
        assert {f"{section}.{name}" for name in settings[section]} <= set(known)


def test_the_document_for_administrators_says_the_limits_that_are_set(root: Path) -> None:
    text = (root / "SECURITY.md").read_text(encoding="utf-8")
    server = tomllib.loads((root / ".streamlit/config.toml").read_text(encoding="utf-8"))["server"]
    stated = {
        name: int(size) for size, name in re.findall(r"(\d+) MB[^;`]*`(?:server\.)?(\w+)`", text)
    }
    assert stated == {
        name: server[name] for name in ("maxUploadSize", "maxWidgetStateSize", "maxMessageSize")
    }


def test_the_container_is_a_public_server(root: Path) -> None:
    settings = dict(re.findall(r"(\w+)=(\S+)", " ".join(instructions(root)["ENV"])))
    assert settings["GPU_ADVISOR_PUBLIC"] == "1"


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder in which nobody but root can write; root finds no such folder at all."""
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


def test_the_server_starts_where_nothing_can_be_written(root: Path, locked: Path) -> None:
    home = "/proc/1/nothing" if os.geteuid() == 0 else str(locked)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "advisor", "web", "--port", str(port), "--no-browser"],
        cwd=locked,
        env={
            **os.environ,
            "HOME": home,
            "XDG_CACHE_HOME": f"{home}/cache",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(root),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert healthy(port, server)
        assert list(locked.iterdir()) == []
    finally:
        server.terminate()
        said, _ = server.communicate(timeout=30)
    assert "Traceback" not in said


def healthy(port: int, server: subprocess.Popen[str]) -> bool:
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/_stcore/health", timeout=5
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            time.sleep(0.2)
    return False
