"""Memory and time are bounded whatever is asked: measured in a process of its own."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/statm").exists(), reason="reads the memory of a process from /proc"
    ),
]

MOST_CPU_S = 1.0
MOST_MB = 100.0
MOST_CHARACTERS = 600
PREFIX = "gpu-advisor: error: "
REFUSED = 2

CASE = "model: {preset: llama-3.1-8b}\nworkload: {kind: fine_tuning}\n"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 14336,
    "vocab_size": 32000,
}


def bomb() -> str:
    """Seven levels of nine aliases each: 4.8 million values."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 8)]
    return "\n".join(levels)


def gguf(*, tensors: int = 0, pairs: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + rest


def safetensors(header: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header


def stack(layers: int) -> str:
    """A case of linear layers, each of another width: each is a moment of its own."""
    widths = ", ".join(f"{{linear: {8 + width}}}" for width in range(layers))
    shape = f"{{name: s, input: {{features: 8}}, layers: [{widths}]}}"
    return f"model: {{stack: {shape}}}\nworkload: {{kind: pretraining, samples: 1000}}\n"


def config(**fields: object) -> str:
    return json.dumps({**LLAMA, **fields})


CASES: dict[str, tuple[str | bytes, str]] = {
    "alias bomb": (bomb(), "the anchor &a0 at line 1"),
    "alias of itself": ("a: &a [*a]", "the anchor &a"),
    "merge": ("a: {<<: {b: 1}}", "a merge key"),
    "tag": ("a: !!python/name:os.system x", "the tag python/name:os.system"),
    "binary key": ("!!binary aGk=: 1", "the tag binary"),
    "key twice": ("model: {}\nmodel: {}", "the key 'model' twice at line 2"),
    "digits": ("a: " + "9" * 900_000, "a whole number of more than 30 digits"),
    "hexadecimal digits": ("a: 0x" + "f" * 900_000, "a whole number of more than 30 digits"),
    "octal digits": ("a: 0" + "7" * 900_000, "a whole number of more than 30 digits"),
    "sexagesimal digits": ("a: 1" + ":1" * 400_000, "a whole number of more than 30 digits"),
    "tagged digits": ("a: !!int '" + "9" * 31 + "'", "a whole number of more than 30 digits"),
    "digits of a float": ("a: " + "9" * 900_000 + ".5", "a number of more than 100 characters"),
    "no hexadecimal": ("a: 0x_", "no whole number"),
    "no int": ("a: !!int x", "no whole number"),
    "no date": ("a: 2026-99-99", "no date"),
    "NUL": ('a: "\\0"', "a NUL character"),
    "deep lists": ("[" * 900_000, "more than 60 levels of nesting"),
    "deep mappings": ("{a: " * 200_000, "more than 60 levels of nesting"),
    "deep JSON": ('{"a": [' * 100_000, "more than 60 levels of nesting"),
    "deep blocks": ("- " * 400_000, "more than 60 levels of nesting"),
    "many values": ("a: [" + "1," * 400_000 + "]", "more than 200,000 values"),
    "many fields": (CASE + "".join(f"x{i}: 1\n" for i in range(60_000)), "too many values"),
    "many names": (CASE + "limits: {providers: [" + "1," * 150_000 + "]}", "too many values"),
    "long word": (CASE.replace("llama-3.1-8b", "x" * 900_000), "preset is too long"),
    "a stack of 2,000 different layers": (stack(2_000), "too many different layers"),
    "too large": ("#" * 1_000_001, "too large"),
    "no text": (b"\xff\xfe\x00", "not UTF-8"),
    "yes for a number": (
        "model: {preset: gpt2}\nworkload: {kind: serving, concurrency: yes}",
        "workload.concurrency is no number",
    ),
    "true for a count of own cards": (
        CASE + "limits: {owned: [{accelerator: rtx-4090, count: true}]}",
        "limits.owned.count is no number",
    ),
    "no model": ("model:\nworkload:\n", "model is not usable"),
}
CONFIGS: dict[str, tuple[str | bytes, str]] = {
    "4.8 MB": (config(id2label={str(i): "x" * 40 for i in range(90_000)}), "too large"),
    "labels without end": ("[" + '"aa",' * 450_000 + "1]", "more than 200,000 values"),
    "lists without end": ("[" + "[]," * 800_000 + "[]]", "more than 200,000 values"),
    "deep": ('{"a":' * 100_000, "more than 40 levels"),
    "digits": (config().replace("4096", "9" * 2_000_000), "more than 30 digits"),
    "key twice": ('{"hidden_size": 1, "hidden_size": 2}', "the key 'hidden_size' twice"),
    "half a pair": ('{"a": "\\ud800"}', "half a surrogate pair"),
    "10^9 layers": (config(num_hidden_layers=10**9), "num_hidden_layers is out of bounds"),
    "10^20 experts": (config(model_type="mixtral", num_local_experts=10**20), "out of bounds"),
    "GGUF of 2^63 tensors": (gguf(tensors=2**63), "too many tensors"),
    "GGUF of 2^63 pairs": (gguf(pairs=2**63), "too much metadata"),
    "GGUF with a key of 2^63": (gguf(pairs=1, rest=struct.pack("<Q", 2**63)), "too long"),
    "GGUF with an array of 2^60": (
        gguf(pairs=1, rest=struct.pack("<Q1sIIQ", 1, b"a", 9, 4, 2**60)),
        "truncated",
    ),
    "safetensors of 2^63": (safetensors(b'{"a": 1}', 2**63), "truncated"),
    "safetensors of 20 MB": (safetensors(b'{"a":[' + b"{}," * 6_000_000 + b"{}]}"), "values"),
    "safetensors of tiny parts": (
        safetensors(b'{"a":[' + b'"aa",' * 990_000 + b"1]}"),
        "not described",
    ),
}
CONFIGS["safetensors of many parts"] = (
    safetensors(b'{"a":[' + b'"aa",' * 3_900_000 + b"1]}"),
    "more than 1,000,000 values",
)
TABLES: dict[str, tuple[str | bytes, str]] = {
    "10^6 columns": ("a," * 1_000_000 + "b\n1\n", "too many"),
    "a long header": ("a," * 400_000 + "b\n1\n", "too many columns"),
    "many short rows": ("a,b,c\n" + "1\n" * 1_000_000, "too many cells"),
    "a long cell": ("a,b\n" + "x" * 4_000_000 + ",1\n", "cannot be read"),
    "100 MB": (b"a,b\n" + b"x" * 100_000_000, "too large"),
}
TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
DEMANDS: dict[str, tuple[str | bytes, str]] = {
    "one line of 50 MB": (b"a," * 25_000_000, "a line of more than 1,000,000 characters"),
    "one row of many lines": (TRACE + '"a\n",' * 2_000_000, "a line of more than 1,000,000"),
    "rates without end": ("hour,requests_per_s\n" + "0,1\n" * 5_000_000, "more than 168 rates"),
    "a moment in 30 billion years": (TRACE + "0,1,1\n1e18,1,1\n", "more than 10 years"),
    "deep": ('{"a":' + "[" * 900_000, "missing or no number"),
}
OFFERS = "provider,instance_type,accelerator,accelerators,on_demand_per_hour\n"
OFFER_LISTS: dict[str, tuple[str | bytes, str]] = {
    "only a header": ("a," * 400_000, "it has no offers"),
    "wide rows": ("a\n" + "b," * 400_000, "more cells than the header"),
    "many offers": (OFFERS + "A,b,l40s,1,2\n" * 60_000, "60,000 offers"),
    "two million lines": (OFFERS + "\n" * 900_000, "it has no offers"),
}
OWN_FACTS: dict[str, tuple[str | bytes, str]] = {
    "many empty cards": ("accelerators:\n" + "".join(f"  c{i}: {{}}\n" for i in range(50_000)),
                         "50,000 accelerators"),
    "many discounts": ("discounts: {" + ",".join(f"p{i}: 1%" for i in range(50_000)) + "}",
                       "50,000 discounts"),
    "alias bomb": (bomb(), "the anchor &a0"),
}  # fmt: skip
PORTFOLIOS: dict[str, tuple[str | bytes, str]] = {
    "many workloads": ("workloads: [" + "{name: a}," * 4_000 + "]", "case is missing"),
    "alias bomb": (bomb(), "the anchor &a0"),
}
CELLS: dict[str, tuple[str | bytes, str]] = {
    "one line of 50 MB": (b"," * 50_000_000, "a line of more than 1,000,000 characters"),
    "many columns": ("id,note" + ",x" * 400_000 + "\n", "too many columns"),
    "no columns": ("", "no columns"),
}
GRIDS: dict[str, tuple[str | bytes, str]] = {
    "many combinations": (
        "workload: {" + ",".join(f"{f}: {{from: 1, to: 9e5, step: 1}}" for f in "ab") + "}",
        "too many combinations",
    ),
    "a long range": ("workload: {a: {from: 1e-300, to: 1e300, step: 1}}", "combinations"),
    "many fields": (
        "hardware: [{" + ",".join(f"a{i}: 1" for i in range(40_000)) + "}]",
        "varies too many fields",
    ),
}
FLAGS = {
    "a hidden size that leaves millions of layers": (
        "estimate --model 70B --hidden-size 8 --task finetune --accelerator h100-sxm",
        "83,173,167 layers",
    ),
    "the same of the largest count": (
        "recommend --model 100T --hidden-size 8 --task finetune",
        "layers",
    ),
    "one layer's width": (
        "recommend --model 100T --hidden-size 64 --intermediate-size 1 --task finetune",
        "layers",
    ),
    "count": ("estimate --model 7B --accelerator h100-sxm --count 1e18 --task finetune", "count"),
    "layers": ("recommend --model 7B --layers 1e9 --task finetune", "num_hidden_layers"),
    "sequence": ("recommend --model 7B --task finetune --sequence 1e17", "sequence_length"),
    "tokens": ("recommend --model 7B --task finetune --tokens 1e300", "tokens"),
    "endless options": (
        "recommend --model 7B --task finetune" + " --region x" * 50_000,
        "too many arguments",
    ),
    "many options": (
        "recommend --model 7B --task finetune" + " --region x" * 2_400,
        "limits.regions has too many entries",
    ),
    "many kinds of cards": (
        "recommend --model 7B --task finetune" + " --owned rtx-4090:1" * 201,
        "limits.owned has too many entries",
    ),
    "next to no tokens": ("recommend --model 7B --task finetune --tokens 1e-300", "tokens"),
    "tokens of all epochs": (
        "own --model 7B --task pretrain --accelerator h100-sxm --tokens 1e15 --epochs 1000",
        "in all epochs exceed",
    ),
    "next to no storage": (
        "estimate --model resnet-50 --task pretrain --accelerator h100-sxm --storage-rate 1e-300",
        "storage_bytes_per_s",
    ),
    "NUL in the path of a catalog": ("fits --accelerator rtx-4090 --catalog \0", "it is no path"),
    "a budget that buys millions of cards": (
        "own --model t5-base --task qlora --buy-budget 1e9",
        "budget_usd",
    ),
}
ANSWERED = "a rate that nothing keeps up with"
RATE = ["recommend", "--model", "gpt2", "--task", "serve", "--requests-per-second", "1e6/s"]


def read_case(path: Path) -> list[str]:
    return ["recommend", str(path)]


def read_config(path: Path) -> list[str]:
    return ["recommend", "--model", str(path), "--task", "finetune"]


def read_table(path: Path) -> list[str]:
    return ["validate", str(path)]


def read_demand(path: Path) -> list[str]:
    return ["recommend", "--model", "gpt2", "--task", "serve", "--demand", str(path)]


def read_facts(path: Path) -> list[str]:
    return ["prices", "show", "--catalog", str(path)]


def read_portfolio(path: Path) -> list[str]:
    return ["fleet", str(path)]


def read_sweep(path: Path) -> list[str]:
    return ["sweep", str(path), "--workers", "1", "--output", f"{path}.csv"]


@pytest.fixture(scope="module")
def observed(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, tuple[dict[str, Any], str]]:
    """Every input, what the command line made of it, and what it should say."""
    folder = tmp_path_factory.mktemp("bounds")
    pipe, device, inner = (folder / f"{name}.json" for name in ("pipe", "device", "folder"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    inner.mkdir()
    commands = {ANSWERED: RATE}
    sentences = {ANSWERED: ""}
    kinds: tuple[tuple[str, str, Callable[[Path], list[str]], dict[str, Any]], ...] = (
        ("case", "json", read_case, CASES),
        ("config", "json", read_config, CONFIGS),
        ("table", "json", read_table, TABLES),
        ("demand", "json", read_demand, DEMANDS),
        ("offers", "csv", read_facts, OFFER_LISTS),
        ("facts", "yaml", read_facts, OWN_FACTS),
        ("portfolio", "yaml", read_portfolio, PORTFOLIOS),
        ("cells", "csv", read_sweep, CELLS),
        ("grid", "json", read_sweep, GRIDS),
    )
    for kind, ending, command, inputs in kinds:
        for number, (name, (content, sentence)) in enumerate(inputs.items()):
            path = folder / f"{kind}{number}.{ending}"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            commands[f"{kind}: {name}"], sentences[f"{kind}: {name}"] = command(path), sentence
        for name, path, sentence in (
            ("named pipe", pipe, "named pipe|regular file"),
            ("device", device, "device|regular file"),
            ("folder", inner, "folder|FileNotFoundError"),
        ):
            commands[f"{kind}: {name}"], sentences[f"{kind}: {name}"] = command(path), sentence
    for name, path in (("named pipe", pipe), ("device", device), ("folder", inner)):
        commands[f"report: {name}"] = ["recommend", "--model", "7B", "--task", "finetune"]
        commands[f"report: {name}"] += ["--owned", str(path)]
        sentences[f"report: {name}"] = name
    for name, (line, sentence) in FLAGS.items():
        commands[f"flags: {name}"], sentences[f"flags: {name}"] = line.split(), sentence
    done = subprocess.run(
        [sys.executable, str(root / "tests" / "bounded.py")],
        input=json.dumps(list(commands.values())),
        capture_output=True,
        check=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=200,
    )
    results = map(json.loads, done.stdout.splitlines())
    return {name: (found, sentences[name]) for name, found in zip(commands, results, strict=True)}


def test_every_bad_input_is_told_within_a_second_and_100_mb(
    observed: Mapping[str, tuple[dict[str, Any], str]],
) -> None:
    wrong = []
    for name, (found, sentence) in observed.items():
        if name == ANSWERED:
            continue
        said = str(found["said"]).strip()
        if found["code"] != REFUSED:
            wrong.append(f"{name}: exit {found['code']}, said {said[:200]}")
        elif not any(part in said for part in sentence.split("|")):
            wrong.append(f"{name}: not told {sentence!r}, but {said[:200]}")
        elif len(said.removeprefix(PREFIX)) > MOST_CHARACTERS or "\n" in said:
            wrong.append(f"{name}: {len(said)} characters: {said}")
        elif found["cpu_s"] > MOST_CPU_S or found["grown_mb"] > MOST_MB:
            wrong.append(f"{name}: {found['cpu_s']:.2f} s and {found['grown_mb']:.0f} MB")
    assert not wrong, "\n".join(wrong)


def test_a_rate_that_nothing_keeps_up_with_takes_little_memory(
    observed: Mapping[str, tuple[dict[str, Any], str]],
) -> None:
    """It took 1 GB: every number of replicas had its own copy of an engine in all states."""
    found, _ = observed[ANSWERED]

    assert found["code"] == 0, found["said"]
    assert found["grown_mb"] < 200


def test_an_ordinary_case_of_900_kb_is_read_fast(tmp_path: Path, root: Path) -> None:
    """It took 8 s with PyYAML's own parser and builder."""
    labels = "".join(f"      {number}: label number {number}\n" for number in range(30_000))
    path = tmp_path / "case.yaml"
    path.write_text(
        "model:\n  config:\n    model_type: resnet\n    id2label:\n"
        + labels
        + "workload: {kind: pretraining}\n"
        + "#" * 10
    )
    code = (
        "import sys, time; from pathlib import Path;"
        "from advisor.nouns.case_files import read_case;"
        "start = time.process_time(); case = read_case(Path(sys.argv[1]));"
        "print(time.process_time() - start, len(case['model']['config']['id2label']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=60,
    )
    seconds, count = done.stdout.split()

    assert path.stat().st_size > 900_000
    assert int(count) == 30_000
    assert float(seconds) < MOST_CPU_S


def test_a_server_forgets_what_it_was_asked(root: Path) -> None:
    """A sample of 200 uploads and 2,000 questions: the shelf is full after some forty of them."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(root / "tests" / "server_memory.py"), "10", "70"],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=280,
    )
    start, uploaded, halfway, end = json.loads(done.stdout)

    assert uploaded - start < 60
    assert end - start < 150
    assert end - halfway < 8
