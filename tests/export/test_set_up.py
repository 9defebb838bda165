"""The set-up checklist, and the script that checks a machine: run among stub programs."""

import re
import shutil
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

import advisor
from advisor.errors import InputError
from advisor.nouns.software.tools import tool_choice
from tests.cases import pretrain, serve, tune
from tests.hostile import HARMLESS_WHEN_QUOTED

SERVE: dict[str, Any] = serve("llama-3.1-8b", "rtx-4090", 2, layout={"tensor": 2})
TRAIN: dict[str, Any] = tune("llama-3.1-8b", "h100-sxm", 8, tokens=1e6)
IMAGES: dict[str, Any] = pretrain("resnet50", "rtx-4090", 1, samples=1e6)
STAGES = ["Operating system", "Driver", "Libraries", "Environment", "Software", "Run", "Watch"]
INSTALLERS = ("sudo", "apt", "apt-get", "pip", "pip3", "brew", "conda", "curl", "wget")


def on(card: str, count: int = 1) -> dict[str, Any]:
    return {**SERVE, "hardware": {"accelerator": card, "count": count}, "layout": None}


def sections(text: str) -> list[str]:
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


def script(case: dict[str, Any], platform: str | None = None, **further: Any) -> str:
    return advisor.export(case, "check-script", platform=platform, **further).content


def spelled(call: str) -> str:
    """The arguments of a call as a pattern of ``case``."""
    return call.partition(" ")[2].replace(" ", "\\ ")


class Machine:
    """A folder of programs that answer as a machine would."""

    def __init__(self, folder: Path, answers: dict[str, str]) -> None:
        self._programs, self._log = folder / "programs", folder / "log"
        self._programs.mkdir()
        self._log.write_text("")
        bash = shutil.which("bash")
        for name in {*(line.split()[0] for line in answers), *INSTALLERS}:
            cases = [
                f"  {spelled(pattern)}) printf '%b\\n' '{answer}' ;;"
                for pattern, answer in answers.items()
                if pattern.split()[0] == name
            ]
            body = "\n".join(('case "$*" in', *cases, "  *) exit 1 ;;", "esac"))
            program = self._programs / name
            program.write_text(
                f'#!{bash}\necho "${{0##*/}} $*" >> "{self._log}"\n{body}\n', encoding="utf-8"
            )
            program.chmod(0o755)

    def run(self, text: str) -> tuple[int, str, list[str]]:
        done = subprocess.run(
            [shutil.which("bash") or "bash", "-c", text],
            env={"PATH": str(self._programs), "HOME": "/nowhere"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout, self._log.read_text("utf-8").splitlines()


READY = {
    "uname -s": "Linux",
    "sh -c df -Pk*": "900 GB free",
    "nvidia-smi *driver_version*": "580.95.05\\n580.95.05",
    "nvidia-smi *count*": "2\\n2",
    "nvidia-smi *memory.total*": "24564\\n24564",
    "nvidia-smi topo*": "GPU0 GPU1",
    "python3 --version": "Python 3.12.3",
    "python3 -c*prefix*": "True",
    "python3 -m pip show vllm": "Name: vllm\\nVersion: 0.31.0",
    "python3 -c*torch*": "2 NVIDIA GeForce RTX 4090",
}


def test_a_machine_that_has_everything_passes(tmp_path: Path) -> None:
    code, said, calls = Machine(tmp_path, READY).run(script(SERVE, "linux"))
    assert (code, said.splitlines()[-1]) == (0, "nothing missing"), said
    assert not [call for call in calls if call.split()[0] in INSTALLERS]


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({"nvidia-smi *driver_version*": "580.95.05\\n550.54.14"}, "NVIDIA driver", "550.54.14"),
        ({"nvidia-smi *count*": "1"}, "Cards", "found 1"),
        ({"nvidia-smi *memory.total*": "24564\\n8192"}, "Memory of a card", "8192"),
        ({"python3 -m pip show vllm": "Version: 0.30.0"}, "vllm", "found 0.30.0"),
        ({"python3 --version": "Python 3.9.18"}, "Python", "3.9.18"),
        ({"python3 -c*prefix*": "False"}, "Environment of its own", "does not show it"),
        ({"sh -c df -Pk*": "1 GB free"}, "Disk", "found 1"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_installed(
    change: dict[str, str], name: str, words: str, tmp_path: Path
) -> None:
    code, said, calls = Machine(tmp_path, {**READY, **change}).run(script(SERVE, "linux"))
    assert code == 1
    [line] = [line for line in said.splitlines() if line.startswith("missing")]
    assert line.startswith(f"missing  {name}: ")
    assert words in line
    assert "1 missing" in said
    assert not [call for call in calls if call.split()[0] in INSTALLERS]


def test_an_empty_machine_lacks_each_step(tmp_path: Path) -> None:
    text = script(SERVE, "linux")
    code, said, _ = Machine(tmp_path, {}).run(text)
    checks = re.findall(r"^check ", text, re.MULTILINE)
    assert code == 1
    assert said.splitlines()[-1] == f"{len(checks)} missing"


def test_the_disk_of_a_checklist_holds_images_and_checkpoints() -> None:
    """ImageNet's archive for training has 148 GB (ILSVRC2012_img_train.tar)."""
    text = advisor.export(IMAGES, "checklist").content
    found = re.search(r"at least ([\d,]+) GB free", text)
    assert found
    assert int(found[1]) > 148


@pytest.mark.parametrize("case", [SERVE, TRAIN, IMAGES, on("mi300x"), on("gaudi3"), on("tpu-v6e")])
@pytest.mark.parametrize("platform", [None, "windows", "cloud", "slurm", "kubernetes"])
def test_every_script_is_valid_shell(case: dict[str, Any], platform: str | None) -> None:
    subprocess.run(["bash", "-n"], input=script(case, platform), text=True, check=True)


@pytest.mark.parametrize("case", [SERVE, TRAIN])
def test_the_checklist_goes_from_the_system_to_the_run_and_its_watch(case: dict[str, Any]) -> None:
    text = advisor.export(case, "checklist", platform="linux").content
    assert sections(text) == [*STAGES, "Sources"]
    assert "- [ ] **NVIDIA driver.**" in text
    assert "nvidia-smi --query-gpu=driver_version" in text
    start = "serve.sh" if case is SERVE else "train.sh"
    assert f"`bash {start}`" in text


@pytest.mark.parametrize(
    ("card", "driver", "cuda"), [("rtx-4090", "580", "13.2"), ("v100-sxm2-32gb", "525", "12.6")]
)
def test_the_driver_runs_the_cuda_that_pip_brings(card: str, driver: str, cuda: str) -> None:
    """The wheel torch 2.15.0 wants cuda-toolkit 13.2.2. CUDA 13 needs driver 580, CUDA 12 525."""
    case = {
        "model": {"preset": "llama-3.2-1b"},
        "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 5e6},
        "hardware": {"accelerator": card, "count": 1},
    }
    text = advisor.export(case, "checklist", platform="linux").content
    assert f"Expect: {driver} or newer" in text
    assert f"bring CUDA {cuda} " in text
    jobs = advisor.export(case, "checklist", platform="kubernetes").content
    assert "kubectl auth can-i create jobs" in jobs


def test_software_without_packages_is_run_in_its_image() -> None:
    case = pretrain("llama-3.1-8b", "h100-sxm", 8, tokens=1e9)
    text = advisor.export(case, "checklist", platform="slurm").content
    assert "Work in the image nvcr.io/nvidia/pytorch:25.10-py3" in text


def test_good_values_are_those_of_the_file_that_runs() -> None:
    answer = advisor.estimate(TRAIN)
    text = advisor.export(TRAIN, "checklist", answer=answer, platform="linux").content
    run = advisor.export(TRAIN, "torchrun", answer=answer).content
    head = re.search(r"# Expect (\d+) GiB", run)
    found = re.search(r"Good: (\d+) GiB .* used at the peak", text)
    assert head
    assert found
    assert found[1] == head[1]
    assert re.search(r"Good: a step takes .*tokens/s", text)
    assert "power up to 700 W" in text  # H100 SXM5, NVIDIA's data sheet


@pytest.mark.parametrize(
    ("card", "platform", "words"),
    [
        ("mi300x", "linux", ("rocminfo", "Name: gfx942", "amd-smi monitor")),
        ("apple-m3-ultra", None, ("sw_vers", "llama-server --version", "memory_pressure")),
        (
            "jetson-agx-orin-64gb",
            None,
            ("nv_tegra_release", "nvpmodel", "nvidia-ai-iot/vllm", "tegrastats"),
        ),
        ("tpu-v6e", None, ("jax.local_device_count", "vllm-tpu==", "tpu-info")),
        ("rtx-4090", "windows", ("wsl --install", "Install none inside WSL", "nvidia-smi")),
        ("h100-sxm", "kubernetes", ("kubectl apply -f kubernetes.yaml", "NVIDIA-H100-80GB-HBM3")),
        ("h100-sxm", "slurm", ("sbatch job.sbatch", "srun --nodes=1 --gpus-per-node=1 nvidia-smi")),
        ("gaudi3", "linux", ("hl-smi", "Dockerfile.ubuntu.pytorch.vllm")),
        ("l40s", None, ("vllm==0.31.0", "dcgmi dmon")),
    ],
)
def test_each_platform_has_its_own_steps(
    card: str, platform: str | None, words: tuple[str, ...]
) -> None:
    text = advisor.export(on(card), "checklist", platform=platform).content
    plain = text.replace("\\", "")
    for word in words:
        assert word in plain


def test_a_plan_that_no_file_starts_has_a_checklist_all_the_same() -> None:
    text = advisor.export(IMAGES, "checklist").content
    assert "No file starts this plan" in text or "Start." in text
    assert "torch.cuda" in text


def test_pytorch_for_rocm_comes_before_the_packages_that_need_it() -> None:
    case = tune("llama-3.1-8b", "mi300x", 1, tokens=1e6)
    text = advisor.export(case, "checklist", platform="linux").content
    assert 0 < text.find("torch.version.hip") < text.find("pip install trl==")
    nvidia = advisor.export(TRAIN, "checklist", platform="linux").content
    assert "torch.version.hip" not in nvidia


def test_an_unknown_platform_is_refused() -> None:
    with pytest.raises(InputError, match="unknown platform"):
        advisor.export(SERVE, "checklist", platform="beos")


def test_every_step_has_a_source_a_date_and_known_backends(root: Path) -> None:
    steps = yaml.safe_load((root / "data" / "setup_steps.yaml").read_text(encoding="utf-8"))
    for step in steps:
        assert step["source"]
        assert date(2026, 1, 1) <= date.fromisoformat(step["date"]) <= date.today()
        assert set(step.get("backends", ())) <= set(tool_choice().backends)
        for pattern in (step.get("reads", ""),):
            assert re.compile(pattern).groups == (1 if pattern else 0)
        if step.get("least") or step.get("equals"):
            assert step["reads"]


def test_kubectl_watches_one_kind_of_object(root: Path) -> None:
    """kubectl refuses more: "watch is only supported on individual resources and resource
    collections" (pkg/cmd/get/get.go)."""
    steps = yaml.safe_load((root / "data" / "setup_steps.yaml").read_text(encoding="utf-8"))
    watched = [step["check"] for step in steps if "--watch" in step.get("check", ())]
    kinds = [words[2] for words in watched if words[:2] == ["kubectl", "get"]]
    assert kinds
    assert not any("," in kind for kind in kinds)


@pytest.mark.parametrize("name", HARMLESS_WHEN_QUOTED.values(), ids=HARMLESS_WHEN_QUOTED)
def test_a_hostile_name_stays_a_name(name: str, tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1000,
        "_name_or_path": name,
    }
    case = {**SERVE, "model": {"config": config}}
    text = script(case, "linux", checkpoint="org/name")
    code, _, calls = Machine(tmp_path, READY).run(text)
    assert code == 0
    assert {call.split()[0] for call in calls} <= {line.split()[0] for line in READY}
    listed = advisor.export(case, "checklist", checkpoint="org/name").content
    assert sections(listed)[-1] == "Sources"


def test_a_checklist_starts_the_program_that_the_plan_is_of() -> None:
    """gpt-oss-120b on one RTX 4090 keeps experts in the host's memory, as llama.cpp alone does."""
    case = serve("gpt-oss-120b", "rtx-4090", 1, concurrency=16)
    text = advisor.export(case, "checklist").content
    assert "No file starts this plan" not in text
    assert "--n-cpu-moe" in text
    assert "start it with `bash serve.sh`, in the image as its head says." in text


def test_a_program_without_a_version_of_its_own_need_only_answer() -> None:
    """whisper-cli --help prints no version (ggml-org/whisper.cpp, examples/cli/README.md)."""
    text = advisor.export(serve("whisper-large-v3", "apple-m3-ultra", 1), "checklist").content
    assert "Install whisper.cpp 1.9.3. brew install whisper-cpp installs" in text
    assert "whisper-cli --help" in text
    assert "its version" not in text


@pytest.mark.parametrize(
    ("card", "platform"),
    [("rtx-4090", "macos"), ("h100-sxm", "tpu"), ("apple-m3-ultra", "linux"), ("l4", "jetson")],
)
def test_a_platform_without_the_card_is_refused(card: str, platform: str) -> None:
    with pytest.raises(InputError, match=f"the platform {platform} has no "):
        advisor.export(on(card), "checklist", platform=platform)


def test_a_large_cloud_asks_for_a_quota_first() -> None:
    """Codes of AWS's quotas: L-417A185B limits P instances (console of Service Quotas)."""
    case = {**TRAIN, "hardware": None}
    found = {}
    for provider in ("AWS", "Nebius"):
        limits = {"accelerators": ["h100-sxm"], "providers": [provider], "deadline_hours": 24}
        found[provider] = advisor.export({**case, "limits": limits}, "checklist").content
    assert "**Quota.** Ask for the quota first: 1 x p5." in found["AWS"]
    assert "L-417A185B is for P" in found["AWS"]
    assert "L-2C3B7624 for Trn" in found["AWS"]
    assert "Quota" not in found["Nebius"]


def test_a_jetson_builds_llama_cpp_for_its_own_chip() -> None:
    """github ggml-org/llama.cpp docs/build.md; compute capability 8.7 is Orin's, 11.0 Thor's."""
    for card, capability in (("jetson-agx-orin-64gb", 87), ("jetson-thor-t5000", 110)):
        case = serve("qwen3-8b", card, 1, concurrency=1, engine="llama-cpp")
        text = advisor.export(case, "checklist").content
        assert f"-DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES={capability}" in text


def test_a_dgx_spark_is_asked_for_the_memory_of_its_system() -> None:
    """docs.nvidia.com, DGX Spark, known issues: nvidia-smi answers memory is not supported."""
    case = serve("qwen3-8b", "dgx-spark", 1, concurrency=8, engine="vllm")
    assert "memory.total" not in advisor.export(case, "checklist").content
    share = re.search(r"--gpu-memory-utilization ([0-9.]+)", advisor.export(case, "vllm").content)
    assert share is not None
    assert float(share[1]) < 0.87


def test_radeon_cards_are_checked_over_vulkan() -> None:
    """llama.cpp's image for them holds kernels of Vulkan, which need no ROCm."""
    case = serve("llama-3.1-8b", "ryzen-ai-max-395", 1, concurrency=1)
    used = advisor.estimate(case).software
    assert used is not None
    assert used.backend == "vulkan"
    text = advisor.export(case, "checklist").content
    assert "vulkaninfo --summary" in text
    assert "/sys/module/ttm/parameters/pages_limit" in text  # Linux lends half of the memory
    assert not {"rocminfo", "xpu-smi", "clinfo"} & set(text.split())
