"""Configurations, weights files, stacks, tables, reports, price lists and links, broken."""

from __future__ import annotations

import copy
import csv
import io
import json
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from advisor import api
from advisor.architecture.config.fields import load_config_text
from advisor.architecture.config.huggingface import architecture_from_config
from advisor.architecture.families.registry import supported_types
from advisor.architecture.resolve import resolve_model
from advisor.architecture.stack.reading import stack_from_text
from advisor.architecture.table.model import ModelArchitecture
from advisor.catalog.live.prices import FORMAT, SCHEMA, LivePrices, LiveProvider, with_live
from advisor.catalog.live.rows import CLUSTER_FLAG, TITLES, Name, Row, convert, names
from advisor.catalog.loader import load_snapshot
from advisor.nouns.case import ModelSource
from advisor.nouns.hardware import Offer
from advisor.probe.learned_constants import owned_from_report
from advisor.probe.report import parse_report
from tests.fuzz.answers import BrokenAnswerError, check_json, check_message
from tests.fuzz.mutate import FRAGMENTS, HOSTILE, TYPED, broken, hostile, mutated, torn
from tests.probe.fakes import FakeBackend, h200, probed
from tests.weights import gguf, llama_gguf, llama_shapes, safetensors, write_gguf

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIGS: Final[dict[str, dict[str, Any]]] = json.loads(
    (ROOT / "tests" / "data" / "hf_configs.json").read_text(encoding="utf-8")
)
NAMES: Final = sorted(CONFIGS)
BLOCKS: Final[tuple[dict[str, Any], ...]] = (
    {"quant_method": "gptq", "bits": 4, "group_size": 32, "modules_in_block_to_quantize": [["a"]]},
    {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["re:(((", "layers.\u00b2", "."]},
    {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3}}},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": ["lm_head"]},
    {"quant_method": "fp8", "quantized_layers": {"layers.1*": {"quant_algo": "NVFP4"}}},
    {"config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 128}}}, "ignore": []},
)
SIZES: Final = {"layers": 2, "hidden": 256, "width": 512, "vocab": 1024, "tied": True}


def make_config(source: Random) -> dict[str, Any]:
    """Return a published configuration with one to six changes, nested ones included."""
    config = copy.deepcopy(CONFIGS[source.choice(NAMES)])
    for _ in range(source.randint(1, 6)):
        places = [config, *(value for value in config.values() if isinstance(value, dict))]
        place = source.choice(places)
        if not place:
            continue
        field = source.choice(sorted(map(str, place)))
        change = source.random()
        if change < 0.15:
            place.pop(field, None)
        elif change < 0.25:
            place["model_type"] = source.choice(sorted(supported_types()))
        elif change < 0.45 and isinstance(place.get(field), int):
            place[field] = place[field] * source.choice([-2, 4, 6, 1, 2000]) // 2
        elif change < 0.5:
            place["quantization_config"] = copy.deepcopy(source.choice(BLOCKS))
        elif change < 0.57:
            # A field of another family.
            other = CONFIGS[source.choice(NAMES)]
            name = source.choice(sorted(other))
            place[name] = copy.deepcopy(other[name])
        elif change < 0.62:
            place[source.choice(("_name_or_path", "name", "a\x00b"))] = hostile(source)
        else:
            place[field] = hostile(source)
    return config


def run_config(config: dict[str, Any]) -> None:
    """Build the model of a configuration."""
    check_model(architecture_from_config(config))


def check_model(model: ModelArchitecture) -> None:
    """A model has parameters, and uses no more of them than it has."""
    if not 0 < model.active_parameters <= model.total_parameters:
        raise BrokenAnswerError("a model uses other parameters than it has", model.name)
    if model.cache_elements_per_token < 0:
        raise BrokenAnswerError("a model's cache is negative", model.name)
    check_message(model.name)


def make_config_text(source: Random) -> str:
    """Return the text of a configuration, torn."""
    text = json.dumps(CONFIGS[source.choice(NAMES)], indent=1)
    return torn(text, source, source.randint(1, 3))


def run_config_text(text: str) -> None:
    """Read the text as the page does."""
    check_model(architecture_from_config(load_config_text(text)))


def _resolved(path: Path) -> None:
    check_model(resolve_model(ModelSource(config=str(path))))


Weights = tuple[bytes, int]
"""A file's header, and the bytes of data after it."""


def make_gguf(source: Random) -> Weights:
    """Return a GGUF file with odd values or torn bytes."""
    pairs, tensors = llama_gguf(heads=4, groups=2, **SIZES)  # type: ignore[arg-type]
    if source.random() < 0.5:
        name = source.choice(list(pairs))
        numbers = (0, 1, 3, 2**31, 2**32 - 1)
        pairs[name] = source.choice(
            (source.choice(numbers), "x\ny", "\x00", "", 1e30, float("nan"), ["a"], [1, 2])
        )
    if source.random() < 0.5:
        del tensors[source.randrange(len(tensors))]
    header, data = gguf(pairs, tensors)
    return broken(header, source, source.choice((0, 1, 1, 2, 4))), data


def run_gguf(content: Weights) -> None:
    """Build the model of a file."""
    _resolved(write_gguf(Path("model.gguf"), content))


def make_safetensors(source: Random) -> Weights:
    """Return a safetensors file with an odd header or torn bytes."""
    shapes = llama_shapes(cached=128, **SIZES)  # type: ignore[arg-type]
    raw, data = safetensors(shapes)
    if source.random() < 0.1:
        return raw, data
    if source.random() < 0.5:
        header = mutated(json.loads(raw[8:]), source, source.randint(1, 3))
        text = json.dumps(header, default=str, skipkeys=True).encode()
        raw = len(text).to_bytes(8, "little") + text
    else:
        raw = broken(raw, source, source.randint(1, 3))
    return raw, data


def run_safetensors(content: Weights) -> None:
    """Build the model of a file."""
    _resolved(write_gguf(Path("model.safetensors"), content))


@cache
def _stacks() -> tuple[Any, ...]:
    files = sorted((ROOT / "tests" / "data" / "stacks").glob("*.yaml"))
    return tuple(yaml.safe_load(path.read_text(encoding="utf-8")) for path in files)


def make_stack(source: Random) -> Any:
    """Return a stack of layers, or its text, torn."""
    stack = source.choice(_stacks())
    if source.random() < 0.6:
        return mutated(stack, source, source.randint(1, 4))
    return torn(yaml.safe_dump(stack), source, source.randint(1, 3))


def run_stack(content: Any) -> None:
    """Build the model of a stack."""
    if isinstance(content, str):
        stack_from_text(content)
    elif isinstance(content, dict):
        api.load_case({"model": {"stack": content}, "workload": {"kind": "serving"}})
        check_model(resolve_model(ModelSource.model_construct(stack=content)))


TABLES: Final = (
    *("cache_logs", "memory_fsdp", "memory_lora", "memory_train", "memory_vision"),
    *("serving_runs", "serving_vision", "training_runs", "outside_serving", "outside_training"),
)


@cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    path = ROOT / "data" / "measurements" / f"{name}.csv"
    with path.open(encoding="utf-8-sig", newline="") as handle:
        rows = list(csv.DictReader(handle))
    return tuple(rows[:: max(1, len(rows) // 40)])


def make_table(source: Random) -> str:
    """Return a table of one measurement with odd cells, or torn."""
    row = dict(source.choice(_rows(source.choice(TABLES))))
    texts = [item for item in HOSTILE if isinstance(item, str)]
    for _ in range(source.randint(1, 5)):
        name = source.choice(list(row))
        if source.random() < 0.1:
            del row[name]
        elif source.random() < 0.5 and row[name].replace(".", "", 1).isdecimal():
            row[name] = f"{float(row[name]) * source.choice((-1, 0, 0.5, 3, 1000, 1e9)):g}"
        else:
            row[name] = source.choice(source.choice((TYPED, texts, FRAGMENTS)))
        if not row:
            break
    file = io.StringIO()
    writer = csv.DictWriter(file, list(row))
    writer.writeheader()
    writer.writerow(row)
    text = file.getvalue()
    return torn(text, source, 1) if source.random() < 0.2 else text


def run_table(text: str) -> None:
    """Score the engine on a table."""
    path = Path("table.csv")
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    report = api.validate(path)
    check_json(report.to_json())
    for row in report.skipped:
        check_message(row.reason)


@cache
def _report() -> Any:
    report = json.loads(probed(FakeBackend(h200())).to_json())
    # The same on every machine and day, so that an input repeats.
    return report | {"created": "2026-11-21T12:00:00Z", "system": "Linux", "elapsed_s": 14.4}


def make_report(source: Random) -> bytes:
    """Return a probe's report with odd values, or torn."""
    if source.random() < 0.7:
        content = mutated(_report(), source, source.randint(1, 4))
        return json.dumps(content, default=str, skipkeys=True).encode("utf-8", "surrogatepass")
    return broken(json.dumps(_report()).encode(), source, source.randint(1, 4))


def run_report(content: bytes) -> None:
    """Read a report, and learn the machine from it."""
    report = parse_report(content)
    check_json(report.to_json())
    for machine in owned_from_report(report):
        check_json(machine.to_json())


NOW: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)


@cache
def _offers() -> tuple[Offer, ...]:
    return load_snapshot().offers[::40]


@cache
def _prices() -> Any:
    offers = tuple(
        item.model_copy(update={"provider": "Akash", "price_date": "2026-11-20"})
        for item in _offers()[:3]
    )
    live = LivePrices(
        fetched_at=NOW,
        providers=(
            LiveProvider(name="Akash", version="20261120-42", date="2026-11-20", offers=offers),
        ),
    )
    return json.loads(live.model_dump_json())


def make_cache(source: Random) -> bytes:
    """Return a cache of prices: a true checksum over odd content, or torn."""
    content = mutated(_prices(), source, source.randint(1, 4))
    body = json.dumps(content, default=str, skipkeys=True).encode("utf-8", "surrogatepass")
    head = {"format": FORMAT, "schema": SCHEMA, "sha256": sha256(body).hexdigest()}
    whole = json.dumps(head).encode() + b"\n" + body
    return whole if source.random() < 0.8 else broken(whole, source, 1)


def run_cache(content: bytes) -> None:
    """Lay cached prices over the shipped ones."""
    path = Path("cache.json")
    path.write_bytes(content)
    catalog = with_live(load_snapshot(), path, now=NOW)
    check_message(catalog.prices.sentence)
    for offer in catalog.offers:
        price = offer.on_demand_usd_per_hour
        if price is not None and not 0 < price < 1e6:
            raise BrokenAnswerError("a live price is impossible", f"{offer.key}: {price}")


LOCATIONS: Final = ("us-east-1", "europe-west4-a", "-", "CA", "EU-RO-1", "eastus", "", "a" * 99)


def make_feed(source: Random) -> tuple[str, list[dict[str, Any]]]:
    """Return a provider and rows of its price feed, some of them odd."""
    provider = source.choice(list(TITLES))
    cards = [name for name in names() if name.provider in (provider, "*")]
    rows = [_row(source, source.choice(cards)) for _ in range(source.randint(2, 5))]
    rows += [row | {"spot": True, "usd_per_hour": row["usd_per_hour"] / 3} for row in rows[:1]]
    for _ in range(source.randint(0, 5)):
        place = source.choice(rows)
        name = source.choice(list(place))
        kind = type(place[name])
        # The package that reads the feed sees to the types.
        known = [item for item in HOSTILE if type(item) is kind]
        place[name] = source.choice(known or [place[name]])
    return provider, rows


def _row(source: Random, card: Name) -> dict[str, Any]:
    """Return the row of an instance whose names the table knows."""
    return {
        "instance": card.instance.replace("*", source.choice(("", "x", "8", "48xlarge"))),
        "region": source.choice(LOCATIONS),
        "usd_per_hour": source.choice((0.2, 3.5, 98.3)),
        "vcpus": source.choice((0.0, 192.0)),
        "memory_gib": source.choice((0.0, 2048.0)),
        "gpus": source.choice((1, 2, 8)),
        "gpu_name": card.gpu_name,
        "gpu_memory_gb": card.gpu_memory_gb,
        "spot": False,
        "flags": source.choice(((), (), (CLUSTER_FLAG,))),
    }


def run_feed(content: tuple[str, list[dict[str, Any]]]) -> None:
    """Turn a feed into offers; every row is an offer, refused, unknown or no single machine."""
    provider, rows = content
    found = convert(
        [Row(**row) for row in rows],
        provider=provider,
        date="2026-11-20",
        snapshot=load_snapshot().offers,
    )
    for offer in found.offers:
        check_json(offer.to_json())
        check_message(offer.key)
        if offer.provider != TITLES[provider]:
            raise BrokenAnswerError("an offer is of another provider", offer.key)
    for name in found.unknown:
        check_message(name)
    if found.offers:
        live = LiveProvider(
            name=TITLES[provider], version="1", date="2026-11-20", offers=found.offers
        )
        check_json(live.model_dump_json())
