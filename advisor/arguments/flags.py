"""Options that set limits, hardware and layout of a case, for parser, help and documents alike.

Nothing here imports the engine: ``gpu-advisor --help`` must answer at once. Names of recipes,
optimizers and formats are therefore plain words in the help; the case itself checks them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from advisor.foundation.parsing import (
    parse_amount,
    parse_count,
    parse_duration,
    parse_length,
    parse_money,
    parse_owned,
)
from advisor.foundation.units import HOUR_S

PRETRAINING, FINE_TUNING, SERVING = "pretraining", "fine_tuning", "serving"
TASKS: Final[dict[str, dict[str, object]]] = {
    "pretrain": {"kind": PRETRAINING},
    "finetune": {"kind": FINE_TUNING, "method": "full"},
    "lora": {"kind": FINE_TUNING, "method": "lora"},
    "qlora": {"kind": FINE_TUNING, "method": "qlora"},
    "serve": {"kind": SERVING},
}
TRAINING: Final = frozenset({PRETRAINING, FINE_TUNING})
ONLY_SERVING: Final = frozenset({SERVING})
ALL: Final = TRAINING | ONLY_SERVING

Reader = Callable[[str, str], object]


def read_text(text: str, option: str) -> object:
    """Take a text as it is."""
    return text


def read_word(text: str, option: str) -> object:
    """Read a name: those in the case have underscores, and people type dashes too."""
    return text.replace("-", "_")


def read_number(text: str, option: str) -> object:
    """Read a positive number."""
    return parse_amount(text, field=option)


def read_count(text: str, option: str) -> object:
    """Read a positive whole number."""
    return parse_count(text, field=option)


def read_length(text: str, option: str) -> object:
    """Read a length in tokens: 32K is 32,768."""
    return parse_length(text, field=option)


def _hours(text: str, option: str) -> object:
    return parse_duration(text, field=option) / HOUR_S


def read_usd(text: str, option: str) -> object:
    """Read an amount of money."""
    return parse_money(text, field=option)


def _owned(text: str, option: str) -> object:
    if text.endswith(".json"):
        return {"report": text}  # read by the command, once the engine is there
    key, count = parse_owned(text, field=option)
    return {"accelerator": key, "count": count}


@dataclass(frozen=True, slots=True)
class Flag:
    """One option that sets one field of the case."""

    option: str
    field: str
    """Dotted path in the case."""
    metavar: str
    help: str
    read: Reader
    kinds: frozenset[str] = ALL
    """Kinds of work that have this field."""
    repeat: bool = False
    """May be given several times; the field is a list."""

    @property
    def dest(self) -> str:
        """Attribute of the parsed arguments that holds the text."""
        return self.option.removeprefix("--").replace("-", "_")


LIMITS: Final = (
    Flag(
        "--deadline",
        "limits.deadline_hours",
        "TIME",
        "training ends within: 24h, 30d",
        _hours,
        TRAINING,
    ),
    Flag(
        "--budget",
        "limits.budget_usd",
        "USD",
        "for the run, or for a month of serving: 500, $1.5k",
        read_usd,
    ),
    Flag(
        "--max-ttft-ms",
        "limits.max_ttft_ms",
        "MS",
        "time to the first token",
        read_number,
        ONLY_SERVING,
    ),
    Flag(
        "--max-tpot-ms",
        "limits.max_tpot_ms",
        "MS",
        "time per output token",
        read_number,
        ONLY_SERVING,
    ),
    Flag(
        "--provider",
        "limits.providers",
        "NAME",
        "allow only this provider; repeatable",
        read_text,
        repeat=True,
    ),
    Flag(
        "--region",
        "limits.regions",
        "NAME",
        "allow only this region; repeatable",
        read_text,
        repeat=True,
    ),
    Flag(
        "--usd-per-eur",
        "limits.usd_per_eur",
        "RATE",
        "exchange rate for prices in euro; the catalog's dated one unless told",
        read_number,
    ),
)
OWNED: Final = Flag(
    "--owned",
    "limits.owned",
    "KEY:N",
    "cards that you have, and no others: rtx-4090:2, or the report of a probe: probe.json; "
    "repeatable",
    _owned,
    repeat=True,
)
AIMS: Final = (
    OWNED,
    Flag(
        "--max-accelerators", "limits.max_accelerators", "N", "at most this many cards", read_count
    ),
    Flag(
        "--objective", "objective", "WHAT", "cheapest (default), fastest or best-value", read_word
    ),
)
SEARCH: Final = (
    Flag(
        "--accelerator",
        "limits.accelerators",
        "KEY",
        "allow only this accelerator; repeatable",
        read_text,
        repeat=True,
    ),
    *AIMS,
)
HARDWARE: Final = (
    Flag("--accelerator", "hardware.accelerator", "KEY", "e.g. h100-sxm", read_text),
    Flag("--count", "hardware.count", "N", "how many; 1 unless told otherwise", read_count),
)
LAYOUT: Final = (
    Flag("--data", "layout.data", "N", "data-parallel degree; what is left over", read_count),
    Flag("--tensor", "layout.tensor", "N", "tensor-parallel degree", read_count),
    Flag("--pipeline", "layout.pipeline", "N", "pipeline stages", read_count),
    Flag("--expert", "layout.expert", "N", "expert-parallel degree", read_count),
    Flag("--context", "layout.context", "N", "context-parallel degree", read_count),
    Flag("--sharding", "layout.sharding", "HOW", "ddp, zero1, zero2 or zero3", read_word),
    Flag(
        "--micro-batch",
        "layout.micro_batch",
        "N",
        "sequences or images per rank and step",
        read_count,
    ),
    Flag("--recompute", "layout.recompute", "HOW", "none, selective or full", read_word),
    Flag("--schedule", "layout.schedule", "HOW", "1f1b, 1f1b_overlapped or dualpipe", read_word),
    Flag(
        "--offload",
        "layout.offload",
        "WHAT",
        "to the host: optimizer, parameters or activations; repeatable",
        read_word,
        repeat=True,
    ),
)
