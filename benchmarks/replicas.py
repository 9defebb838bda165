"""Several processes of the app behind nginx on the loopback address, as `deploy/nginx.conf` sets it
up.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from advisor.foundation.resources import app_path

ROOT = Path(__file__).resolve().parent.parent
START_S = 90
MAIN = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
events {{ worker_connections 4096; }}
http {{
    log_format replica '$upstream_addr $status $request_uri';
    access_log {folder}/access.log replica;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def find_nginx() -> str | None:
    """Return the program, which Debian keeps outside of most users' paths."""
    return shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


def free_port() -> int:
    """Return a port of this machine that nothing uses."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def running(
    command: list[str], address: str, log: Path, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until an address answers; it ends with the context."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **environment}
        )
    try:
        end = time.monotonic() + START_S
        while True:
            try:
                with urlopen(address, timeout=5):
                    break
            except (URLError, OSError):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"no server: {log.read_text()[-2000:]}") from None
                time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def app(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """One process of the app."""
    command = [sys.executable, "-m", "streamlit", "run", str(app_path())]
    command += ["--server.headless", "true", "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1"]
    health = f"http://127.0.0.1:{port}/_stcore/health"
    secret = {"STREAMLIT_SERVER_COOKIE_SECRET": "the same in all replicas"}
    with running(command, health, folder / f"app-{port}.log", **secret) as process:
        yield process


@dataclass
class Replicas:
    """Processes of the app behind a proxy."""

    address: str
    folder: Path
    processes: dict[int, subprocess.Popen[bytes]]
    """By port."""

    def of(self, cookie: str) -> int:
        """Return the port of the replica that a visitor with this cookie is sent to."""
        mark = f"/_stcore/health?{secrets.token_hex(8)}"
        request = Request(self.address + mark, headers={"Cookie": cookie})
        with urlopen(request, timeout=30):
            pass
        end = time.monotonic() + 10
        while time.monotonic() < end:
            lines = (self.folder / "access.log").read_text().splitlines()
            asked = [line for line in lines if line.endswith(mark)]
            if asked:
                # After a failed attempt the line names both; the last one answered.
                return int(asked[-1].partition(" 200 ")[0].rpartition(":")[2])
            time.sleep(0.05)
        raise RuntimeError("nginx logged nothing")


@contextmanager
def behind_nginx(folder: Path, count: int = 2) -> Iterator[Replicas]:
    """Start replicas and nginx with the site of `deploy/nginx.conf`."""
    nginx = find_nginx()
    assert nginx is not None
    port, ports = free_port(), [free_port() for _ in range(count)]
    site = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    [line] = re.findall(r"^ *server app:8501.*;$", site, flags=re.MULTILINE)
    servers = "\n".join(line.replace("app:8501", f"127.0.0.1:{one}") for one in ports)
    # All visitors of a test have one address.
    site = re.sub(r"^ *limit_(conn|req) .*$", "", site, flags=re.MULTILINE)
    site = site.replace(line, servers).replace("listen 8080", f"listen 127.0.0.1:{port}")
    (folder / "site.conf").write_text(site, encoding="utf-8")
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=user), encoding="utf-8")
    with ExitStack() as stack:
        processes = {one: stack.enter_context(app(folder, one)) for one in ports}
        command = [nginx, "-p", str(folder), "-e", str(folder / "error.log")]
        command += ["-c", str(folder / "nginx.conf")]
        health = f"http://127.0.0.1:{port}/_stcore/health"
        stack.enter_context(running(command, health, folder / "nginx.log"))
        yield Replicas(f"http://127.0.0.1:{port}", folder, processes)
