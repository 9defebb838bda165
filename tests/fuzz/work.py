"""Cases and command lines, and what is asked about those that are accepted."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from random import Random
from typing import Any, Final, cast

import yaml

from advisor import api, cli
from advisor.architecture.presets import list_presets
from advisor.arguments.parser import Parser, build_parser
from advisor.errors import InputError
from advisor.foundation import parsing
from advisor.foundation.noun import Noun
from advisor.nouns.case import Case
from advisor.nouns.case_files import case_text, parse_case
from advisor.nouns.layout import Offload, Recompute, Sharding
from advisor.nouns.precision import KV_CACHE_FORMATS, RECIPES, WEIGHT_FORMATS
from advisor.nouns.software.stacks import known_stacks
from advisor.nouns.training_choices import AttentionKernel, Optimizer
from advisor.nouns.workload import FineTuning, Pretraining, Serving
from advisor.terminal.console import new_console
from advisor.terminal.estimate import show_estimate
from advisor.terminal.ownership import show_ownership
from advisor.terminal.recommendation import show_recommendation
from tests.cases import CASES
from tests.fuzz.answers import BrokenAnswerError, check_estimate, check_json, check_words
from tests.fuzz.mutate import HOSTILE, mutated, torn

PRESETS: Final = list_presets()
CARDS: Final = [card.key for card in api.load_catalog().accelerators]
USUAL: Final = ["h100-sxm", "a100-sxm-80gb", "rtx-4090", "l40s", "mi300x", "h200-sxm", "t4"]
PROVIDERS: Final = sorted({offer.provider for offer in api.load_catalog().offers})
STACK: Final = {"input": {"features": 784}, "layers": [{"linear": 4096}, "relu", {"linear": 10}]}
SEEDS: Final[tuple[dict[str, Any], ...]] = (
    *CASES.values(),
    {
        "model": {"preset": "mixtral-8x7b"},
        "workload": {"kind": "pretraining", "tokens": 1e9, "precision": "fp8"},
        "hardware": {"accelerator": "h100-sxm", "count": 16},
        "layout": {"tensor": 2, "pipeline": 2, "expert": 4, "sharding": "zero1"},
    },
    {
        "model": {"parameters": 7.6e9, "shape": {"hidden_size": 3584, "num_hidden_layers": 28}},
        "workload": {"kind": "fine_tuning", "method": "qlora", "tokens": 1e7, "preference": "dpo"},
        "hardware": {"accelerator": "rtx-4090", "count": 2},
        "limits": {"price_kind": "spot", "providers": ["AWS"], "regions": ["us-east-1"]},
        "renting": {"interruptions_per_hour": 0.1, "storage_gb": 100.0},
    },
    {
        "model": {"preset": "resnet-50"},
        "workload": {"kind": "pretraining", "samples": 1e7, "image_size": 224, "epochs": 3},
        "hardware": {"accelerator": "l40s", "count": 4},
        "limits": {"price_kind": "spot", "deadline_hours": 1.5, "budget_usd": 7},
    },
    {
        "model": {"preset": "sd-1.5-unet"},
        "workload": {"kind": "serving", "concurrency": 4, "denoising_steps": 30, "guidance": True},
        "hardware": {"accelerator": "a100-sxm-80gb"},
        "limits": {"max_ttft_ms": 2000.0, "budget_usd": 3000.0},
    },
    {
        "model": {"preset": "llama-3.1-70b", "pruning": 0.3},
        "workload": {"kind": "serving", "concurrency": 64, "weight_format": "fp8"},
        "hardware": {"accelerator": "h100-sxm", "count": 8},
        "owning": {"months": 24, "place": "germany", "electricity_usd_per_kwh": 0.3},
        "renting": {"usd_per_hour": 20.0},
    },
    {
        "model": {"stack": STACK},
        "workload": {"kind": "pretraining", "samples": 1e6, "global_batch": 128},
        "limits": {"owned": [{"accelerator": "rtx-4090", "count": 2}], "usd_per_eur": 1.1},
        "objective": "best_value",
    },
    {
        "model": {"config": {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12}},
        "workload": {"kind": "fine_tuning", "method": "lora", "lora_rank": 8, "tokens": 1e6},
        "hardware": {"accelerator": "t4", "count": 1},
        "layout": {"micro_batch": 4, "recompute": "full", "offload": ["optimizer"]},
    },
)


def _log(low: float, high: float) -> Callable[[Random], float]:
    return lambda source: float(f"{low * (high / low) ** source.random():.3g}")


def _whole(low: int, high: int) -> Callable[[Random], int]:
    return lambda source: int(_log(low, high)(source))


def _one_of(*choices: Any) -> Callable[[Random], Any]:
    return lambda source: source.choice(choices)


WORKLOADS: Final[dict[str, type[Noun]]] = {
    "pretraining": Pretraining,
    "fine_tuning": FineTuning,
    "serving": Serving,
}
SENSIBLE: Final[dict[str, Callable[[Random], Any]]] = {
    "model.preset": _one_of(*PRESETS),
    "model.parameters": _log(1e5, 1e12),
    "model.shape.hidden_size": _whole(8, 65536),
    "model.pruning": _log(0.01, 0.9),
    "workload.tokens": _log(1, 1e14),
    "workload.samples": _log(1, 1e12),
    "workload.sequence_length": _whole(1, 1_000_000),
    "workload.document_length": _whole(1, 1_000_000),
    "workload.global_batch": _whole(1, 100_000),
    "workload.epochs": _log(0.01, 100),
    "workload.evaluation_tokens": _log(1, 1e12),
    "workload.image_size": _whole(1, 2048),
    "workload.input_tokens": _whole(1, 1_000_000),
    "workload.output_tokens": _whole(1, 1_000_000),
    "workload.concurrency": _whole(1, 100_000),
    "workload.precision": _one_of(*RECIPES),
    "workload.optimizer": _one_of(*(item.value for item in Optimizer)),
    "workload.attention": _one_of(*(item.value for item in AttentionKernel)),
    "workload.software": _one_of(*known_stacks()),
    "workload.weight_format": _one_of(*WEIGHT_FORMATS),
    "workload.kv_cache_format": _one_of(*KV_CACHE_FORMATS),
    "workload.method": _one_of("full", "lora", "qlora"),
    "hardware.accelerator": _one_of(*CARDS, *USUAL * 8),
    "hardware.count": _whole(1, 16384),
    "layout.data": _whole(1, 64),
    "layout.tensor": _one_of(1, 2, 4, 8, 16),
    "layout.pipeline": _one_of(1, 2, 3, 4, 8),
    "layout.expert": _one_of(1, 2, 4, 8),
    "layout.micro_batch": _whole(1, 512),
    "layout.sharding": _one_of(*(item.value for item in Sharding)),
    "layout.recompute": _one_of(*(item.value for item in Recompute)),
    "layout.offload": _one_of(*([item.value] for item in Offload)),
    "limits.deadline_hours": _log(0.01, 1e5),
    "limits.budget_usd": _log(0.01, 1e9),
    "limits.max_tpot_ms": _log(0.1, 1e4),
    "limits.max_ttft_ms": _log(1, 1e5),
    "limits.accelerators": lambda source: source.sample(CARDS, 2),
    "limits.providers": lambda source: source.sample(PROVIDERS, 2),
    "limits.max_accelerators": _whole(1, 16384),
    "limits.price_kind": _one_of("spot", "on_demand"),
    "owning.budget_usd": _log(1, 1e8),
    "owning.months": _whole(12, 60),
    "owning.purchase_usd": _log(1, 1e7),
    "owning.resale_share": _log(0.001, 1),
    "renting.usd_per_hour": _log(0.001, 1e5),
    "renting.interruptions_per_hour": _log(1e-4, 10),
    "objective": _one_of("cheapest", "fastest", "best_value"),
}
"""Values that a field may have, from end to end of what is allowed."""


ONLY: Final = {
    "limits.deadline_hours": False,
    "limits.max_tpot_ms": True,
    "limits.max_ttft_ms": True,
}
"""Limits that serving has (True) or training (False) alone."""


def _applies(field: str, case: dict[str, Any]) -> bool:
    """Tell whether a case may have a field, most often: a few that it may not are refused."""
    section, _, name = field.partition(".")
    kind = str(case["workload"].get("kind", "serving"))
    if section == "workload":
        return name in WORKLOADS[kind].model_fields
    if section == "model":
        return name == "pruning" or name.partition(".")[0] in list(case["model"])
    if section == "layout":
        return "layout" in case and name != "data"
    return ONLY.get(field, kind == "serving") == (kind == "serving")


def make_case(source: Random) -> Any:
    """Return a case with values from end to end, and sometimes values that no field expects."""
    case = mutated(source.choice(SEEDS), source, 0)
    for _ in range(source.randint(0, 5)):
        field = source.choice([field for field in SENSIBLE if _applies(field, case)])
        *sections, name = field.split(".")
        place = case
        for section in sections:
            place = place.setdefault(section, {})
        if isinstance(place, dict):
            place[name] = SENSIBLE[field](source)
    return mutated(case, source, source.choice((0, 0, 0, 1, 1, 2, 4)))


def run_case(content: Any) -> None:
    """Check a case; answer a share of those that are accepted."""
    ask(api.load_case(content))


def make_case_text(source: Random) -> bytes:
    """Return the text of a case, torn."""
    case = source.choice(SEEDS)
    if source.random() < 0.3:
        text = json.dumps(case, indent=source.choice((None, 1)))
    else:
        text = yaml.safe_dump(case, default_flow_style=source.choice((None, True, False)))
    return torn(text, source, source.randint(1, 4)).encode("utf-8", "surrogatepass")


def run_case_text(content: bytes) -> None:
    """Read a case as the command line reads one from standard input."""
    case = api.load_case(parse_case(case_text(content, name="the case")))
    if len(content) % 4 == 0:
        ask(case)


def ask(case: Case) -> None:
    """Ask about a case what its own content chooses, and check the answer."""
    choice = Random(ascii(case)).random()
    console = new_console(io.StringIO(), width=100)
    if case.hardware is not None and choice < 0.8:
        estimate = api.estimate(case, curves=choice < 0.2)
        check_json(estimate.to_json())
        check_estimate(estimate)
        if choice < 0.3:
            show_estimate(console, estimate, everything=choice < 0.15)
    elif choice < 0.35 or case.hardware is not None:
        owned = api.own(case)
        check_json(owned.to_json())
        show_ownership(console, owned, everything=True)
    else:
        found = api.recommend(case)
        check_json(found.to_json())
        for ranking in found.rankings:
            for plan in ranking.plans:
                check_estimate(plan.estimate)
        show_recommendation(console, found, top=3, everything=choice < 0.6)
    file = console.file
    if isinstance(file, io.StringIO):
        for line in file.getvalue().splitlines():
            check_words(line)


def _actions() -> dict[str, list[str]]:
    """Options of each command, from the parser itself."""
    [commands] = [item for item in build_parser("0")._actions if item.choices]
    return {
        name: [option for item in sub.filled()._actions for option in item.option_strings]
        for name, sub in cast(dict[str, Parser], commands.choices).items()
    }


OPTIONS: Final = _actions()
SAFE: Final = ("recommend", "estimate", "export", "own", "fits", "compare", "validate", "presets")
"""Commands that start no server, measure nothing and write nothing unless told where."""
WORDS: Final = (
    *("7B", "50M", "8", "24h", "1d 12h", "$1.5k", "500", "32K", "rtx-4090:2", "yes", "no", "bf16"),
    *("llama-3.1-8b", "gpt2", "org/name", "resnet-50", "h100-sxm", "l40s", "fp8", "q4_k_m", "dpo"),
    *("AWS", "us-east-1", "fastest", "spot", "zero3", "full", "lora", "qlora", "serve", "pretrain"),
    *("-1", "0", "1e400", "1e15", "9" * 70, "0x10", "٣", "²", "1,5", "1_0", "nan", "inf", "-"),
    *("case.yaml", "x.json", "x.gguf", "/dev/null", "/", ".", "a\x00b", "--", "--json", "="),
    *("vllm", "html", "csv", "torchrun", "rtx-4090:0", ":1", "T" * 99_999, "germany", "\x1b[31m"),
)


def make_command(source: Random) -> list[str]:
    """Return a command line; some ask a whole question."""
    command = source.choice(SAFE)
    line = [command]
    if source.random() < 0.7:
        line += {
            "recommend": ["--model", "gpt2", "--task", "lora", "--tokens", "1M"],
            "estimate": ["--model", "gpt2", "--task", "serve", "--accelerator", "l40s"],
            "export": ["--model", "gpt2", "--task", "serve", "--to", "json"],
            "own": ["--model", "gpt2", "--task", "serve", "--accelerator", "l40s"],
            "fits": ["--accelerator", "rtx-4090"],
            "compare": ["h100-sxm", "l40s"],
            "validate": ["missing.csv"],
        }.get(command, [])
    for _ in range(source.randint(0, 4)):
        if source.random() < 0.8:
            line.append(source.choice(OPTIONS[command]))
        if source.random() < 0.8:
            texts = [item for item in HOSTILE if isinstance(item, str)]
            line.append(source.choice(source.choice((WORDS, WORDS, texts))))
    return line


def run_command(line: list[str]) -> None:
    """Run a command line in this process, and judge its end."""
    if "--output" in line or "-h" in line or "--help" in line:
        return
    errors = io.StringIO()
    stdin = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8")
    try:
        with contextlib.redirect_stderr(errors):
            code = cli.main(line)
    finally:
        sys.stdin = stdin
    told = errors.getvalue()
    if code not in (0, 2) or "a defect" in told:
        raise BrokenAnswerError(f"a command ends with {code}", told[:300])
    if code == 2 and not told.strip():
        raise BrokenAnswerError("a command ends with 2 and no word", "")
    sentence = told.strip().rpartition("\n")[2]
    if len(sentence) > 700:
        raise BrokenAnswerError("a command's message has over 700 characters", sentence[:200])
    if any(ord(letter) < 32 and letter != "\n" for letter in told):
        raise BrokenAnswerError("a command's message has control characters", ascii(told[:300]))
    if code == 2:
        raise InputError("refused", value=line[:3], allowed="other lines", remedy="None.")


DIGITS: Final = "0123456789.,_eE+-kKMBTGbn$ hdwminxX:/%٣²\x00\n"
READERS: Final = (
    parsing.parse_amount,
    parsing.parse_count,
    parsing.parse_length,
    parsing.parse_duration,
    parsing.parse_money,
    parsing.parse_owned,
)


def make_amount(source: Random) -> tuple[int, str]:
    """Return a reader's number and a text for it."""
    known = (*WORDS, *(item for item in HOSTILE if isinstance(item, str)))
    text = source.choice(known) if source.random() < 0.3 else ""
    text += "".join(source.choice(DIGITS) for _ in range(source.randint(0, 9)))
    return source.randrange(len(READERS)), text


def run_amount(content: tuple[int, str]) -> None:
    """Read an amount: it is positive and finite, or refused."""
    reader, text = content
    value = READERS[reader](text, field="amount")
    number = value[1] if isinstance(value, tuple) else value
    if not 0 < number < float("inf"):
        raise BrokenAnswerError("an amount is not positive and finite", repr(number))
