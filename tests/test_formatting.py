"""Numbers on screen: rules of precision, units and ranges, with the page's own sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.foundation import formatting as fmt
from advisor.foundation.quantities import Evidence, Range, Term
from advisor.foundation.units import DAY_S, GIB, HOUR_S, MINUTE_S


def between(low: float, expected: float, high: float, unit: float = 1.0) -> Range:
    return Range(
        low=low * unit, expected=expected * unit, high=high * unit, evidence=Evidence.CALIBRATED
    )


def test_the_answer_reads_as_the_design_asks() -> None:
    hours = fmt.duration(between(7.1, 9.02, 11.6, HOUR_S), with_range=True)
    cost = fmt.money(between(9.3, 12.1, 15.2), with_range=True)

    assert f"about {hours}, {cost}" == "about 9 h (7–12), $12 ($9–16)"


def test_the_memory_rejection_reads_as_the_design_asks() -> None:
    needed, usable = fmt.memory_against(29.2 * GIB, 23.99 * GIB)

    assert f"needs {needed}, has {usable}" == "needs 29 GiB, has 24 GiB"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # wider than 2x: bounds of one digit
        (between(20, 31, 70, HOUR_S), "31 h (20–70)"),
        (between(0.3, 0.9, 2.2), "0.90 s (0.3–3)"),
        (between(0, 1.4, 8), "1.4 s (0–8)"),
        # narrower: bounds of one decimal place, outward
        (between(21.2, 29.4, 35.1, MINUTE_S), "29 min (21–36)"),
        (between(8.91, 9.23, 9.49, HOUR_S), "9.2 h (8.9–9.5)"),
        (between(8.91, 9.04, 9.1, HOUR_S), "9 h (8.9–9.1)"),
        (between(95.2, 98.4, 109.3, DAY_S), "98 days (95–110)"),
        (Range.exact(9 * HOUR_S), "9 h"),
    ],
)
def test_the_bounds_are_rounded_outward(value: Range, text: str) -> None:
    assert fmt.duration(value, with_range=True) == text
    assert fmt.duration(value) == text.partition(" (")[0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.012, "0.012 s"),
        (89, "89 s"),
        (90, "1.5 min"),
        (89 * MINUTE_S, "89 min"),
        (90 * MINUTE_S, "1.5 h"),
        (71 * HOUR_S, "71 h"),
        (72 * HOUR_S, "3 days"),
        (400 * DAY_S, "400 days"),
    ],
)
def test_the_unit_of_a_duration(seconds: float, text: str) -> None:
    assert fmt.duration(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0, "$0.00"),
        (0.0123, "$0.012"),
        (1.2, "$1.20"),
        (9.994, "$9.99"),
        (9.996, "$10"),
        (457.4, "$457"),
        (12_345.6, "$12,346"),
    ],
)
def test_a_price_keeps_its_cents_under_ten_and_its_digits(usd: float, text: str) -> None:
    assert fmt.money(usd) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (between(0.92, 1.23, 1.51), "$1.20 ($0.90–1.60)"),
        (between(0.11, 0.121, 0.131), "$0.12 ($0.11–0.14)"),
        (between(2, 5, 9), "$5.00 ($2–9)"),
        (between(0.52, 2.26, 4.9), "$2.30 ($0.50–5.00)"),
        (between(3.2, 12.1, 29), "$12 ($3–30)"),
        (between(410, 457, 520), "$460 ($410–520)"),
        (between(10_100, 12_345, 14_900), "$12,000 ($10,000–15,000)"),
    ],
)
def test_an_estimated_sum_has_two_digits(usd: Range, text: str) -> None:
    assert fmt.money(usd, with_range=True) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (79.18 * GIB, "79 GiB"),
        (9.14 * GIB, "9.1 GiB"),
        (0.0498 * GIB, "0.050 GiB"),
        (1000, "under 0.001 GiB"),
        (0, "0 GiB"),
        (1234.4 * GIB, "1,234 GiB"),
        (between(120.4, 128, 139, GIB), "130 GiB (120–140)"),
        (between(20, 29.4, 45.2, GIB), "29 GiB (20–50)"),
    ],
)
def test_memory_is_in_gib(size: float | Range, text: str) -> None:
    assert fmt.memory(size, with_range=True) == text


@pytest.mark.parametrize(
    ("needed", "usable", "texts"),
    [
        (44.4, 44.43, ("44.40 GiB", "44.43 GiB")),
        (24.0, 24.0, ("24 GiB", "24 GiB")),
        # 44.1 rounded up to 45 would seem not to fit into 44.4
        (between(24, 29, 44.1), 44.4, ("29.0 GiB (24.0–44.1)", "44.4 GiB")),
        (between(24, 29, 36), 44.4, ("29 GiB (24–36)", "44 GiB")),
        (between(24, 29, 44.42), 44.41, ("29 GiB (24–45)", "44 GiB")),
    ],
)
def test_rounding_never_crosses_the_limit(
    needed: float | Range, usable: float, texts: tuple[str, str]
) -> None:
    sized = needed.scaled(GIB) if isinstance(needed, Range) else needed * GIB

    assert fmt.memory_against(sized, usable * GIB) == texts


@given(st.integers(1, 2**42), st.integers(1, 2**42))
def test_two_sizes_look_equal_only_if_they_are(needed: int, usable: int) -> None:
    first, second = fmt.memory_against(float(needed), float(usable))

    assert (first == second) == (needed == usable)


@given(st.floats(1e-6, 1e6), st.floats(1.0, 10.0), st.floats(1.0, 10.0))
def test_printed_bounds_contain_the_range(low: float, first: float, second: float) -> None:
    value = between(low, low * first, low * first * second)
    text = fmt.rate(value, "tokens/s", with_range=True)
    if "(" not in text:
        assert value.low == value.high
        return
    shown_low, shown_high = (
        float(bound.replace(",", "")) for bound in text.split("(")[1].rstrip(")").split("–")
    )

    # The last bits of a float are no figure on a screen.
    assert shown_low <= value.low * (1 + 1e-9)
    assert shown_high >= value.high * (1 - 1e-9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (fmt.hourly_price(2.0), "$2.00/h"),
        (fmt.hourly_price(1234.5), "$1,234.50/h"),
        (fmt.percent(0.4234), "42 %"),
        (fmt.percent(between(0.381, 0.4234, 0.47), with_range=True), "42 % (38–47)"),
        (fmt.milliseconds(0.0213), "21 ms"),
        (fmt.milliseconds(1.53), "1.5 s"),
        (fmt.milliseconds(between(0.0201, 0.0213, 0.0239), with_range=True), "21 ms (20–24)"),
        (fmt.count(8_030_261_248), "8,030,261,248"),
        (fmt.bandwidth(3.35e12), "3,350 GB/s"),
        (fmt.bandwidth(31.5e9), "31.5 GB/s"),
        (fmt.flops_rate(989.4e12), "989.4 TFLOPS"),
        (fmt.flops_rate(2000.0e12), "2,000 TFLOPS"),
        (fmt.flops(3.14e23), "310,000 EFLOP"),
        (fmt.flops(12), "12 FLOP"),
    ],
)
def test_other_units(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (15 * GIB, "bytes", "15 GiB"),
        (0.0213, "s", "21 ms"),
        (7200.0, "s", "2 h"),
        (12.4, "USD", "$12"),
        (6e21, "FLOPs", "6,000 EFLOP"),
        (3.0, "kWh", "3 kWh"),
        (3.14159, "kWh", "3.14 kWh"),
        (8.0, "", "8"),
    ],
)
def test_a_term_is_shown_in_human_units(value: float, unit: str, text: str) -> None:
    term = Term(name="t", title="Term", value=value, unit=unit, formula="t")

    assert fmt.term_value(term) == text
