"""A user's own quotes, cards and discounts are honoured by every command, and checked."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor import cli
from advisor.catalog import load_catalog
from advisor.catalog.own.facts import VARIABLE, parse_own_facts, using_catalog
from advisor.errors import InputError

QUOTES = """\
offers:
  - {provider: Our shelf, instance_type: 8x H100, accelerator: h100-sxm, accelerators: 8,
     on_demand_per_hour: 9.6, network_gbit_per_s: 3200}
  - {provider: ACME, instance_type: x4, accelerator: acme-1, accelerators: 4, spot_per_hour: 2}
accelerators:
  acme-1:
    {name: ACME One, vendor: NVIDIA, memory_gb: 96, memory_bandwidth_gb_per_s: 4000,
     dense_tflops: {bf16: 500, fp16: 500, fp32: 60}}
discounts: {aws: 22%}
providers: [AWS]
"""
TABLE = """\
provider,instance_type,accelerator,accelerators,on_demand_per_hour
Mine,two cards,rtx-4090,2,0.5
"""
P5 = "aws/p5-48xlarge/us-east-1/on-demand-list"
LORA = ("--model", "llama-3.1-8b", "--task", "lora", "--tokens", "50M", "--json")


@pytest.fixture
def quotes(tmp_path: Path) -> str:
    file = tmp_path / "quotes.yaml"
    file.write_text(QUOTES, encoding="utf-8")
    return str(file)


def answered(*options: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.main(list(options)) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_your_offer_is_in_every_list_and_no_other_provider(
    quotes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answered("prices", "list", "--catalog", quotes, "--json", capsys=capsys)
    lines = {line["instance_type"]: line for line in found["lines"]}
    places = {line["key"]: line for line in found["lines"]}

    assert {line["provider"] for line in lines.values()} == {"AWS", "ACME", "Our shelf"}
    assert lines["8x H100"]["usd_per_card_hour"] == pytest.approx(1.2)
    # The list price of p5.48xlarge is 55.04 USD.
    assert places[P5]["on_demand_usd_per_hour"] == pytest.approx(55.04 * 0.78)
    assert lines["x4"]["usd_per_gib_hour"] == pytest.approx(2 / 4 / (96e9 / 2**30), rel=1e-3)


def test_recommend_takes_your_card_and_your_price(
    quotes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answered("recommend", "--catalog", quotes, "--spot", *LORA, capsys=capsys)

    assert "ACME One" in found["answer"]


def test_your_own_price_is_believed_however_low(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lab's own rate of 0.20 USD/h for an H100 was dropped without a word, as an old listing."""
    file = tmp_path / "lab.csv"
    head, _ = TABLE.split("Mine")
    file.write_text(f"{head}Our lab,one card,h100-sxm,1,0.2\n", encoding="utf-8")

    found = answered("recommend", *LORA, "--catalog", str(file), capsys=capsys)

    assert " at Our lab: " in found["answer"]


def test_estimate_and_compare_know_your_card(
    quotes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--catalog", quotes, "--accelerator", "acme-1", *LORA)
    found = answered("estimate", *options, capsys=capsys)

    assert found["memory"]["fits"]
    assert cli.main(["compare", "acme-1", "h100-sxm", "--catalog", quotes]) == 0
    assert "ACME One" in capsys.readouterr().out
    assert cli.main(["compare", "acme-1"]) == 2  # only with the file


def test_measurements_of_your_card_are_scored(
    tmp_path: Path, quotes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text(
        "id,source,workload,model,accelerator,num_accelerators,sequence_length,micro_batch,"
        "global_batch,precision,primary_quantity,tokens_per_s_per_accelerator\n"
        "1,our log,pretraining,llama-3.1-8b,acme-1,4,4096,1,64,bf16_mixed,"
        "tokens_per_s_per_accelerator,4000\n"
    )

    assert cli.main(["validate", str(runs), "--catalog", quotes]) == 0
    assert "1 rows predicted, 0 not" in capsys.readouterr().out


def test_a_table_and_the_environment_work_too(
    tmp_path: Path, quotes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "offers.csv"
    table.write_text(TABLE, encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(table))
    assert any(offer.provider == "Mine" for offer in load_catalog().offers)

    with using_catalog([quotes], discounts=["Mine=50%"]):
        catalog = load_catalog()
        assert catalog.accelerator("acme-1").memory_bandwidth_bytes_per_s == 4e12
    monkeypatch.delenv(VARIABLE)
    assert not any(offer.provider == "Mine" for offer in load_catalog().offers)


def test_a_discount_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(
        *("prices", "list", "--provider", "AWS", "--discount", "AWS=10%", "--json"), capsys=capsys
    )
    prices = {line["key"]: line["on_demand_usd_per_hour"] for line in found["lines"]}

    assert prices[P5] == pytest.approx(55.04 * 0.9)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    table = tmp_path / "offers.csv"
    for price in ("0.5", "0.75"):
        table.write_text(TABLE.replace("0.5", price), encoding="utf-8")
        with using_catalog([str(table)]):
            [mine] = [offer for offer in load_catalog().offers if offer.provider == "Mine"]
        assert mine.on_demand_usd_per_hour == float(price)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("offers: 3", "offers"),
        ("offers: [{provider: A}]", "missing"),
        ("- 1", "list"),
        ("a: &x [*x]", "anchor"),
        ("colour: red", "colour"),
        ("discounts: {Nobody: 3%}", "Nobody"),
        ("discounts: {AWS: 200%}", "discounts"),
        ("discounts: {AWS: 2%, aws: 3%}", "two discounts"),
        (QUOTES.replace("memory_gb: 96", "memory_gb: 1.0e-300"), "memory_gb"),
        ("providers: [Nobody]", "Nobody"),
        (QUOTES.replace("acme-1:", "h100-sxm:"), "exists already"),
        (QUOTES.replace("acme-1:", f"? {'x' * 300}\n  :"), "accelerators.xxx"),
        (QUOTES.replace("9.6", "-1"), "on_demand_per_hour"),
        (QUOTES.replace("9.6", "1e308"), "on_demand_per_hour"),
        (QUOTES.replace("9.6", "7008"), "one hour of the whole instance"),  # 9.6 for 730 hours
        (QUOTES.replace("accelerator: h100-sxm", "accelerator: H100"), "nearest: h100"),
        (QUOTES.replace("per_s: 4000", "per_s: 4"), "look at the units"),  # TB/s
        (QUOTES.replace("memory_gb: 96", "memory_gb: 98304"), "look at the units"),  # MiB
        (QUOTES.replace("accelerator: h100-sxm", "accelerator: h1"), "h1"),
        (QUOTES.replace("8x H100", '"8x\\nH100"'), "instance_type"),
        (QUOTES.replace("vendor: NVIDIA, ", ""), "vendor is missing"),
        (QUOTES.replace("bf16: 500", "bf16: 500, fp8: 5000"), "dense_tflops"),
    ],
)
def test_a_wrong_file_is_a_callers_mistake(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(content, encoding="utf-8")

    assert cli.main(["prices", "list", "--catalog", str(file)]) == 2
    error = capsys.readouterr().err
    assert "wrong.yaml" in error
    assert said in error
    assert len(error) <= 640


def test_a_spreadsheet_names_columns_and_cards_as_people_do(tmp_path: Path) -> None:
    """Capital letters, blanks, a mark of the byte order and product names come out of Excel."""
    file = tmp_path / "excel.csv"
    file.write_text(
        "\ufeffProvider,Instance type,Accelerator,Accelerators,On demand per hour\r\n"
        "Mine,box,NVIDIA H100 SXM5 80GB,8,20\r\n",
        encoding="utf-8",
    )
    with using_catalog([str(file)]):
        [mine] = [offer for offer in load_catalog().offers if offer.provider == "Mine"]
    assert (mine.accelerator, mine.on_demand_usd_per_hour) == ("h100-sxm", 20)

    for between in ";\t":
        text = f"provider{between}instance_type\nA{between}B\n"
        with pytest.raises(InputError, match="semicolons or tabs"):
            parse_own_facts(text.encode(), name="list.csv")


@pytest.mark.parametrize(
    "discount", ["AWS", "AWS=", "AWS=-1%", "AWS=1000", "=5%", "Nobody=5%", "AWS=2% aws=3%"]
)
def test_a_wrong_discount_is_a_callers_mistake(
    discount: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = [word for part in discount.split() for word in ("--discount", part)]
    assert cli.main(["prices", "list", *stated]) == 2
    assert "discount" in capsys.readouterr().err


def test_many_offers_are_refused() -> None:
    rows = "\n".join(f"Mine,{i},rtx-4090,1,1" for i in range(5_001))

    with pytest.raises(InputError, match="offers"):
        parse_own_facts(f"{TABLE.splitlines()[0]}\n{rows}".encode(), name="many.csv")


def test_a_price_of_later_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_ADVISOR_TODAY", "2026-11-27")
    file = tmp_path / "offers.csv"
    for day, outcome in (("2026-11-27", 0), ("2026-11-28", 2), ("2027", 2)):
        header, row = TABLE.splitlines()
        file.write_text(f"{header},price_date\n{row},{day}\n", encoding="utf-8")
        assert cli.main(["prices", "list", "rtx-4090", "--catalog", str(file)]) == outcome
    told = capsys.readouterr().err
    assert "line 2 (two cards): price_date 2027" in told
    assert "up to today (2026-11-27)" in told
    assert "Correct the file" in told
