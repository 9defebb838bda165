"""Every kind of broken file is refused with file, entry, field, value and how to mend it."""

from pathlib import Path

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.checks import check_order
from advisor.errors import CatalogError

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
        ("gb_per_s: 3000", "gb_per_s: -3", "alpha", "memory_bandwidth_gb_per_s", -3, "than 0"),
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
        ('date: "2024"', 'date: "May"', "datasheet", "date", "May", "pattern"),
        (
            "confidence: secondary",
            "confidence: high",
            "datasheet",
            "confidence",
            "high",
            "'memory'",
        ),
        ("  alpha:\n", "  Alpha_1:\n", "Alpha_1", "", "Alpha_1", "pattern"),
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
    assert all(part in str(error) for part in (error.file, repr(error.entry), error.remedy))


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
        ("2026-10-05", "5 Oct 2026", "line 2 (big)", "price_date", "5 Oct 2026", "pattern"),
        ("2026-10-05", "2026-13", "line 2 (big)", "price_date", "2026-13", "pattern"),
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


def test_order_says_after_which_entry() -> None:
    with pytest.raises(CatalogError, match=r"Move `bb` after `b`\."):
        check_order(["a", "b", "d", "bb"], file="x.yaml")
