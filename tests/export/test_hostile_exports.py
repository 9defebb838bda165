"""Whatever a model is called, its exports run the named programs and nothing else.

Every door either refuses a hostile name in one sentence, or the file that takes it is executed
among stub programs in an empty folder.
"""

import ast
import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

import advisor
from advisor.architecture.config.fields import load_config_text
from advisor.cli import main
from advisor.errors import InputError
from advisor.export.quoting import csv_cell
from tests.export.stubs import Ran, Stubs
from tests.hostile import DISPLAYED_ONLY_BY_PATHS, HARMLESS_WHEN_QUOTED, REFUSED
from tests.weights import gguf, llama_gguf, write_gguf

CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}
STACK = "name: {}\ninput: {{features: 8}}\nlayers: [{{linear: 16}}, relu, {{linear: 2}}]\n"
LONGEST_MESSAGE = 600
TRAIN: dict[str, Any] = {
    "workload": {"kind": "fine_tuning", "method": "full", "tokens": 1e6, "sequence_length": 512},
    "hardware": {"accelerator": "h100-sxm", "count": 16},
    "layout": {"sharding": "zero3", "recompute": "full"},
}
SERVE: dict[str, Any] = {
    "workload": {
        "kind": "serving",
        "input_tokens": 100,
        "output_tokens": 100,
        "concurrency": 4,
        "weight_format": "bf16",
    },
    "hardware": {"accelerator": "h100-sxm", "count": 1},
}
NUMBERS: dict[str, Any] = {
    "workload": {"kind": "pretraining", "samples": 1e6},
    "hardware": {"accelerator": "h100-sxm"},
}
IN_A_FILE = {"deepspeed", "ollama", "axolotl", "llama-factory"}
"""Formats whose programs read the checkpoint's name from a file, or not at all."""
REPORTS = ("markdown", "html", "csv", "json")
LAUNCHES = {
    "train": (
        *("torchrun", "slurm", "kubernetes", "skypilot", "compose", "dstack"),
        *("accelerate", "deepspeed", "axolotl", "llama-factory"),
    ),
    "serve": (
        *("vllm", "sglang", "tensorrt-llm", "llama-cpp", "ollama"),
        *("slurm", "kubernetes", "compose", "skypilot", "dstack"),
    ),
}
BEHIND_DOORS = ("llama-cpp", "kubernetes")
"""A shell script and a file that holds one."""
WRITTEN = {"ds_config.json", "fsdp.json", "job.sh", "serve.yaml", "Modelfile"}
"""Files that scripts say they write."""
PINNED = re.compile(r"[a-z-]+(\[[a-z-]+\])?==[\d.]+|--no-build-isolation")
TAGS = set(
    "html head meta title style body h1 h2 p table thead tbody tr th td ul li".split()  # noqa: SIM905
)
"""Elements of a report."""


def in_config(name: str, folder: Path) -> dict[str, Any]:
    return {"config": {**CONFIG, "_name_or_path": name}}


def pasted(name: str, folder: Path) -> dict[str, Any]:
    """As the page and its links give a configuration."""
    return {"config": load_config_text(json.dumps({**CONFIG, "_name_or_path": name}))}


def unknown_type(name: str, folder: Path) -> dict[str, Any]:
    return {"config": {**CONFIG, "model_type": name}}


def in_gguf(name: str, folder: Path) -> dict[str, Any]:
    pairs, tensors = llama_gguf(
        layers=2, hidden=256, heads=4, groups=2, width=512, vocab=256, tied=False
    )
    pairs["general.name"] = name
    return {"config": str(write_gguf(folder / "model.gguf", gguf(pairs, tensors)))}


def file_name(name: str, folder: Path) -> dict[str, Any]:
    safe = name.replace("/", "_").replace("\0", "\n")
    inside = folder / safe
    inside.mkdir()
    pairs, tensors = llama_gguf(
        layers=2, hidden=256, heads=4, groups=2, width=512, vocab=256, tied=False
    )
    pairs["general.name"] = ""
    return {"config": str(write_gguf(inside / f"{safe}.gguf", gguf(pairs, tensors)))}


DOORS: dict[str, Callable[[str, Path], dict[str, Any]]] = {
    "config": in_config,
    "link": pasted,
    "model_type": unknown_type,
    "gguf": in_gguf,
    "file name": file_name,
}
NAMES = {**REFUSED, **DISPLAYED_ONLY_BY_PATHS, **HARMLESS_WHEN_QUOTED}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(tmp_path_factory.mktemp("stubs"))


def one_sentence(text: str) -> None:
    """A refusal is short, on one line, and nothing in it moves a cursor."""
    assert len(text) <= LONGEST_MESSAGE
    assert text.isprintable()


def scripts(text: str, to: str) -> Iterator[str]:
    """The shell that a file holds, as the program that takes the file would run it."""
    if to == "kubernetes":
        for item in yaml.safe_load_all(text):
            if item["kind"] in {"Job", "Deployment"}:
                [container] = item["spec"]["template"]["spec"]["containers"]
                first, second, script = container["command"]
                assert (first, second) == ("bash", "-c")
                # Of the variables the secret alone is set; Kubernetes leaves the others' names.
                yield in_place(re.sub(r"\$(?:\$|\(HF_TOKEN\))", expanded, script))
    elif to == "skypilot":
        content = yaml.safe_load(text)
        yield content["setup"]
        yield content["run"]
    elif to == "dstack":
        yield from yaml.safe_load(text)["commands"]
    elif to == "compose":
        for service in yaml.safe_load(text)["services"].values():
            [script] = service["command"]
            # Compose would replace what is left of the variables.
            assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", script)
            yield in_place(script.replace("$$", "$"))
    elif to in {"axolotl", "llama-factory"}:
        lines = [line for line in text.splitlines() if line.startswith("#   ")]
        yield "\n".join(line.removeprefix("#   ") for line in lines)
    elif to == "accelerate":
        settings = yaml.safe_load(text)
        assert settings["compute_environment"] == "LOCAL_MACHINE"
        assert all(isinstance(value, str | int | bool | dict) for value in settings.values())
        lines = [line for line in text.splitlines() if line.startswith("#   ")]
        yield "\n".join(line.removeprefix("#   ") for line in lines)
    elif to == "deepspeed":
        json.loads(text)
    else:
        yield text


def in_place(script: str) -> str:
    """A container's script without its volume."""
    for folder in ("/weights", "/training"):
        script = script.replace(f"cd {folder}\n", "").replace(folder, ".")
    return script


def expanded(found: re.Match[str]) -> str:
    return "$" if found[0] == "$$" else "the secret"


def runs_only_stubs(stubs: Stubs, text: str, to: str) -> list[list[str]]:
    calls: list[list[str]] = []
    for script in scripts(text, to):
        ran: Ran = stubs.run(script)
        assert ran.files <= WRITTEN, (to, ran.files, script)
        if model := ran.texts.get("Modelfile"):
            words = [line.split(" ")[0] for line in model.splitlines()]
            assert words == ["FROM", "PARAMETER", "PARAMETER"]
        calls += ran.calls
    return calls


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(key for key, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(page: str) -> _Elements:
    found = _Elements()
    found.feed(page)
    found.close()
    return found


def check_report(text: str, to: str, name: str) -> None:
    if to == "json":
        assert name in json.loads(text)["model"]
    elif to == "csv":
        for row in csv.reader(io.StringIO(text)):
            for cell in row:
                assert cell[:1] not in ("=", "+", "-", "@") or re.fullmatch(r"-?[\d.e+-]+", cell)
    elif to == "html":
        found = shown(text)
        assert found.tags <= TAGS
        assert found.attributes <= {"lang", "charset", "name", "content", "class"}
        assert name in "".join(found.words)
    else:
        found = shown(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
        assert found.tags <= TAGS
        assert not found.attributes
        assert name in "".join(found.words)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("door", DOORS)
def test_a_name_is_refused_or_harmless(door: str, name: str, stubs: Stubs, tmp_path: Path) -> None:
    # Every second name is served, the others train: each format quotes half of the names, by the
    # functions that the other half goes through, too.
    place = [*NAMES.values()].index(name)
    work, case = (("serve", SERVE), ("train", TRAIN))[place % 2 if door == "config" else 0]
    try:
        model = DOORS[door](name, tmp_path)
        if door == "link" and model == in_config(name, tmp_path):
            return  # from here on it is the other door's model
        case = {"model": model, **case}
        answer = advisor.estimate(case)
    except InputError as error:
        one_sentence(str(error))
        assert name not in HARMLESS_WHEN_QUOTED.values()
        return
    except (OSError, UnicodeEncodeError):
        assert door in {"gguf", "file name"}  # neither format nor file system holds it
        return
    assert name not in {*REFUSED.values(), *DISPLAYED_ONLY_BY_PATHS.values()}
    assert door != "link"
    assert answer.model.isprintable()
    if door == "config":  # model and checkpoint in one file, both hostile
        check_exports(case, answer, stubs, LAUNCHES[work], name)
    else:  # behind the doors all names take one way
        check_exports(case, answer, stubs, (BEHIND_DOORS[place % 2],), "org/name")


def check_exports(
    case: dict[str, Any],
    answer: advisor.Estimate,
    stubs: Stubs,
    launches: tuple[str, ...],
    checkpoint: str,
) -> None:
    for to in launches:
        text = advisor.export(case, to, answer=answer, checkpoint=checkpoint).content
        check_launch(stubs, text, to, checkpoint)
    for to in REPORTS:
        check_report(advisor.export(case, to, answer=answer).content, to, answer.model)


def check_launch(stubs: Stubs, text: str, to: str, checkpoint: str) -> None:
    """A file runs stubs alone, and its last one gets the checkpoint, as one word and once."""
    calls = runs_only_stubs(stubs, text, to)
    named = [word for call in calls for word in call if checkpoint in word]
    assert len(named) == (to not in IN_A_FILE)
    assert all(word in calls[-1] for word in named)
    if to in {"axolotl", "llama-factory"}:
        assert checkpoint in yaml.safe_load(text).values()


UNLIKE_MODELS = {**REFUSED, **DISPLAYED_ONLY_BY_PATHS}
"""The others are tried as a model's name and its checkpoint at once."""


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[dict[str, Any], advisor.Estimate]]:
    """A case of each work under a harmless name, and its answer."""
    model: dict[str, Any] = {"model": {"config": CONFIG}}
    cases = {"train": model | TRAIN, "serve": model | SERVE}
    return {work: (case, advisor.estimate(case)) for work, case in cases.items()}


@pytest.mark.parametrize("name", UNLIKE_MODELS.values(), ids=UNLIKE_MODELS)
def test_a_checkpoint_is_refused_or_one_word(
    name: str, stubs: Stubs, answers: dict[str, tuple[dict[str, Any], advisor.Estimate]]
) -> None:
    for work, (full, answer) in answers.items():
        for to in LAUNCHES[work]:
            try:
                text = advisor.export(full, to, answer=answer, checkpoint=name).content
            except InputError as error:
                one_sentence(str(error))
                assert name in REFUSED.values()
                continue
            assert name not in REFUSED.values()
            check_launch(stubs, text, to, name)


@pytest.mark.parametrize("name", HARMLESS_WHEN_QUOTED.values(), ids=HARMLESS_WHEN_QUOTED)
def test_the_check_of_a_machine_leaves_nothing(name: str, stubs: Stubs) -> None:
    case = (TRAIN, SERVE)[[*NAMES.values()].index(name) % 2]
    full = {"model": {"config": {**CONFIG, "_name_or_path": name}}, **case}
    text = advisor.export(full, "check-script").content
    ran = stubs.run(text, ends_with=1)  # the stubs print no versions
    assert not ran.files
    assert {call[0] for call in ran.calls} <= {"python", "python3"}


@pytest.mark.parametrize("name", HARMLESS_WHEN_QUOTED.values(), ids=HARMLESS_WHEN_QUOTED)
def test_a_python_script_holds_a_name_as_a_text(name: str) -> None:
    full = {"model": {"preset": "llama-3.2-1b"}, **TRAIN}
    full["hardware"] = {"accelerator": "h100-sxm", "count": 1}
    text = advisor.export({**full, "layout": {}}, "unsloth", checkpoint=name).content
    values = [
        ast.literal_eval(line.value)
        for line in ast.parse(text).body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]).isupper()
    ]
    assert name in values


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_stack_is_refused_or_shown_as_it_is(name: str) -> None:
    case = {"model": {"stack": STACK.format(json.dumps(name))}, **NUMBERS}
    try:
        answer = advisor.estimate(case)
    except InputError as error:
        one_sentence(str(error))
        assert name not in HARMLESS_WHEN_QUOTED.values()
        return
    assert name in HARMLESS_WHEN_QUOTED.values()
    for to in REPORTS:
        check_report(advisor.export(case, to, answer=answer).content, to, name)


@pytest.mark.parametrize("field", ["preset", "hub", "config", "stack", "accelerator", "precision"])
def test_a_case_names_nothing_of_the_kind(field: str) -> None:
    for name in NAMES.values():
        case: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, **TRAIN}
        if field == "accelerator":
            case["hardware"] = {"accelerator": name}
        elif field == "precision":
            case["workload"] = {**case["workload"], "precision": name}
        else:
            case["model"] = {field: name}
        with pytest.raises(InputError) as refused:
            advisor.estimate(case)
        one_sentence(str(refused.value))


@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
def test_the_command_line_says_so_in_one_sentence(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    line = ["export", "--model", str(config), "--task", "serve", "--to", "vllm"]
    line += ["--accelerator", "h100-sxm", f"--checkpoint={name}"]
    assert main(line) == 2
    said = capsys.readouterr()
    assert said.out == ""
    one_sentence(said.err.removesuffix("\n"))
    assert "--checkpoint" in said.err


def test_no_cell_is_computed() -> None:
    """An answer's own cells begin with words of the program, so names are tried by themselves."""
    for cell in (
        csv_cell(f"{before}{name}") for name in NAMES.values() for before in ("", " ", "\t")
    ):
        assert isinstance(cell, str)
        assert cell.isprintable()
        assert not cell.lstrip().startswith(tuple("=+-@\uff1d\uff0b\uff0d\uff20"))


def test_images_and_packages_stand_at_a_version(
    answers: dict[str, tuple[dict[str, Any], advisor.Estimate]],
) -> None:
    for work, (full, answer) in answers.items():
        for to in LAUNCHES[work]:
            text = advisor.export(full, to, answer=answer, checkpoint="org/name").content
            assert "latest" not in text
            for line in re.findall(r"pip install (.*)", text):
                assert all(PINNED.fullmatch(word) for word in shlex.split(line))
            if to in {"kubernetes", "compose", "dstack"}:
                for image in re.findall(r"image: (.*)", text):
                    assert re.fullmatch(r"[a-z0-9./-]+:[\w.-]*\d[\w.-]*", image)
