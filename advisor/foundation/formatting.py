"""Numbers as people read them: units, precision and ranges.

An estimate shows two significant digits. The bounds of its range are rounded outward: to one
significant digit if they span more than a factor of two, otherwise to a common decimal place. A
plain number of money or memory is a list price or a specification and keeps more digits.
"""

import math
import re
from typing import Final

from advisor.foundation import units
from advisor.foundation.quantities import Range, Term

Value = float | Range
NUMBER: Final = re.compile(r"\d[\d.]*")

EN_DASH: Final = "\u2013"
HYPHEN_MINUS: Final = re.compile(r"(?<![\w.)\]%$-])-(?=\$?\d)")
"""A hyphen before a number, not within a date, a name or an option."""
WIDE_SPAN: Final = 2.0
"""A range wider than this factor shows one significant digit."""
STEPS_PER_RANGE: Final = 4
"""A range spans at least this many steps of its last decimal place."""

_DURATIONS: Final = (
    (90.0, 1.0, "s"),
    (90 * units.MINUTE_S, units.MINUTE_S, "min"),
    (72 * units.HOUR_S, units.HOUR_S, "h"),
    (math.inf, units.DAY_S, "days"),
)
"""Upper limit [s], size [s] and name of each unit."""


def _bounds(value: Range) -> tuple[str, str]:
    """Return the low and high bound, rounded outward: one digit each if they are far apart."""
    if value.low <= 0 or value.high > WIDE_SPAN * value.low:
        return units.plain(value.low, 1, "down"), units.plain(value.high, 1, "up")
    finest = units.exponent(value.expected) - 1
    width = (value.high - value.low) / STEPS_PER_RANGE
    place = max(finest, min(units.exponent(width), finest + 1)) if width > 0 else finest
    return units.at_place(value.low, place, "down"), units.at_place(value.high, place, "up")


def _quantity(
    value: Value,
    factor: float,
    unit: str,
    *,
    with_range: bool,
    rounding: units.Rounding = "nearest",
) -> str:
    text = f"{units.plain(_expected(value) * factor, 2, rounding)} {unit}"
    if not with_range or not isinstance(value, Range) or value.low == value.high:
        return text
    low, high = _bounds(value.scaled(factor))
    return f"{text} ({low}{EN_DASH}{high})"


def _expected(value: Value) -> float:
    return value.expected if isinstance(value, Range) else value


def memory(size_bytes: Value, *, with_range: bool = False) -> str:
    """Return memory in GiB; a plain number from 10 GiB up shows whole GiB.

    >>> memory(29 * 2**30)
    '29 GiB'
    >>> memory(0.3 * 2**20)
    'under 0.001 GiB'
    """
    if 0 < _expected(size_bytes) < 0.001 * units.GIB:
        return "under 0.001 GiB"
    if isinstance(size_bytes, Range) and size_bytes.low < size_bytes.high:
        return _quantity(size_bytes, 1 / units.GIB, "GiB", with_range=with_range)
    size = _expected(size_bytes) / units.GIB
    return f"{size:,.0f} GiB" if size >= 10 else f"{units.plain(size, 2)} GiB"


def memory_against(needed_bytes: Value, usable_bytes: float) -> tuple[str, str]:
    """Return both figures as `memory` does, or with enough decimals to tell them apart.

    A bound of ``needed_bytes`` that fits never looks too large, nor the reverse.

    >>> memory_against(24.03 * 2**30, 23.99 * 2**30)
    ('24.03 GiB', '23.99 GiB')
    >>> memory_against(29.1 * 2**30, 23.99 * 2**30)
    ('29 GiB', '24 GiB')
    """
    needed, usable = _expected(needed_bytes) / units.GIB, usable_bytes / units.GIB
    figures: list[tuple[float, units.Rounding]] = [(needed, "nearest")]
    if isinstance(needed_bytes, Range) and needed_bytes.low < needed_bytes.high:
        figures += [(needed_bytes.low / units.GIB, "down"), (needed_bytes.high / units.GIB, "up")]
    usual = memory(needed_bytes, with_range=True), memory(usable_bytes)
    *seen, most = (float(number) for text in usual for number in NUMBER.findall(text))
    if [_sign(size - most) for size in seen] == [_sign(size - usable) for size, _ in figures]:
        return usual
    for place in range(0, -10, -1):  # a byte is about 10^-9 GiB
        limit = units.round_place(usable, place, "nearest")
        shown = [units.round_place(size, place, rounding) for size, rounding in figures]
        if all(
            _sign(size - usable) == _sign(short - limit)
            for (size, _), short in zip(figures, shown, strict=True)
        ):
            break
    texts = [units.at_place(size, place, rounding) for size, rounding in figures]
    bounds = f" ({texts[1]}{EN_DASH}{texts[2]})" if len(texts) > 1 else ""
    return f"{texts[0]} GiB{bounds}", f"{units.at_place(usable, place, 'nearest')} GiB"


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def duration(
    seconds: Value,
    *,
    with_range: bool = False,
    rounding: units.Rounding = "nearest",
    beside: float | None = None,
) -> str:
    """Return a time: seconds under 90 s, minutes under 90 min, hours under 72 h, then days.

    ``beside``: a time with which it is compared, whose unit it takes. [s]

    >>> duration(9 * 3600)
    '9 h'
    >>> duration(4.2 * 86400)
    '4.2 days'
    >>> duration(17.1 * 3600, rounding="up")
    '18 h'
    >>> duration(5000, beside=6000)
    '1.4 h'
    """
    shown = _expected(seconds) if beside is None else beside
    size, unit = next((size, unit) for limit, size, unit in _DURATIONS if shown < limit)
    # "9 h", not "9.0 h"
    text = _quantity(seconds, 1 / size, unit, with_range=with_range, rounding=rounding)
    return text.replace(".0 ", " ", 1)


def years(months: int) -> str:
    """Return a number of months in years.

    >>> years(30)
    '2.5 years'
    """
    return "1 year" if months == 12 else f"{months / 12:.3g} years"


def money(usd: Value, *, with_range: bool = False) -> str:
    """Return money: with cents under 10, otherwise whole; an estimate has at most two digits.

    >>> money(1.2)
    '$1.20'
    >>> money(299_999.6)
    '$300,000'
    >>> money(-120)
    '-$120'
    >>> money(-0.0)
    '$0.00'
    """
    if isinstance(usd, float | int) and usd < 0:
        return f"-{money(-usd)}"
    if not isinstance(usd, Range) or usd.low == usd.high:
        return f"${_list_price(_expected(usd) + 0.0)}"  # a zero has no sign
    text = "$" + _list_price(units.round_significant(usd.expected, 2))
    if not with_range:
        return text
    low, high = _bounds(usd)
    if usd.expected < 10 and "." in low + high:
        low, high = _cents(low), _cents(high)
    return f"{text} (${low}{EN_DASH}{high})"


def money_at_most(usd: float) -> str:
    """Return the upper end of a sum of money, rounded up like the ends of a range.

    The text never shows less than the sum that it bounds.

    >>> money_at_most(1745.2)
    '$1,800'
    """
    return money(units.round_significant(usd, 2, "up"))


def with_minus(text: str) -> str:
    """Return a text whose negative numbers have the minus sign of the charts' ticks.

    >>> with_minus("from -$560 to -2 %, 2026-10-10"), with_minus("Phi-4 -ngl 43")
    ('from \u2212$560 to \u22122 %, 2026-10-10', 'Phi-4 -ngl 43')
    """
    return HYPHEN_MINUS.sub("\N{MINUS SIGN}", text)


def signed_money(usd: float) -> str:
    """Return a difference in money with its sign."""
    return f"{'-' if usd < 0 else '+'}{money(abs(usd))}"


def _list_price(amount: float) -> str:
    if 0 < abs(amount) < 0.1:
        return units.plain(amount, 2)
    return f"{amount:,.2f}" if round(abs(amount), 2) < 10 else f"{amount:,.0f}"


def _cents(text: str) -> str:
    whole, _, cents = text.partition(".")
    return f"{whole}.{cents:0<2}"


def hourly_price(usd_per_hour: Value) -> str:
    """Return a price per hour with two decimals, or two digits below one cent.

    A price that has its own upper end is shown as a lower bound.

    >>> hourly_price(2.5)
    '$2.50/h'
    >>> hourly_price(0.00027)
    '$0.00027/h'
    """
    price = _expected(usd_per_hour)
    small = 0 < price < 0.01
    bound = isinstance(usd_per_hour, Range) and usd_per_hour.high > price
    text = f"${units.plain(price, 2) if small else f'{price:,.2f}'}/h"
    return f"from {text}" if bound else text


def milliseconds(seconds: Value, *, with_range: bool = False) -> str:
    """Return a latency in milliseconds, or in seconds from one second on.

    >>> milliseconds(0.0213)
    '21 ms'
    """
    factor, unit = (1.0, "s") if _expected(seconds) >= 1 else (1e3, "ms")
    return _quantity(seconds, factor, unit, with_range=with_range)


def percent(fraction: Value, *, with_range: bool = False) -> str:
    """Return a share in percent.

    >>> percent(0.42)
    '42 %'
    """
    return _quantity(fraction, 100.0, "%", with_range=with_range)


def count(number: float) -> str:
    """Return a whole number with thousands separators.

    >>> count(8030261248)
    '8,030,261,248'
    """
    return f"{number:,.0f}"


def amount(number: float) -> str:
    """Return an amount of work, in thousands of millions and more where that is exact.

    >>> amount(50e6), amount(15.6e12), amount(300e9), amount(1234567890)
    ('50,000,000', '15.6 T', '300 B', '1,234,567,890')
    """
    for scale, letter in ((10**12, "T"), (10**9, "B")):
        if number >= scale and number % (scale // 1000) == 0:
            return f"{units.trimmed(number / scale, 15)} {letter}"
    return count(number)


def length_limit(number: float) -> str:
    """Return the longest length that fits, rounded down so that it still fits.

    >>> length_limit(28_079)
    '28,000'
    >>> length_limit(0)
    '-'
    """
    return f"{units.round_significant(number, 2, 'down'):,.0f}" if number else "-"


def rate(per_s: Value, unit: str, *, with_range: bool = False) -> str:
    """Return a rate, e.g. tokens per second.

    >>> rate(12345.0, "tokens/s")
    '12,000 tokens/s'
    """
    return _quantity(per_s, 1.0, unit, with_range=with_range)


def bandwidth(bytes_per_s: float) -> str:
    """Return a specified bandwidth in GB/s.

    >>> bandwidth(3.35e12)
    '3,350 GB/s'
    """
    return f"{_specified(bytes_per_s / units.GB)} GB/s"


def flops(number: float) -> str:
    """Return a number of operations in the usual multiple.

    >>> flops(6.3e22)
    '63,000 EFLOP'
    """
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G")):
        if number >= size:
            return f"{units.plain(number / size, 2)} {prefix}FLOP"
    return f"{units.plain(number, 2)} FLOP"


def flops_rate(flops_per_s: float) -> str:
    """Return a specified rate of operations in TFLOPS.

    >>> flops_rate(989.4e12)
    '989.4 TFLOPS'
    """
    return f"{_specified(flops_per_s / units.TFLOP)} TFLOPS"


def measured_rate(per_s: float, unit: str) -> str:
    """Return a measured rate with three digits, in millions, billions (G) or trillions (T).

    >>> measured_rate(7.654e14, "FLOPS"), measured_rate(29.83e9, "B/s")
    ('765 TFLOPS', '29.8 GB/s')
    """
    for factor, letter in ((1e12, "T"), (1e9, "G")):
        if per_s >= factor:
            return f"{units.plain(per_s / factor, 3)} {letter}{unit}"
    return f"{units.plain(per_s / 1e6, 3)} M{unit}"


def _specified(number: float) -> str:
    """Return a specification exactly, without noise in the last bits."""
    return f"{round(number, 3):,.3f}".rstrip("0").rstrip(".")


def lowered(title: str) -> str:
    """Start a title in lower case, unless it starts with an abbreviation.

    >>> lowered("Sampler"), lowered("CUDA graphs")
    ('sampler', 'CUDA graphs')
    """
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def term_value(term: Term) -> str:
    """Return a term's value in the unit that people read.

    >>> term_value(Term(name="w", title="Weights", value=15 * 2**30, unit="bytes", formula="2 N"))
    '15 GiB'
    """
    if term.unit == "bytes":
        return memory(term.value)
    if term.unit == "s":
        return duration(term.value) if term.value >= 1 else milliseconds(term.value)
    if term.unit == "USD":
        return money(term.value)
    if term.unit == "FLOPs":
        return flops(term.value)
    if term.value.is_integer():
        return f"{count(term.value)} {term.unit}".rstrip()
    return f"{units.plain(term.value, 3)} {term.unit}".rstrip()
