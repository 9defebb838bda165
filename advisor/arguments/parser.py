"""What the command line understands: commands, options, help.

A command's options are added when it is chosen, so that ``gpu-advisor --help`` answers at once:
those of a case come from its nouns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from advisor.errors import AdvisorError, InputError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

USAGE: Final = {
    "recommend": "gpu-advisor recommend [CASE] [--model MODEL --task TASK] [options]",
    "estimate": "gpu-advisor estimate [CASE] [--model MODEL --task TASK] [options]",
    "export": "gpu-advisor export [CASE] --to FORMAT [--output FILE] [options]",
    "learn": "gpu-advisor learn [CASE] [--model MODEL --task TASK] [--topic NAME] [options]",
    "own": "gpu-advisor own [CASE] [--model MODEL --task TASK] [options]",
}
EXAMPLES: Final = {
    "": """\
examples:
  gpu-advisor recommend --model llama-3.1-8b --task lora --tokens 50M --deadline 24h
  gpu-advisor recommend case.yaml --json
  gpu-advisor estimate --model 7B --task pretrain --tokens 1B --accelerator h100-sxm --count 8
  gpu-advisor compare h100-sxm rtx-4090
  gpu-advisor prices show
  gpu-advisor web
""",
    "recommend": """\
examples:
  gpu-advisor recommend --model llama-3.1-8b --task lora --tokens 50M --deadline 24h
  gpu-advisor recommend --model llama-3.1-70b --task serve --concurrency 32 --max-tpot-ms 50
  gpu-advisor recommend case.yaml --budget 500
  cat case.yaml | gpu-advisor recommend - --json
""",
    "estimate": """\
examples:
  gpu-advisor estimate --model 7B --task pretrain --accelerator h100-sxm --count 8
  gpu-advisor estimate --model llama-3.1-8b --task serve --accelerator l40s --explain
""",
    "export": """\
examples:
  gpu-advisor export case.yaml --to html --output report.html
  gpu-advisor export --model llama-3.1-8b --task lora --tokens 50M --to torchrun
  gpu-advisor export --model llama-3.1-8b --task serve --accelerator l40s --to kubernetes
""",
    "own": """\
examples:
  gpu-advisor own --model llama-3.1-8b --task qlora --accelerator rtx-4090 --hours-per-month 200
  gpu-advisor own case.yaml --accelerator h100-sxm --count 8 --place deu --months 48
  gpu-advisor own --model llama-3.1-8b --task serve --buy-budget 20000 --slots 4
""",
    "fleet": """\
examples:
  gpu-advisor fleet portfolio.yaml
  gpu-advisor fleet --ask home --budget 2500
  gpu-advisor fleet --ask lab --people 12 --budget 250k
  gpu-advisor fleet --machines
""",
    "prices": """\
examples:
  gpu-advisor prices show
  gpu-advisor prices list h100-sxm h200-sxm --count 8 --sort per-gb
  gpu-advisor prices list --provider RunPod --csv offers.csv
  gpu-advisor prices show --usd-per-eur 1.12
  gpu-advisor prices refresh
""",
    "sweep": """\
examples:
  gpu-advisor sweep grid.yaml --output results.parquet
  gpu-advisor sweep cases.csv --output results.csv --workers 4
  gpu-advisor sweep grid.yaml --output results.parquet --on dask://scheduler:8786
""",
    "probe": """\
examples:
  gpu-advisor probe --output probe.json
  gpu-advisor recommend --model llama-3.1-8b --task lora --owned probe.json
""",
    "fits": """\
examples:
  gpu-advisor fits --accelerator rtx-4090
  gpu-advisor fits --accelerator h100-sxm --count 8 --context 32K --all
""",
}


MAX_ARGUMENTS: Final = 5_000
"""Parsing takes the square of their number."""


def bounded(argv: Sequence[str] | None) -> Sequence[str]:
    """Return the arguments, the process's own if None is given.

    Raises
    ------
    InputError
        If there are so many that parsing them would take long.
    """
    given = sys.argv[1:] if argv is None else argv
    if len(given) > MAX_ARGUMENTS:
        raise InputError(
            "there are too many arguments",
            value=f"{len(given):,}",
            allowed=f"up to {MAX_ARGUMENTS:,}",
            remedy="Put lists into a case file.",
        )
    return given


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one sentence, without the whole usage; adds its options when used."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None

    def filled(self) -> Parser:
        """Return this parser with all its options."""
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        return self

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Parse, once the options are there."""
        return super(Parser, self.filled()).parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the mistake and end with exit code 2."""
        # Bounded and without control characters, as every mistake is told.
        self.exit(2, f"gpu-advisor: error: {AdvisorError(message)}; see '{self.prog} --help'\n")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write help or a mistake; argparse itself keeps silent where help finds no room."""
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


def build_parser(version: str) -> argparse.ArgumentParser:
    """Return the parser of ``gpu-advisor`` with all its commands."""
    parser = Parser(
        prog="gpu-advisor",
        description="Which accelerators to train, fine-tune or serve a model on: how many,\n"
        "arranged how, how long, at what cost, and how sure we are.",
        epilog=EXAMPLES[""],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpu-advisor {version}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    for name, (summary, fill) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            usage=USAGE.get(name),
            description=f"{summary[:1].upper()}{summary[1:]}.",
            epilog=EXAMPLES.get(name),
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.fill = fill
    return parser


def _add_recommend(parser: argparse.ArgumentParser) -> None:
    _add_case(parser, "recommend")
    _add_catalog(parser)
    parser.add_argument(
        "--top", metavar="N", default="1", help="plans shown for each objective (default 1)"
    )
    parser.add_argument(
        "--all",
        "--explain",
        action="store_true",
        help="show every trade-off, rejected accelerator and source, not one screen",
    )
    _add_json(parser)


def _add_estimate(parser: argparse.ArgumentParser) -> None:
    _add_case(parser, "estimate")
    _add_catalog(parser)
    parser.add_argument(
        "--explain", action="store_true", help="show every term with formula, values and source"
    )
    _add_json(parser)


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_case(parser, "export")
    _add_catalog(parser)
    parser.add_argument(
        "--to",
        metavar="FORMAT",
        required=True,
        help="to train: torchrun, accelerate, deepspeed, unsloth, axolotl, llama-factory, "
        "torchtune, torchtitan, gaudi or maxtext; to serve: vllm, sglang, tensorrt-llm, "
        "llama-cpp, ollama, tei or infinity; on a cluster: slurm, kubernetes, compose, skypilot or "
        "dstack; to set a machine up: checklist or check-script; or a report: markdown, html (a "
        "browser prints it as PDF), json or csv",
    )
    parser.add_argument("--output", metavar="FILE", help="write here instead of to the terminal")
    parser.add_argument(
        "--checkpoint", metavar="ID", help="hub id or folder of weights to load instead"
    )
    parser.add_argument(
        "--log-to",
        metavar="TRACKER",
        choices=("mlflow",),
        help="training reports to this tracker of experiments: mlflow (none)",
    )
    parser.add_argument(
        "--platform",
        metavar="NAME",
        help="for checklist and check-script: linux, windows (WSL), cloud, slurm, kubernetes, "
        "jetson, macos or tpu; the usual one for the card",
    )
    _add_json(parser)


def _add_own(parser: argparse.ArgumentParser) -> None:
    _add_case(parser, "own")
    _add_catalog(parser)
    parser.add_argument(
        "--explain", action="store_true", help="show every term and every input with its source"
    )
    _add_json(parser)


def _add_learn(parser: argparse.ArgumentParser) -> None:
    _add_case(parser, "learn")
    _add_catalog(parser)
    parser.add_argument(
        "--topic", metavar="NAME", help="one question: memory, processor, ... (all, one line each)"
    )
    _add_json(parser)


def _add_sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="GRID|TABLE",
        help="a case whose fields may be lists or ranges (.yaml, .json), or cases, one a row, with "
        "fields as columns (.csv, .parquet)",
    )
    _add_catalog(parser)
    parser.add_argument(
        "--output",
        metavar="FILE",
        required=True,
        help="write the rows here: .parquet or .csv. After a kill, the same command goes on",
    )
    parser.add_argument("--workers", metavar="N", help="processes here (one for each core)")
    parser.add_argument(
        "--on",
        metavar="ADDRESS",
        help="a Dask scheduler that does the work: dask://host:8786 "
        "(pip install 'gpu-advisor[dask]')",
    )
    _add_json(parser)


def _add_fleet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "portfolio",
        nargs="?",
        metavar="PORTFOLIO",
        help="workloads, owned machines and limits, YAML or JSON; - reads it from standard input",
    )
    _add_catalog(parser)
    asked = parser.add_argument_group("a common question, without a file")
    asked.add_argument(
        "--ask",
        metavar="QUESTION",
        help="home (fine-tune one model and run another), lab (a group of people) or chatbot (one "
        "server or the cloud)",
    )
    asked.add_argument("--budget", metavar="USD", help="for all machines: 2500, $250k")
    asked.add_argument("--people", metavar="N", help="in the lab, or chatting at the same time")
    asked.add_argument("--tune", metavar="PRESET", help="model that is fine-tuned (llama-3.1-8b)")
    asked.add_argument("--serve", metavar="PRESET", help="model that is served")
    parser.add_argument(
        "--machines", action="store_true", help="list the machines that can be bought, with prices"
    )
    parser.add_argument(
        "--regret",
        action="store_true",
        help="also compare plans under other prices, demands, models and generations",
    )
    parser.add_argument(
        "--queue",
        action="store_true",
        help="also simulate how long runs wait for cards (pip install 'gpu-advisor[fleet]')",
    )
    parser.add_argument(
        "--all", "--explain", action="store_true", help="show every period, charge and limit"
    )
    _add_json(parser)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("accelerators", nargs="+", metavar="KEY", help="e.g. h100-sxm rtx-4090")
    _add_catalog(parser)
    parser.add_argument("--differences", action="store_true", help="only rows that differ")
    parser.add_argument("--all", action="store_true", help="every row, though they fill a screen")
    _add_json(parser)


def _add_validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="FILE.csv", help="columns as in docs/accuracy.md")
    parser.add_argument(
        "--configs", metavar="DIR", help="folder of model configurations named org__name.json"
    )
    _add_json(parser)


def _add_web(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser, discounts=False)
    parser.add_argument("--port", metavar="N", default="8501", help="port to listen on (8501)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")


def _add_serve_api(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser, discounts=False)
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="(127.0.0.1)")
    parser.add_argument("--port", metavar="N", default="8600", help="port to listen on (8600)")
    parser.add_argument("--workers", metavar="N", default="1", help="processes (1)")


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser, discounts=False)


def _add_presets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--takes", choices=("token", "image", "sample"), help="only those with this kind of input"
    )
    _add_json(parser)


def _add_software(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a tool (trl, vllm) or a term (cuda, onnx)"
    )
    parser.add_argument("--accelerator", metavar="KEY", help="what runs on this card: h100-sxm")
    _add_json(parser)


def _add_fits(parser: argparse.ArgumentParser) -> None:
    _add_groups(parser, "fits")
    _add_catalog(parser)
    parser.add_argument(
        "--context",
        metavar="N",
        default="8192",
        help="tokens per request or sequence: 32K is 32,768 (8192)",
    )
    parser.add_argument(
        "--concurrency", metavar="N", default="8", help="requests at once, beside one alone (8)"
    )
    parser.add_argument("--all", action="store_true", help="every preset, not the short list alone")
    _add_json(parser)


def _add_probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode", metavar="MODE", default="short", help="short (15 s), normal (2 min) or thorough"
    )
    parser.add_argument(
        "--library", metavar="NAME", default="auto", help="auto (default), numpy or torch"
    )
    parser.add_argument("--time-limit", metavar="TIME", help="another limit: 30s, 5min")
    parser.add_argument(
        "--memory-limit", metavar="BYTES", help="take at most this: 4G; never half of what is free"
    )
    parser.add_argument(
        "--check", action="store_true", help="then train small transformers beside predictions"
    )
    parser.add_argument("--output", metavar="FILE", help="write the report here: probe.json")
    parser.add_argument("--report", metavar="FILE", help="show this report and measure nothing")
    _add_json(parser)


def _add_prices(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="offers of each provider, with age and count")
    show.add_argument("--usd-per-eur", metavar="RATE", help="exchange rate for prices in euro")
    _add_catalog(show)
    _add_json(show)
    offers = actions.add_parser("list", help="offers by card: price, memory, region, network, age")
    offers.add_argument("accelerators", nargs="*", metavar="KEY", help="e.g. h100-sxm rtx-4090")
    offers.add_argument("--count", metavar="N", help="accelerators in one instance")
    for name in ("provider", "region"):
        offers.add_argument(
            f"--{name}", action="append", default=[], metavar="NAME", help="repeat for several"
        )
    offers.add_argument("--spot", action="store_true", help="spot prices")
    offers.add_argument(
        "--sort",
        metavar="BY",
        default="price",
        help="price (of one card), memory, per-gb, network, age or provider",
    )
    offers.add_argument("--all", action="store_true", help="print every offer")
    offers.add_argument("--csv", metavar="FILE", help="write every offer here")
    _add_catalog(offers)
    _add_json(offers)
    refresh = actions.add_parser(
        "refresh",
        help="fetch live prices through gpuhunt (pip install 'gpu-advisor[prices]')",
        description="Fetch live prices through gpuhunt into your cache folder. Whatever goes "
        "wrong, the prices in use stay.",
    )
    refresh.add_argument(
        "--online",
        action="store_true",
        help="ask DigitalOcean, Hot Aisle, JarvisLabs and Vultr too; keys from the environment",
    )
    refresh.add_argument(
        "--if-older-than",
        metavar="TIME",
        help="fetch only if the live prices are older than this, or there are none: 1d",
    )
    _add_json(refresh)


def _add_case(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument(
        "case",
        nargs="?",
        metavar="CASE",
        help="case file, YAML or JSON; - reads it from standard input. Flags change its fields",
    )
    from advisor.arguments.options import TASKS

    work = parser.add_argument_group("the work")
    work.add_argument(
        "--model",
        metavar="MODEL",
        help="preset (llama-3.1-8b), hub id (org/name), parameter count (7B), or a file: "
        "config.json, .safetensors, .gguf, or layers as .yaml",
    )
    work.add_argument("--task", choices=tuple(TASKS), help="what to do with the model")
    _add_groups(parser, command)


def _add_groups(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the options that the nouns of a case declare."""
    from advisor.arguments.options import add_options, groups

    for title, items in groups(command).items():
        add_options(parser.add_argument_group(title), items)


def _add_catalog(parser: argparse.ArgumentParser, *, discounts: bool = True) -> None:
    parser.add_argument(
        "--catalog",
        action="append",
        metavar="FILE",
        help="your own offers, cards and discounts: YAML, or CSV with offers; repeatable",
    )
    if discounts:
        parser.add_argument(
            "--discount",
            action="append",
            metavar="NAME=SHARE",
            help="off the on-demand price of a provider: AWS=22%%; repeatable",
        )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


_COMMANDS: Final = {
    "recommend": ("rank what to rent or use, and say why the rest lost", _add_recommend),
    "estimate": ("memory, FLOPs, time and cost of one configuration", _add_estimate),
    "export": ("write a plan as launch configuration or report", _add_export),
    "own": ("rent or buy: break-even hours, total cost, energy, processors", _add_own),
    "fleet": ("what to buy and rent, and when, for many workloads over years", _add_fleet),
    "fits": ("models that some cards can serve and train, and those they cannot", _add_fits),
    "compare": ("cards side by side", _add_compare),
    "learn": ("questions about GPUs, answered with figures of your case", _add_learn),
    "sweep": ("answer a grid or a table of cases, on all cores or on a cluster", _add_sweep),
    "prices": ("what the catalog's prices are and how old; fetch live ones", _add_prices),
    "validate": ("score the engine on a table of measurements", _add_validate),
    "probe": ("measure this machine", _add_probe),
    "web": ("open the app in a browser", _add_web),
    "serve-api": ("answer programs over HTTP", _add_serve_api),
    "mcp": ("answer assistants over MCP, on standard input and output", _add_mcp),
    "presets": ("models that are known by name", _add_presets),
    "software": ("what trains and serves, on which cards, and what it offers", _add_software),
    "schema": ("JSON Schema of a case", _add_json),
}
