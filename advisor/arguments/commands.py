"""Every command: what it answers, what it takes, and examples."""

from __future__ import annotations

import argparse
from typing import Final

from advisor.arguments.declaring import Adds, Command, fields, group, takes, task


def _actions(parser: argparse.ArgumentParser) -> None:
    """Add what can be done with prices."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, action in PRICES.items():
        inner = actions.add_parser(name, help=action.summary)
        for add in action.takes:
            add(inner)


JSON: Final = takes("--json", "print JSON")
CATALOG: Final = takes(
    "--catalog FILE",
    "your own offers, cards and discounts: YAML, or CSV with offers; repeatable",
    action="append",
)
DISCOUNT: Final = takes(
    "--discount NAME=SHARE",
    "off the on-demand price of a provider: AWS=22%%; repeatable",
    action="append",
)
CASE: Final = (
    takes(
        "case CASE",
        "case file, YAML or JSON; - reads it from standard input. Flags change its fields",
        nargs="?",
    ),
    group(
        "the work",
        takes(
            "--model MODEL",
            "preset (llama-3.1-8b), hub id (org/name), parameter count (7B), or a file: "
            "config.json, .safetensors, .gguf, or layers as .yaml",
        ),
        task,
    ),
)
CARDS: Final = "e.g. h100-sxm rtx-4090"
CASE_USAGE: Final = "[CASE] [--model MODEL --task TASK] [options]"


def _priced(*adds: Adds) -> tuple[Adds, ...]:
    return (*adds, CATALOG, DISCOUNT, JSON)


def _on_case(command: str, *adds: Adds) -> tuple[Adds, ...]:
    return _priced(*CASE, fields(command), *adds)


PRICES: Final = {
    "show": Command(
        "offers of each provider, with age and count",
        _priced(takes("--usd-per-eur RATE", "exchange rate for prices in euro")),
    ),
    "list": Command(
        "offers by card: price, memory, region, network, age",
        _priced(
            takes("accelerators KEY", CARDS, nargs="*"),
            takes("--count N", "accelerators in one instance"),
            takes("--provider NAME", "repeat for several", action="append", default=[]),
            takes("--region NAME", "repeat for several", action="append", default=[]),
            takes("--spot", "spot prices"),
            takes(
                "--sort BY",
                "price (of one card), memory, per-gb, network, age or provider",
                default="price",
            ),
            takes("--all", "print every offer", dest="everything"),
            takes("--csv FILE", "write every offer here"),
        ),
    ),
    "refresh": Command(
        "fetch live prices through gpuhunt (pip install 'gpu-advisor[prices]'); if this fails, "
        "the prices in use stay",
        (
            takes(
                "--online",
                "ask DigitalOcean, Hot Aisle, JarvisLabs and Vultr too; keys from the environment",
            ),
            takes(
                "--if-older-than TIME",
                "fetch only if the live prices are older than this, or there are none: 1d",
            ),
            JSON,
        ),
    ),
}
COMMANDS: Final = {
    "recommend": Command(
        "rank what to rent or use, and say why the rest lost",
        _on_case(
            "recommend",
            takes("--top N", "plans shown for each objective (default 1)", default="1"),
            takes(
                "--all --explain",
                "show every trade-off, rejected accelerator and source, not one screen",
                dest="everything",
            ),
        ),
        CASE_USAGE,
        (
            "recommend --model llama-3.1-8b --task lora --tokens 50M --deadline 24h",
            "recommend --model llama-3.1-70b --task serve --concurrency 32 --max-tpot-ms 50",
            "recommend case.yaml --budget 500",
        ),
    ),
    "estimate": Command(
        "memory, FLOPs, time and cost of one configuration",
        _on_case(
            "estimate",
            takes(
                "--explain", "show every term with formula, values and source", dest="everything"
            ),
        ),
        CASE_USAGE,
        (
            "estimate --model 7B --task pretrain --accelerator h100-sxm --count 8",
            "estimate --model llama-3.1-8b --task serve --accelerator l40s --explain",
        ),
    ),
    "export": Command(
        "write a plan as launch configuration or report",
        _on_case(
            "export",
            takes(
                "--to FORMAT",
                "to train: torchrun, accelerate, deepspeed, unsloth, axolotl, llama-factory, "
                "torchtune, torchtitan, gaudi or maxtext; to serve: vllm, sglang, tensorrt-llm, "
                "llama-cpp, ollama, tei or infinity; on a cluster: slurm, kubernetes, compose, "
                "skypilot or dstack; to set a machine up: checklist or check-script; or a report:"
                " markdown, html (a browser prints it as PDF), json or csv",
                required=True,
            ),
            takes("--output FILE", "write here instead of to the terminal"),
            takes("--checkpoint ID", "hub id or folder of weights to load instead"),
            takes(
                "--log-to TRACKER",
                "training reports to this tracker of experiments: mlflow (none)",
                choices=("mlflow",),
            ),
            takes(
                "--platform NAME",
                "for checklist and check-script: linux, windows (WSL), cloud, slurm, kubernetes, "
                "jetson, macos or tpu; the usual one for the card",
            ),
        ),
        "[CASE] --to FORMAT [--output FILE] [options]",
        (
            "export case.yaml --to html --output report.html",
            "export --model llama-3.1-8b --task lora --tokens 50M --to torchrun",
            "export --model llama-3.1-8b --task serve --accelerator l40s --to kubernetes",
        ),
    ),
    "own": Command(
        "rent or buy: break-even hours, total cost, energy, processors",
        _on_case(
            "own",
            takes(
                "--explain", "show every term and every input with its source", dest="everything"
            ),
        ),
        CASE_USAGE,
        (
            "own --model llama-3.1-8b --task qlora --accelerator rtx-4090 --hours-per-month 200",
            "own case.yaml --accelerator h100-sxm --count 8 --place deu --months 48",
            "own --model llama-3.1-8b --task serve --buy-budget 20000 --slots 4",
        ),
    ),
    "fleet": Command(
        "what to buy and rent, and when, for many workloads over years",
        _priced(
            takes(
                "portfolio PORTFOLIO",
                "workloads, owned machines and limits, YAML or JSON; - reads it from standard "
                "input",
                nargs="?",
            ),
            group(
                "a common question, without a file",
                takes(
                    "--ask QUESTION",
                    "home (fine-tune one model and run another), lab (a group of people) or "
                    "chatbot (one server or the cloud)",
                ),
                takes("--budget USD", "for all machines: 2500, $250k"),
                takes("--people N", "in the lab, or chatting at the same time"),
                takes("--tune PRESET", "model that is fine-tuned (llama-3.1-8b)"),
                takes("--serve PRESET", "model that is served"),
            ),
            takes("--machines", "list the machines that can be bought, with prices"),
            takes(
                "--regret", "also compare plans under other prices, demands, models and generations"
            ),
            takes(
                "--queue",
                "also simulate how long runs wait for cards (pip install 'gpu-advisor[fleet]')",
            ),
            takes("--report FILE", "also write a report of two pages: HTML, or Markdown to *.md"),
            takes("--all --explain", "show every period, charge and limit", dest="everything"),
        ),
        examples=(
            "fleet portfolio.yaml",
            "fleet --ask home --budget 2500",
            "fleet --ask lab --people 12 --budget 250k",
            "fleet --machines",
        ),
    ),
    "fits": Command(
        "models that some cards can serve and train, and those they cannot",
        _priced(
            fields("fits"),
            takes(
                "--context N",
                "tokens per request or sequence: 32K is 32,768 (8192)",
                default="8192",
            ),
            takes("--concurrency N", "requests at once, beside one alone (8)", default="8"),
            takes("--all", "every preset, not the short list alone", dest="everything"),
        ),
        examples=(
            "fits --accelerator rtx-4090",
            "fits --accelerator h100-sxm --count 8 --context 32K --all",
        ),
    ),
    "compare": Command(
        "cards side by side",
        _priced(
            takes("accelerators KEY", CARDS, nargs="+"),
            takes("--differences", "only rows that differ"),
            takes("--all", "every row, though they fill a screen", dest="everything"),
        ),
    ),
    "learn": Command(
        "questions about GPUs, answered with figures of your case",
        _on_case(
            "learn",
            takes("--topic NAME", "one question: memory, processor, ... (all, one line each)"),
        ),
        "[CASE] [--model MODEL --task TASK] [--topic NAME] [options]",
    ),
    "sweep": Command(
        "answer a grid or a table of cases, on all cores or on a cluster",
        _priced(
            takes(
                "source GRID|TABLE",
                "a case whose fields may be lists or ranges (.yaml, .json), or cases, one a row, "
                "with fields as columns (.csv, .parquet)",
            ),
            takes(
                "--output FILE",
                "write the rows here: .parquet or .csv. After a kill, the same command goes on",
                required=True,
            ),
            takes("--workers N", "processes here (one for each core)"),
            takes(
                "--on ADDRESS",
                "a Dask scheduler that does the work: dask://host:8786 (pip install "
                "'gpu-advisor[dask]')",
            ),
        ),
        examples=(
            "sweep grid.yaml --output results.parquet",
            "sweep cases.csv --output results.csv --workers 4",
            "sweep grid.yaml --output results.parquet --on dask://scheduler:8786",
        ),
    ),
    "prices": Command(
        "what the catalog's prices are and how old; fetch live ones",
        (_actions,),
        examples=(
            "prices show",
            "prices list h100-sxm h200-sxm --count 8 --sort per-gb",
            "prices list --provider RunPod --csv offers.csv",
            "prices show --usd-per-eur 1.12",
            "prices refresh",
        ),
    ),
    "validate": Command(
        "score the engine on a table of measurements",
        (
            takes("table FILE.csv", "columns as in docs/accuracy.md"),
            takes("--configs DIR", "folder of model configurations named org__name.json"),
            JSON,
        ),
    ),
    "probe": Command(
        "measure this machine",
        (
            takes("--mode MODE", "short (15 s), normal (2 min) or thorough", default="short"),
            takes("--library NAME", "auto (default), numpy or torch", default="auto"),
            takes("--time-limit TIME", "another limit: 30s, 5min"),
            takes("--memory-limit BYTES", "take at most this: 4G; never half of what is free"),
            takes("--check", "then train small transformers beside predictions"),
            takes("--output FILE", "write the report here: probe.json"),
            takes("--report FILE", "show this report and measure nothing"),
            JSON,
        ),
        examples=(
            "probe --output probe.json",
            "recommend --model llama-3.1-8b --task lora --owned probe.json",
        ),
    ),
    "web": Command(
        "open the app in a browser",
        (
            CATALOG,
            takes("--port N", "port to listen on (8501)", default="8501"),
            takes("--no-browser", "do not open a browser"),
        ),
    ),
    "serve-api": Command(
        "answer programs over HTTP",
        (
            CATALOG,
            takes("--host ADDRESS", "(127.0.0.1)", default="127.0.0.1"),
            takes("--port N", "port to listen on (8600)", default="8600"),
            takes("--workers N", "processes (1)", default="1"),
        ),
    ),
    "mcp": Command("answer assistants over MCP, on standard input and output", (CATALOG,)),
    "presets": Command(
        "models that are known by name",
        (
            takes(
                "--takes",
                "only those with this kind of input",
                choices=("token", "image", "sample"),
            ),
            JSON,
        ),
    ),
    "software": Command(
        "what trains and serves, on which cards, and what it offers",
        (
            takes("name NAME", "a tool (trl, vllm) or a term (cuda, onnx)", nargs="?"),
            takes("--accelerator KEY", "what runs on this card: h100-sxm"),
            JSON,
        ),
    ),
    "schema": Command("JSON Schema of a case", (JSON,)),
}
"In the order of the help."
EXAMPLES: Final = (
    "recommend --model llama-3.1-8b --task lora --tokens 50M --deadline 24h",
    "recommend case.yaml --json",
    "estimate --model 7B --task pretrain --tokens 1B --accelerator h100-sxm --count 8",
    "compare h100-sxm rtx-4090",
    "prices show",
    "web",
)
