"""Amounts as people type them."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor import load_case
from advisor.errors import InputError
from advisor.foundation.parsing import (
    parse_amount,
    parse_count,
    parse_duration,
    parse_length,
    parse_money,
    parse_owned,
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("50M", 50e6),
        ("50m", 50e6),
        (" 50 M ", 50e6),
        ("7B", 7e9),
        ("7bn", 7e9),
        ("15T", 15e12),
        ("4k", 4000),
        ("1.5e9", 1.5e9),
        ("1E+3", 1000),
        (".5M", 500_000),
        ("50,000,000", 50e6),
        ("50_000_000", 50e6),
        ("8.03B", 8.03e9),
    ],
)
def test_amounts(text: str, amount: float) -> None:
    assert parse_amount(text, field="tokens") == pytest.approx(amount, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-5",
        "nan",
        "inf",
        "1e999",
        "fifty",
        "5X",
        "5,00",
        "1__000",
        "M",
        "\u0665",
        "9" * 65,
        "0x10",
    ],
)
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(InputError, match=r"^tokens is not an amount: got .* Write it like 50M"):
        parse_amount(text, field="tokens")


@pytest.mark.parametrize(("text", "count"), [("4096", 4096), ("2.5k", 2500), ("1e3", 1000)])
def test_counts(text: str, count: int) -> None:
    assert parse_count(text, field="count") == count


@pytest.mark.parametrize("text", ["2.4", "0", "-8", "many", "1e999", "0.1k1"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(InputError, match=r"^count is not a positive whole .* Write it like 8, "):
        parse_count(text, field="count")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24h", 86_400),
        ("30d", 2_592_000),
        ("90min", 5_400),
        ("1.5 hours", 5_400),
        ("1d 12h", 129_600),
        ("1d12h30min", 131_400),
        ("2w", 1_209_600),
        ("45s", 45),
        ("1 DAY", 86_400),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text, field="deadline") == seconds


@pytest.mark.parametrize("text", ["", "h", "5 m", "3 fortnights", "24h!", "-1h", "0h", "1h -2h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match=r"^deadline is not a time: .* Write it like 24h, 30d or"):
        parse_duration(text, field="deadline")


def test_a_time_without_unit_is_asked_for_one() -> None:
    with pytest.raises(InputError, match=r"Write it like 24h or 24d\.$"):
        parse_duration("24", field="deadline")


@pytest.mark.parametrize(
    ("text", "usd"),
    [("500", 500), ("$500", 500), ("$1,500", 1500), ("1.5k", 1500), ("20 USD", 20), ("$2M", 2e6)],
)
def test_money(text: str, usd: float) -> None:
    assert parse_money(text, field="budget") == usd


@pytest.mark.parametrize("text", ["", "free", "-1", "500 EUR", "€500", "$"])
def test_what_is_no_money(text: str) -> None:
    with pytest.raises(InputError, match=r"^budget is not a sum of money: got .*US dollars"):
        parse_money(text, field="budget")


@pytest.mark.parametrize(
    ("text", "owned"),
    [
        ("rtx-4090:2", ("rtx-4090", 2)),
        ("rtx-4090", ("rtx-4090", 1)),
        (" NVIDIA A100 SXM4 80GB :8", ("NVIDIA A100 SXM4 80GB", 8)),
        ("rtx-3090=2", ("rtx-3090", 2)),
        ("rtx-3090 x2", ("rtx-3090", 2)),
        ("2*rtx-3090", ("rtx-3090", 2)),
    ],
)
def test_owned(text: str, owned: tuple[str, int]) -> None:
    assert parse_owned(text, field="owned") == owned


def test_a_case_takes_the_same_words() -> None:
    case = load_case(
        {
            "model": {"preset": "qwen3-8b"},
            "workload": {"kind": "serving"},
            "limits": {"owned": ["rtx-3090=2", {"accelerator": "rtx-3060-12gb"}]},
        }
    )
    assert [(one.accelerator, one.count) for one in case.limits.owned] == [
        ("rtx-3090", 2),
        ("rtx-3060-12gb", 1),
    ]


@pytest.mark.parametrize("text", ["", ":2", "rtx-4090:", "rtx-4090:0", "rtx-4090:two", "a:1:2"])
def test_what_is_not_owned(text: str) -> None:
    with pytest.raises(InputError, match=r"^owned is not an accelerator with a number"):
        parse_owned(text, field="owned")


@pytest.mark.parametrize(
    "parse", [parse_amount, parse_count, parse_duration, parse_money, parse_owned]
)
@given(text=st.text(max_size=80))
def test_any_text_is_read_or_refused(parse: Callable[..., object], text: str) -> None:
    with suppress(InputError):
        assert parse(text, field="field")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("4K", 4096),
        ("8k", 8192),
        ("32 K", 32_768),
        ("128K", 131_072),
        ("256K", 262_144),
        ("50K", 50_000),
        ("4.5k", 4500),
        ("1M", 1_000_000),
        ("32768", 32_768),
    ],
)
def test_lengths_in_k_are_powers_of_two(text: str, tokens: int) -> None:
    assert parse_length(text, field="context") == tokens
