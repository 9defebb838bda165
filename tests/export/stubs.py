"""Runs a script among programs that only note how they were called."""

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

STUBS = (
    *(
        "accelerate",
        "apptainer",
        "cp",
        "curl",
        "deepspeed",
        "git",
        "id",
        "megatron",
        "pip",
        "python",
        "python3",
    ),
    *("scontrol", "srun", "torchrun", "vllm", "wget"),
    *("tritonserver", "whisper-quantize", "whisper-server"),
    *("infinity_emb", "llama-server", "ollama", "text-embeddings-router"),
    *("lmdeploy", "trtllm-serve"),
)
REAL = ("bash", "cat", "find", "head", "mkdir", "sed", "seq", "sleep", "sort", "tail", "touch")
"""What the scripts use, and what the hostile names would like to."""
NOTE = """#!{sh}
name="${{0##*/}}"
printf '%s\\0' "$#" "$name" "$@" >> {log}
if [ "$name" = scontrol ]; then echo node-0; fi
if [ "$name" = srun ]; then "$@"; fi
if [ "$name" = apptainer ]; then while [ "$1" != bash ]; do shift; done; "$@"; fi
"""
"""Notes the number of arguments, the program and the arguments, each before a NUL."""
CLUSTER = {
    "NODE_RANK": "0",
    "MASTER_ADDR": "node-0",
    "SLURM_JOB_NODELIST": "node-[0-1]",
    "SLURM_NODEID": "0",
    "JOB_COMPLETION_INDEX": "0",
    "SKYPILOT_NODE_IPS": "127.0.0.1",
    "SKYPILOT_NODE_RANK": "0",
    "DSTACK_NODE_RANK": "0",
    "DSTACK_MASTER_NODE_IP": "127.0.0.1",
    "LWS_WORKER_INDEX": "0",
    "LWS_LEADER_ADDRESS": "node-0",
}


class Ran(NamedTuple):
    """What a script did."""

    calls: list[list[str]]
    """Programs with their arguments."""
    files: set[str]
    """Files that it left."""
    texts: dict[str, str]
    """Their content."""


class Stubs:
    """A folder of programs that note how they were called."""

    def __init__(self, folder: Path) -> None:
        self._programs, self._log = folder / "programs", folder / "log"
        self._work = folder / "work"
        self._programs.mkdir(parents=True)
        note = self._programs / ".note"
        note.write_text(
            NOTE.format(sh=shutil.which("sh"), log=shlex.quote(str(self._log))), encoding="utf-8"
        )
        note.chmod(0o755)
        for name in STUBS:
            (self._programs / name).symlink_to(note)
        for name in REAL:
            found = shutil.which(name)
            assert found
            (self._programs / name).symlink_to(found)

    def run(self, script: str, *, ends_with: int = 0) -> Ran:
        """Run a script in an empty folder."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        self._log.write_text("")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._work,
            env={"PATH": str(self._programs), "HOME": str(self._work), **CLUSTER},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == ends_with, (done.stderr.decode(errors="replace"), script)
        words = self._log.read_bytes().decode().split("\0")[:-1]
        calls = []
        while words:
            count = int(words[0]) + 1
            calls.append(words[1 : count + 1])
            del words[: count + 1]
        left = {
            found.name: found.read_text("utf-8")
            for found in self._work.iterdir()
            if found.is_file()
        }
        return Ran(calls, set(left), left)
