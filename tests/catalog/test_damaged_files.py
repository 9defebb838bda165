"""Every damage of a data file is refused with file, entry, field, value and how to mend it."""

import csv
import functools
import io
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from advisor.architecture.config.class_defaults import class_defaults, default_towers
from advisor.architecture.config.fields import field_facts
from advisor.architecture.config.quantization import quantization_facts
from advisor.architecture.families.registry import family_of, refused_types, supported_types
from advisor.architecture.mixers.feed_forward import activations
from advisor.architecture.presets import list_presets, load_preset
from advisor.architecture.published_models import published_models
from advisor.architecture.titles import model_title
from advisor.architecture.weights.gguf_bytes import gguf_facts
from advisor.arguments.parser import table
from advisor.calibration.fitting.kernel_tables import (
    FOLDER,
    kernel_fits,
    read_achievable,
    read_kernel_tables,
)
from advisor.calibration.fitting.serving import engine_fits
from advisor.calibration.scoring.published import published_runs
from advisor.calibration.tables.cache_rows import histories
from advisor.calibration.tables.guesses import table_words
from advisor.calibration.tables.reading import measurement_tables
from advisor.catalog import load_catalog
from advisor.catalog.api_prices import load_api_prices
from advisor.catalog.constants import load_calibration
from advisor.catalog.economy import load_balancers, load_economy
from advisor.catalog.files.checks import check_order
from advisor.catalog.live.clouds import addresses
from advisor.catalog.live.rows import names
from advisor.catalog.loader import load_snapshot
from advisor.catalog.offer_list import drifts, price_histories
from advisor.catalog.places import places_of
from advisor.catalog.records import required
from advisor.catalog.usual_machines import usual_machines
from advisor.errors import CatalogError, ResourceError, sentences
from advisor.estimate.beside_results import curve_words
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.terms import term_texts
from advisor.estimate.training.defaults import usual_loss
from advisor.export.checks.steps import all_steps
from advisor.export.engines.programs import programs
from advisor.export.hosts.orders import cluster_names, order_parts
from advisor.export.training.described import sharing_parts, training_refusals
from advisor.export.training.model_names import launch_models
from advisor.export.training.tool import descriptions
from advisor.export.versions import read_versions
from advisor.fleet.machines import machines
from advisor.fleet.quick import common_questions
from advisor.foundation import data_files, resources
from advisor.foundation.references import references
from advisor.foundation.resources import data_path
from advisor.lessons.glossary import glossary
from advisor.lessons.topics import lesson_texts
from advisor.nouns.images import vision_towers
from advisor.nouns.precision import number_formats
from advisor.nouns.serving_defaults import serving_defaults
from advisor.nouns.software.published_weights import listed_weights
from advisor.nouns.software.quality import quality_losses
from advisor.nouns.software.tools import tool_choice
from advisor.nouns.techniques import technique_facts
from advisor.probe.checks.training_check import check_models
from advisor.probe.measuring.plan import probe_sizes
from docs.writers.prices_page import prices_page

YAML = """\
sources:
  datasheet: {title: A sheet, locator: a.pdf, date: "2024", licence: facts, confidence: secondary}
  reported-memory-rule: {title: R, locator: here, date: "2026", licence: own, confidence: derived}
reported_memory_rules:
  whole: {share_of_gib: 1.0, basis: all of it}
accelerators:
  alpha:
    name: Alpha 80 GB
    vendor: Acme
    architecture: One
    year: 2024
    segment: datacenter
    form_factor: SXM5
    memory_gb: 80
    memory_reported_mib: 81000
    memory_type: HBM3
    memory_bandwidth_gb_per_s: 3000
    dense_tflops: {bf16: 500, fp8: 1000, fp4: 2000}
    purchase: {usd: 20000, date: "2026", kind: street}
    sources: {default: datasheet, dense_tflops.fp8: datasheet}
  beta:
    name: Beta 24 GB
    vendor: Acme
    architecture: One
    year: 2023
    segment: consumer
    form_factor: PCIe card
    memory_gb: 24
    memory_reported_rule: whole
    memory_type: GDDR6
    memory_bandwidth_gb_per_s: 900
    dense_tflops: {fp16: 80, int8: 320}
    fp16_accumulate_tflops: {fp16: 160}
    no_purchase: only rented
    sources: {default: datasheet}
"""
CSV = """\
provider,instance_type,region,tier,accelerator,accelerators,vcpus,host_memory_gib,\
currency,on_demand_per_hour,spot_per_hour,price_date,intra_node,network_gbit_per_s,source,\
confidence,notes
Acme,big,eu,list,alpha,8,96,1024,USD,40,20,2026-10-05,NVLink,3200,datasheet,secondary,
Acme,small,eu,list,beta,1,,,USD,0.5,,2026-10,,,datasheet,secondary,"one, small"
"""


def load(folder: Path, *, catalog: str = YAML, offers: str = CSV) -> CatalogError | None:
    """The error of a catalog with these files."""
    (folder / "gpu_catalog.yaml").write_text(catalog, encoding="utf-8")
    (folder / "cloud_offers.csv").write_text(offers, encoding="utf-8")
    try:
        load_catalog(folder)
    except CatalogError as error:
        return error
    return None


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def test_the_whole_files_load(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    catalog = load_catalog(tmp_path)

    assert [item.memory_reported_bytes for item in catalog.accelerators] == [
        81000 * 2**20,
        24 * 2**30,
    ]
    assert [item.notes for item in catalog.offers] == ["", "one, small"]


@pytest.mark.parametrize(
    ("old", "new", "entry", "field", "value", "remedy"),
    [
        (
            "    no_purchase: only rented\n",
            "",
            "beta",
            "",
            None,
            "give exactly one of purchase and no_purchase",
        ),
        ("    year: 2024\n", "    yaer: 2024\n", "alpha", "year", None, "Add the field."),
        ("    year: 2024\n", "    year: 2024\n    ram: 3\n", "alpha", "ram", 3, "Unknown field"),
        ("gb_per_s: 3000", "gb_per_s: -3", "alpha", "memory_bandwidth_gb_per_s", -3, "to 0.1"),
        ("gb_per_s: 3000", "gb_per_s: .inf", "alpha", "memory_bandwidth_gb_per_s", ..., "finite"),
        (
            "gb_per_s: 3000",
            "gb_per_s: fast",
            "alpha",
            "memory_bandwidth_gb_per_s",
            "fast",
            "number",
        ),
        ("segment: consumer", "segment: toy", "beta", "segment", "toy", "'consumer'"),
        ("{bf16: 500,", "{bf17: 500,", "alpha", "dense_tflops.bf17", "bf17", "'fp32'"),
        ("{bf16: 500, fp8: 1000, fp4: 2000}", "{}", "alpha", "dense_tflops", "dict", "at least 1"),
        (
            "    memory_reported_rule: whole\n",
            "    memory_reported_rule: whole\n    memory_reported_mib: 9\n",
            "beta",
            "",
            None,
            "give exactly one of",
        ),
        ("_rule: whole\n", "_rule: half\n", "beta", "memory_reported_rule", "half", "one of whole"),
        (
            "  reported-memory-rule: {",
            "  another: {",
            "beta",
            "memory_reported_rule",
            "whole",
            "Add the source `reported-memory-rule`",
        ),
        ("{default: datasheet}", "{}", "beta", "sources", "", "Add `default`"),
        ("{default: datasheet}", "{default: x}", "beta", "sources.default", "x", "Add the source"),
        (
            "dense_tflops.fp8: datasheet",
            "dense_tflops.fp32: datasheet",
            "alpha",
            "sources.dense_tflops.fp32",
            "datasheet",
            "no such field",
        ),
        ("fp8: 1000", "fp8: 2000", "alpha", "dense_tflops.fp8", 2000.0, "4.0 times"),
        ("fp4: 2000", "fp4: 4000", "alpha", "dense_tflops.fp4", 4000.0, "looks sparse: halve it"),
        ("int8: 320", "int8: 640", "beta", "dense_tflops.int8", 640.0, "`unusual_rates`"),
        ('date: "2024", ', "", "datasheet", "date", None, "Add the field."),
        ('date: "2024"', 'date: "May"', "datasheet", "date", "May", "2026-10-05"),
        (
            "confidence: secondary",
            "confidence: high",
            "datasheet",
            "confidence",
            "high",
            "'memory'",
        ),
        ("  alpha:\n", "  Alpha_1:\n", "Alpha_1", "", "Alpha_1", "small letters"),
        ("  alpha:\n", "  gamma:\n", "beta", "key", "out of order", "Move `beta` to the top."),
        ("  beta:\n", "  alpha:\n", "line 21", "alpha", "given twice", "Remove one of the two."),
        (
            "year: 2024\n",
            "year: 2024\n    year: 2025\n",
            "line 12",
            "year",
            "given twice",
            "Remove",
        ),
        ("alpha:\n    name: A", "alpha:\n  - name: A", "alpha", "", "list", "mapping of fields"),
        ("    vendor: Acme\n", "   vendor: Acme\n", ..., "", ..., "Correct the YAML there."),
        ("accelerators:\n", "accelerator:\n", "", "accelerators", None, "Add the field."),
    ],
)
def test_a_broken_catalog_is_refused(
    tmp_path: Path, old: str, new: str, entry: object, field: str, value: object, remedy: str
) -> None:
    error = load(tmp_path, catalog=changed(YAML, old, new))

    assert error is not None
    assert error.file == "gpu_catalog.yaml"
    assert entry in (..., error.entry)
    assert error.field == field
    assert value in (..., error.value)
    assert remedy in error.remedy
    place = [repr(name) for name in (error.entry, error.field) if name]
    assert all(part in str(error) for part in (error.file, *place, error.remedy))
    assert "''" not in str(error)


def test_a_yaml_error_names_its_line(tmp_path: Path) -> None:
    error = load(tmp_path, catalog=changed(YAML, "{bf16: 500,", "{bf16: [500,"))

    assert error is not None
    assert error.entry.startswith("line 18, column")


@pytest.mark.parametrize("text", ["", "just words\n", "- a\n- b\n"])
def test_a_catalog_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    error = load(tmp_path, catalog=text)

    assert error is not None
    assert error.remedy == "It must be a mapping of fields."


def test_a_rate_that_looks_sparse_may_be_explained(tmp_path: Path) -> None:
    text = changed(YAML, "fp8: 1000, fp4: 2000}", "fp8: 2000}\n    unusual_rates: as published")

    assert load(tmp_path, catalog=text) is None


@pytest.mark.parametrize(
    ("old", "new", "entry", "field", "value", "remedy"),
    [
        ("alpha,8", "omega,8", "line 2 (big)", "accelerator", "omega", "add the accelerator there"),
        ("3200,datasheet", "3200,x", "line 2 (big)", "source", "x", "Add it to `sources`"),
        ("alpha,8", "alpha,0", "line 2 (big)", "accelerators", "0", "greater than or equal to 1"),
        (",40,", ",free,", "line 2 (big)", "on_demand_per_hour", "free", "valid number"),
        (",40,20,", ",,,", "line 2 (big)", "", None, "on_demand_per_hour or spot_per_hour"),
        (",USD,40", ",EUR,40", "line 2 (big)", "currency", "EUR", "Add its rate"),
        (",USD,40", ",euro,40", "line 2 (big)", "currency", "euro", "pattern"),
        ("2026-10-05", "5 Oct 2026", "line 2 (big)", "price_date", "5 Oct 2026", "2026-10-05"),
        ("2026-10-05", "2026-13", "line 2 (big)", "price_date", "2026-13", "2026-10-05"),
        ("Acme,big", ",big", "line 2 (big)", "provider", None, "Add the field."),
        (",secondary,\n", ",sure,\n", "line 2 (big)", "confidence", "sure", "'datasheet-read'"),
        ('"one, small"', "one, small", "line 3", "", ..., "Give 17 columns; quote text"),
        ("price_date,", "date,", "line 1", "", ..., "The header must be provider,"),
        ("Acme,small", "Acme,big", "acme/big/eu/list", "key", "given twice", "Remove one"),
        ("Acme,small", "Able,small", "able/small/eu/list", "key", "out of order", "to the top"),
    ],
)
def test_broken_offers_are_refused(
    tmp_path: Path, old: str, new: str, entry: str, field: str, value: object, remedy: str
) -> None:
    error = load(tmp_path, offers=changed(CSV, old, new))

    assert error is not None
    assert (error.file, error.entry, error.field) == ("cloud_offers.csv", entry, field)
    assert value in (..., error.value)
    assert remedy in error.remedy


@pytest.mark.parametrize("name", ["gpu_catalog.yaml", "cloud_offers.csv"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    assert load(tmp_path) is None
    (tmp_path / name).unlink()

    with pytest.raises(CatalogError, match="restore it from git") as caught:
        load_catalog(tmp_path)
    assert caught.value.file == name


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    (tmp_path / "gpu_catalog.yaml").write_bytes("naïve".encode("latin-1"))

    with pytest.raises(CatalogError, match="UTF-8"):
        load_catalog(tmp_path)


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        (["a", "b", "d", "bb"], r"Move `bb` after `b`\."),
        (["a", "b", "e", "c", "d", "f"], r"Move `e` after `d`\."),
        (["m", "a", "b", "x"], r"Move `m` after `b`\."),
        (["b", "c", "a", "d"], r"Move `a` to the top\."),
        (["a", "b", "c", "a"], r"Remove one of the two\."),
    ],
)
def test_order_says_after_which_entry(keys: list[str], remedy: str) -> None:
    with pytest.raises(CatalogError, match=remedy):
        check_order(keys, file="x.yaml")


def presets() -> object:
    return [load_preset(name) for name in list_presets()[:3]], load_preset("llama-3.1-8b")


def kernel_tables() -> str:
    return repr(read_kernel_tables(data_path(FOLDER)))


LOADERS: dict[str, Callable[[], object]] = {
    "gpu_catalog.yaml": load_snapshot,
    "cloud_offers.csv": load_snapshot,
    "billing.csv": load_snapshot,
    "load_balancers.csv": load_balancers,
    "api_prices.csv": load_api_prices,
    "commitments.csv": load_economy,
    "energy.csv": load_economy,
    "owning_defaults.csv": load_economy,
    "price_drift.csv": drifts,
    "price_history.csv": price_histories,
    "gpuhunt_names.csv": names,
    "price_feeds.yaml": addresses,
    "required.yaml": required,
    "places.yaml": lambda: places_of("eu-west-1"),
    "unread_prices.csv": lambda: prices_page(load_snapshot()),
    "matmul_achievable.csv": read_achievable,
    "usual_machines.yaml": usual_machines,
    "serving_defaults.yaml": serving_defaults,
    "unlike_cards.yaml": lambda: load_catalog().accelerator("rtx-3090+rtx-3060-12gb"),
    "common_questions.yaml": common_questions,
    "refusals.yaml": sentences,
    "machines.yaml": lambda: len(machines(load_snapshot(), load_economy())),
    "quality_loss.csv": quality_losses,
    "references.csv": references,
    "model_presets.yaml": presets,
    "published_shapes.csv": published_models,
    "lessons.yaml": lesson_texts,
    "serving_techniques.yaml": technique_facts,
    "vision_towers.yaml": vision_towers,
    "model_titles.yaml": lambda: model_title("gpt2"),
    "glossary.yaml": glossary,
    "calibration.yaml": load_calibration,
    "calibration_facts.yaml": load_calibration,
    "commands.json": table,
    "activations.json": activations,
    "quantization.json": quantization_facts,
    "config_fields.json": field_facts,
    "number_formats.json": number_formats,
    "terms.yaml": term_texts,
    "gguf.yaml": gguf_facts,
    "engine_fits.yaml": engine_fits,
    "kernel_fits.yaml": kernel_fits,
    "kernel_facts.yaml": kernel_facts,
    "curve_words.yaml": curve_words,
    "check_models.yaml": check_models,
    "probe_sizes.yaml": probe_sizes,
    "measurement_tables.yaml": measurement_tables,
    "config_defaults.json": lambda: (class_defaults("llama", sizes=True), default_towers("clip")),
    "model_families.yaml": lambda: (
        [family_of(kind) for kind in supported_types()],
        refused_types(),
    ),
    "software.yaml": load_calibration,
    "tools.yaml": tool_choice,
    "tool_choice.yaml": tool_choice,
    "measurement_guesses.yaml": table_words,
    "engine_releases.yaml": histories,
    "launch_versions.yaml": lambda: read_versions(data_path("launch_versions.yaml")),
    "cluster_files.yaml": order_parts,
    "cluster_names.yaml": cluster_names,
    "serving_programs.yaml": programs,
    "setup_steps.yaml": all_steps,
    "launch_models.yaml": launch_models,
    "published_weights.yaml": listed_weights,
    "training_programs.yaml": descriptions,
    "sharing.yaml": sharing_parts,
    "training_refusals.yaml": training_refusals,
    "training_defaults.yaml": lambda: usual_loss("trl", None),
    "predictions.csv": lambda: published_runs(("memory_tp",)),
    **{
        f"measurements/{name}.csv": functools.partial(published_runs, (name,))
        for name in ("memory_tp", "cache_logs", "outside_kv_logs")
    },
    **{f"{FOLDER}/{name}.csv": kernel_tables for name in ("attention_prefill", "collectives")},
}


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data whose files are links to those of the program.

    Of thousands of measured kernels, read row by row, it has the first hundred of each table.
    """
    original = data_path("gpu_catalog.yaml").parent
    folder, short = tmp_path_factory.mktemp("checkout") / "data", tmp_path_factory.mktemp("short")
    for source in original.rglob("*.*"):
        if source.is_file() and source.parent.name != "__pycache__":
            link = folder / source.relative_to(original)
            link.parent.mkdir(parents=True, exist_ok=True)
            read = source
            if source.parent == original / FOLDER and source.suffix == ".csv":
                read = short / source.name
                read.write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[:101]))
            link.symlink_to(read)
    return folder


@pytest.fixture
def damaged(linked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., object]]:
    """Load a file of the program's own data folder, of which one file is damaged."""
    mended: dict[Path, Path] = {}

    def load(name: str, damage: Callable[[bytes], bytes | None]) -> object:
        link = linked / name
        source = mended.get(link) or link.readlink()
        mended[link] = source
        link.unlink()
        content = damage(source.read_bytes())
        if content is not None:
            link.write_bytes(content)
        monkeypatch.setattr(resources, "_checkout", lambda: linked.parent)
        forget()
        return LOADERS[name]()

    yield load
    for link, source in mended.items():
        link.unlink(missing_ok=True)
        link.symlink_to(source)
    monkeypatch.undo()
    forget()


def forget() -> None:
    """Empty all caches: the program reads its own files once."""
    for each in caches(len(sys.modules)):
        each.cache_clear()


@functools.lru_cache(maxsize=1)
def caches(modules: int) -> "list[functools._lru_cache_wrapper[object]]":
    """Return every cache of the program, of which so many modules are loaded with all others.

    All but the stamp of the code, which nothing here changes: to make it anew reads every folder.
    """
    return [
        value
        for name, module in list(sys.modules.items())
        if name.startswith("advisor")
        for value in vars(module).values()
        if isinstance(value, functools._lru_cache_wrapper) and value is not data_files._code
    ]


def refused(damaged: Callable[..., object], name: str, damage: Callable[[bytes], bytes]) -> str:
    """Return the message, having checked that it names the file and what to do."""
    with pytest.raises(CatalogError) as caught:
        damaged(name, damage)
    error = caught.value
    assert error.file == name.rpartition("/")[2]
    assert error.remedy
    assert len(str(error)) <= 600
    return str(error)


def without_end(content: bytes) -> bytes:
    """Return the first half, cut within a line."""
    half = content[: len(content) // 2]
    return half[:-1] if half.endswith(b"\n") else half


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "blank": lambda _: b"\n",
    "cut off": without_end,
    "a list": lambda _: b"[1, 2]\n",
    "a word": lambda _: b"data\n",
    "not UTF-8": lambda content: content.replace(b"e", b"\xff", 1),
    "UTF-16": lambda content: content.decode().encode("utf-16"),
    "NUL bytes": lambda content: content[:200] + b"\0\0" + content[200:],
    "brackets": lambda _: b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_damaged_file_is_named(damaged: Callable[..., object], name: str) -> None:
    for how, damage in BROKEN.items():
        assert refused(damaged, name, damage), how


@pytest.mark.parametrize("name", LOADERS)
def test_a_missing_file_of_the_program_is_named(damaged: Callable[..., object], name: str) -> None:
    with pytest.raises((CatalogError, ResourceError), match=r"restore it from git") as caught:
        damaged(name, lambda _: None)
    assert name.rpartition("/")[2] in str(caught.value)


@pytest.mark.parametrize("name", LOADERS)
def test_what_editors_do_to_a_file_changes_nothing(
    damaged: Callable[..., object], name: str
) -> None:
    whole = damaged(name, bytes)

    def harmless(content: bytes) -> bytes:
        return b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n")

    assert damaged(name, harmless) == whole


TABLES = [name for name in LOADERS if name.endswith(".csv")]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_with_other_columns_is_refused(damaged: Callable[..., object], name: str) -> None:
    def narrowed(content: bytes) -> bytes:
        return b"\n".join(line.partition(b",")[2] for line in content.splitlines()) + b"\n"

    refused(damaged, name, narrowed)


@pytest.mark.parametrize("name", TABLES)
def test_a_line_that_lacks_a_cell_is_refused(damaged: Callable[..., object], name: str) -> None:
    def shortened(content: bytes) -> bytes:
        head, first, *rest = content.splitlines()
        return b"\n".join([head, first.rpartition(b",")[0], *rest, b""])

    assert re.search("line [23]", refused(damaged, name, shortened))


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith(FOLDER)])
def test_a_row_given_twice_is_refused(damaged: Callable[..., object], name: str) -> None:
    """Kernels may be measured twice; facts stand once."""

    def doubled(content: bytes) -> bytes:
        head, first, *rest = content.splitlines()
        return b"\n".join([head, first, first, *rest, b""])

    assert "emove one" in refused(damaged, name, doubled)


NUMBERS = {
    "cloud_offers.csv": ("accelerators", "on_demand_per_hour"),
    "billing.csv": ("step_s", "minimum_s"),
    "load_balancers.csv": ("usd_per_hour", "usd_per_gb"),
    "api_prices.csv": ("input_usd", "output_usd"),
    "commitments.csv": ("term_months", "price_ratio"),
    "price_drift.csv": ("sigma_per_sqrt_year", "pairs"),
    "price_history.csv": ("usd_per_hour",),
    "energy.csv": ("carbon_g_per_kwh",),
    "owning_defaults.csv": ("low", "expected", "high"),
    "gpuhunt_names.csv": ("gpu_memory_gb", "devices"),
    "matmul_achievable.csv": ("source_peak_tflops", "achieved_tflops"),
    "predictions.csv": ("low", "expected", "high"),
    "published_shapes.csv": ("parameters", "hidden_size"),
    f"{FOLDER}/attention_prefill.csv": ("batch", "latency_us"),
    f"{FOLDER}/collectives.csv": ("ranks", "latency_us"),
}


@pytest.mark.parametrize(
    ("name", "column"), [(name, column) for name, columns in NUMBERS.items() for column in columns]
)
def test_a_number_that_no_machine_has_is_refused(
    damaged: Callable[..., object], name: str, column: str
) -> None:
    def changed(content: bytes, value: str) -> bytes:
        rows = list(itertools.islice(csv.reader(io.StringIO(content.decode(), newline="")), 9))
        rows[1][rows[0].index(column)] = value
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue().encode()

    for value in ("1e308", "nan", "-5", "9" * 400, "much"):
        message = refused(damaged, name, functools.partial(changed, value=value))
        assert "line " in message


def replaced(old: str, new: str) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        # Comments at the head explain the fields.
        _, head, body = re.split(rb"\A((?:#.*\n)*)", content, maxsplit=1)
        assert old.encode() in body, old
        return head + body.replace(old.encode(), new.encode(), 1)

    return damage


def without_line(start: str) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        lines = content.decode().splitlines(keepends=True)
        [at] = [i for i, line in enumerate(lines) if line.startswith(start)]
        return "".join(lines[:at] + lines[at + 1 :]).encode()

    return damage


HUGE = "9" * 400
ENDLESS = "9" * 6_000


WRONG_FACTS: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("owning_defaults.csv", without_line("pue,server"), "'pue/server'.*Add the row"),
    ("owning_defaults.csv", replaced("pue,server", "pue,Server"), "pue/"),
    ("owning_defaults.csv", replaced("pue,server,1.1", "pue,server,-0.5"), "per year may be"),
    ("energy.csv", without_line("usa,"), "'usa'|country"),
    ("energy.csv", without_line("deu,"), "Add the row of this country"),
    ("owning_defaults.csv", replaced(",2026,derived", ",2026-02-31,derived"), "source_date"),
    ("billing.csv", replaced(",2024,memory", ",2024-02-30,memory"), "source_date"),
    ("commitments.csv", replaced(",2026-08-27,", ",2026-08-32,"), "source_date"),
    ("cloud_offers.csv", replaced(",2026-09-20,", ",2026-02-31,"), "price_date.*out of range"),
    ("gpu_catalog.yaml", replaced('"2026-08"', '"2026-02-31"'), "date.*out of range"),
    ("gpu_catalog.yaml", replaced('"2026-08"', "2026-02-31"), "which is no date"),
    ("gpu_catalog.yaml", replaced("memory_gb: 24", f"memory_gb: {HUGE}"), "memory_gb"),
    ("gpu_catalog.yaml", replaced("memory_gb: 24", f"memory_gb: {ENDLESS}"), "memory_gb"),
    ("gpu_catalog.yaml", replaced("memory_gb: 24", "memory_gb: 1e300"), "memory_gb"),
    ("gpu_catalog.yaml", replaced("usd: ", "usd: 9999999999"), "usd"),
    ("gpu_catalog.yaml", replaced("\naccelerators:\n", "\ncards:\n"), "cards|accelerators"),
    ("calibration.yaml", replaced("compute: ", f"compute: {HUGE} # "), "compute.*30 digits"),
    ("calibration.yaml", replaced("compute: ", f"compute: {ENDLESS} # "), "compute"),
    ("calibration.yaml", replaced("compute: ", "compute: 2026-02-31 # "), "compute"),
    ("calibration.yaml", replaced("compute: ", "compute: -0.5 # "), "compute"),
    ("calibration.yaml", replaced("kernels:", "kernel:"), "'kernels'"),
    ("calibration.yaml", replaced("  Hopper:\n", "  Hoper:\n"), "Hopper"),
    ("calibration.yaml", replaced("serving_memory:", "serving_memries:"), "serving_memory"),
    ("calibration.yaml", replaced("  step_overhead_s: ", "  # "), "step_overhead_s"),
    ("calibration.yaml", replaced("engines:\n", "engines: 3\nengine:\n"), "engine"),
    (
        "calibration_facts.yaml",
        replaced("batched_tokens: ", f"batched_tokens: {HUGE} #"),
        "batched_tokens.*digits",
    ),
    ("calibration_facts.yaml", replaced("batched_tokens: ", "batched_tokens: -1 #"), "batched"),
    ("calibration_facts.yaml", replaced("  memory_fraction: ", "  # "), "memory_fraction"),
    ("calibration_facts.yaml", replaced("workspace_bytes: ", "workspace_bytes: -1 #"), "works"),
    ("calibration_facts.yaml", replaced("workspace_bytes: ", "workspace_bytes: 1e308 #"), "wo"),
    ("calibration_facts.yaml", replaced("vector_compute: ", "vector_compute: .nan #"), "vecto"),
    (
        "calibration_facts.yaml",
        replaced("vector_compute: ", "vector_compute: 2026-13-45 #"),
        "vector_compute.*which is no date",
    ),
    ("calibration_facts.yaml", replaced("reliability:", "reliable:"), "reliability"),
    ("software.yaml", replaced("launch_s: ", "launch_s: fast #"), "huggingface.*launch_s"),
    ("software.yaml", replaced("loss_bytes_per_logit: ", "loss_bytes_per_logit: -1 #"), "logit"),
    ("software.yaml", replaced("plain:\n", "plane:\n"), "pla[ni]"),
    ("model_presets.yaml", replaced("presets:", "models:"), "presets|models"),
    ("model_presets.yaml", replaced("hidden_size: ", f"hidden_size: {HUGE}"), "hidden_size"),
    ("model_presets.yaml", replaced("hidden_size: ", "hidden_size: -"), "bloom"),
    ("model_presets.yaml", replaced("source: ", "source: nowhere #"), "nowhere"),
    ("launch_versions.yaml", replaced('"2026-11-22"', '"2026-02-31"'), "date.*out of range"),
    ("launch_versions.yaml", replaced("packages:", "package:"), "package"),
    ("model_families.yaml", replaced("families:", "family:"), "famil"),
    ("model_families.yaml", replaced("title: Llama", "titel: Llama"), "titel.*Unknown field"),
    ("model_families.yaml", replaced("like: llama", "like: lama"), "lama"),
    ("model_families.yaml", replaced("norm: layer", "norm: 1e308 #"), "norm"),
    ("config_defaults.json", replaced('"fields"', '"field"'), "fields"),
    (
        "config_defaults.json",
        replaced('"default_towers": {', '"default_towers": 3, "x": {'),
        "default_towers.*got 3.*mapping",
    ),
    ("config_defaults.json", replaced(": false", f": {HUGE}"), "400 digits"),
    ("config_defaults.json", replaced(": false", f": {ENDLESS}"), "Correct the JSON"),
    ("config_defaults.json", replaced(": false", ": NaN"), "finite number"),
    ("measurements/memory_tp.csv", replaced("id,", "name,"), "header"),
]


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    WRONG_FACTS,
    ids=[f"{name}-{index}" for index, (name, _, _) in enumerate(WRONG_FACTS)],
)
def test_a_wrong_fact_is_named(
    damaged: Callable[..., object], name: str, damage: Callable[[bytes], bytes], words: str
) -> None:
    message = refused(damaged, name, damage)
    assert re.search(words, message), message


def test_every_data_file_has_its_place_in_the_table() -> None:
    """Tables of measurements and of kernels are read by two functions, each tried on some.

    Texts that exports copy (``.sh``, ``.css``) have no values to check.
    """
    folder = data_path("gpu_catalog.yaml").parent
    texts = {".sh", ".css"}
    files = {path.name for path in folder.iterdir() if path.is_file() and path.suffix not in texts}

    assert files - {"README.md", "gpu_catalog.schema.json"} == {
        name for name in LOADERS if "/" not in name
    }
