"""Options that set the fields of a case, in one table for parser, help and documents.

Nothing here imports the engine: ``gpu-advisor --help`` must answer at once. Names of recipes,
optimizers and formats are therefore plain words in the help; the case itself checks them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from advisor.parsing import parse_amount, parse_count, parse_duration, parse_money, parse_owned
from advisor.units import HOUR_S

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


def _word(text: str, option: str) -> object:
    """Names in the case have underscores; people type dashes too."""
    return text.replace("-", "_")


def _amount(text: str, option: str) -> object:
    return parse_amount(text, field=option)


def read_count(text: str, option: str) -> object:
    """Read a positive whole number."""
    return parse_count(text, field=option)


def _hours(text: str, option: str) -> object:
    return parse_duration(text, field=option) / HOUR_S


def read_usd(text: str, option: str) -> object:
    """Read an amount of money."""
    return parse_money(text, field=option)


def _yes(text: str, option: str) -> object:
    """The case itself refuses other words."""
    return {"yes": True, "no": False}.get(text.lower(), text)


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


WORK: Final = (
    Flag(
        "--pruning",
        "model.pruning",
        "SHARE",
        "heads and inner widths that structured pruning removed: 0.3",
        _amount,
    ),
    Flag("--tokens", "workload.tokens", "N", "tokens in the whole run: 50M", _amount, TRAINING),
    Flag(
        "--sequence", "workload.sequence_length", "N", "tokens per sequence", read_count, TRAINING
    ),
    Flag(
        "--global-batch",
        "workload.global_batch",
        "N",
        "sequences or images per optimizer step",
        read_count,
        TRAINING,
    ),
    Flag(
        "--samples",
        "workload.samples",
        "N",
        "images or sequences in the whole run, instead of tokens: 1.2M",
        _amount,
        TRAINING,
    ),
    Flag("--image-size", "workload.image_size", "PX", "side of a square image", read_count),
    Flag("--image-channels", "workload.image_channels", "N", "channels of an image", read_count),
    Flag(
        "--decoder-sequence",
        "workload.decoder_sequence_length",
        "N",
        "tokens that the decoder of an encoder-decoder pair writes",
        read_count,
    ),
    Flag(
        "--denoising-steps",
        "workload.denoising_steps",
        "N",
        "diffusion: passes for one image (50)",
        read_count,
        ONLY_SERVING,
    ),
    Flag(
        "--guidance",
        "workload.guidance",
        "yes|no",
        "diffusion: classifier-free guidance, which doubles every pass",
        _yes,
        ONLY_SERVING,
    ),
    Flag(
        "--precision",
        "workload.precision",
        "RECIPE",
        "fp32, fp16_amp, bf16_amp, bf16_mixed, fp16_mixed, bf16_pure, fp8, mxfp8 or nvfp4",
        _word,
        TRAINING,
    ),
    Flag(
        "--optimizer",
        "workload.optimizer",
        "NAME",
        "adamw, adamw_8bit, paged_adamw_8bit, sgd_momentum, sgd, lion, adafactor or muon",
        _word,
        TRAINING,
    ),
    Flag(
        "--software",
        "workload.software",
        "STACK",
        "huggingface, compiled, megatron or liger",
        _word,
        TRAINING,
    ),
    Flag("--attention", "workload.attention", "KERNEL", "flash or eager", _word, TRAINING),
    Flag(
        "--cross-entropy",
        "workload.cross_entropy",
        "HOW",
        "plain, fused, chunked or linear; what the software does",
        _word,
        TRAINING,
    ),
    Flag(
        "--reduce-format",
        "workload.reduce_format",
        "FORMAT",
        "gradients are summed in fp32, bf16 or fp16; what the software does",
        _word,
        TRAINING,
    ),
    Flag(
        "--preference",
        "workload.preference",
        "HOW",
        "pairs of answers: dpo (with a reference model) or orpo (without)",
        _word,
        frozenset({FINE_TUNING}),
    ),
    Flag(
        "--lora-rank",
        "workload.lora_rank",
        "N",
        "rank of the adapters",
        read_count,
        frozenset({FINE_TUNING}),
    ),
    Flag(
        "--input-tokens",
        "workload.input_tokens",
        "N",
        "prompt tokens per request",
        read_count,
        ONLY_SERVING,
    ),
    Flag(
        "--output-tokens",
        "workload.output_tokens",
        "N",
        "generated tokens per request",
        read_count,
        ONLY_SERVING,
    ),
    Flag(
        "--concurrency",
        "workload.concurrency",
        "N",
        "requests in flight at the same time; of images, the batch",
        read_count,
        ONLY_SERVING,
    ),
    Flag(
        "--weights",
        "workload.weight_format",
        "FORMAT",
        "fp32, bf16, fp16, fp8, int8, w4a16, nf4, mxfp4, nvfp4, q8_0, q6_k, q5_k_m, q5_k_s, "
        "q5_1, q5_0, q4_k_m, q4_k_s, q4_1, q4_0, iq4_nl, iq4_xs, q3_k_l, q3_k_m, iq3_m, "
        "iq3_s, q3_k_s, iq3_xs, iq3_xxs, q2_k, q2_k_s, iq2_m, iq2_s, iq2_xs, iq2_xxs, iq1_m "
        "or iq1_s",
        _word,
        ONLY_SERVING,
    ),
    Flag(
        "--kv-cache",
        "workload.kv_cache_format",
        "FORMAT",
        "fp32, bf16, fp16 or fp8",
        _word,
        ONLY_SERVING,
    ),
)
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
        _amount,
        ONLY_SERVING,
    ),
    Flag(
        "--max-tpot-ms", "limits.max_tpot_ms", "MS", "time per output token", _amount, ONLY_SERVING
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
        _amount,
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
    Flag(
        "--owned",
        "limits.owned",
        "KEY:N",
        "cards that you have; only these are searched: rtx-4090:2, or the report of a probe: "
        "probe.json; repeatable",
        _owned,
        repeat=True,
    ),
    Flag(
        "--max-accelerators", "limits.max_accelerators", "N", "at most this many cards", read_count
    ),
    Flag("--objective", "objective", "WHAT", "cheapest (default), fastest or best-value", _word),
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
    Flag("--sharding", "layout.sharding", "HOW", "ddp, zero1, zero2 or zero3", _word),
    Flag(
        "--micro-batch",
        "layout.micro_batch",
        "N",
        "sequences or images per rank and step",
        read_count,
    ),
    Flag("--recompute", "layout.recompute", "HOW", "none, selective or full", _word),
    Flag(
        "--offload",
        "layout.offload",
        "WHAT",
        "to the host: optimizer, parameters or activations; repeatable",
        _word,
        repeat=True,
    ),
)
