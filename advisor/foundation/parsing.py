"""Reads amounts as people type them: 50M tokens, 7B parameters, 24h, $1,500, rtx-4090:2.

``field`` names the input in messages: a text of another form raises ``InputError``. Uses only the
standard library, so that the command line starts quickly.
"""

import math
import re
from typing import Final

from advisor.errors import InputError, refusal
from advisor.foundation.units import BILLION, DAY_S, HOUR_S, KIB, MILLION, MINUTE_S

MAX_CHARACTERS: Final = 64
"""A longer text is not an amount."""

_MULTIPLES: Final = {
    "": 1.0,
    "k": 1e3,
    "m": MILLION,
    "b": BILLION,
    "bn": BILLION,
    "g": BILLION,
    "t": 1e12,
}
_SECONDS: Final = {
    "s": 1.0,
    "sec": 1.0,
    "min": MINUTE_S,
    "h": HOUR_S,
    "hr": HOUR_S,
    "hour": HOUR_S,
    "hours": HOUR_S,
    "d": DAY_S,
    "day": DAY_S,
    "days": DAY_S,
    "w": 7 * DAY_S,
    "week": 7 * DAY_S,
    "weeks": 7 * DAY_S,
}
_NUMBER: Final = (
    r"(?:\d{1,3}(?:[,_]\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+(?:[eE][+-]?\d{1,3})?"
)
_AMOUNT: Final = re.compile(rf"({_NUMBER})\s*([a-zA-Z]{{0,2}})", re.ASCII)
_DURATION_PART: Final = re.compile(rf"({_NUMBER})\s*([a-zA-Z]+)\s*", re.ASCII)
_BYTES: Final = re.compile(rf"({_NUMBER})\s*([kmgt]?)(i?)b?(?:/s)?", re.ASCII | re.IGNORECASE)
_SPEED: Final = re.compile(rf"({_NUMBER})\s*(?:tokens?|tok|t)/s", re.ASCII)
_KILO: Final = re.compile(r"(\d{1,6})\s*[kK]", re.ASCII)
_OWNED: Final = re.compile(r"([^:=*×]+?)(?: *(?:[:=*×]| x) *(\d{1,9}))?", re.ASCII)
_TIMES: Final = re.compile(r"^(\d{1,7}) ?[x×*] ?([^:=*×]+)$", re.ASCII)


def parse_amount(text: str, *, field: str) -> float:
    """Read a positive number with an optional multiple, of either case: k, M, B (or G) and T.

    >>> parse_amount("50M", field="tokens")
    50000000.0
    >>> parse_amount("1.5e9", field="tokens"), parse_amount("50,000", field="tokens")
    (1500000000.0, 50000.0)
    """
    match = _AMOUNT.fullmatch(_bounded(text))
    factor = _MULTIPLES.get(match[2].lower()) if match else None
    number = _float(match[1]) * factor if match and factor is not None else math.nan
    if not 0 < number < math.inf:
        raise refusal("no_amount", value=text, field=field)
    return number


def parse_count(text: str, *, field: str) -> int:
    """Read a positive whole number, as `parse_amount` does.

    >>> parse_count("4k", field="sequence length")
    4000
    """
    try:
        number = parse_amount(text, field=field)
    except InputError:
        number = math.nan
    if not number.is_integer():
        raise refusal("no_whole_number", value=text, field=field)
    return int(number)


def parse_length(text: str, *, field: str) -> int:
    """Read a length of sequence or context, where 32K means 32,768.

    K means 1,024 after a power of two, as usual for context lengths, otherwise 1,000.

    >>> parse_length("32K", field="context")
    32768
    >>> parse_length("50K", field="context")
    50000
    """
    number = parse_count(text, field=field)
    match = _KILO.fullmatch(_bounded(text))
    if match and int(match[1]).bit_count() == 1:
        return int(int(match[1]) * KIB)
    return number


def parse_duration(text: str, *, field: str) -> float:
    """Read a time with its unit. [s]

    >>> parse_duration("90min", field="deadline")
    5400.0
    >>> parse_duration("1d 12h", field="deadline") / 3600
    36.0
    """
    rest, seconds = _bounded(text), 0.0
    while match := _DURATION_PART.match(rest):
        seconds += _float(match[1]) * _SECONDS.get(match[2].lower(), math.nan)
        rest = rest[match.end() :]
    if rest or not 0 < seconds < math.inf:
        bare = _AMOUNT.fullmatch(text.strip())
        example = f"{bare[1]}h or {bare[1]}d" if bare and not bare[2] else "24h, 30d or 90min"
        raise refusal("no_time", value=text, field=field, example=example)
    return seconds


def parse_latency(text: str, *, field: str) -> float:
    """Read a time (a bare number: milliseconds), or a speed as the time of one token. [ms]

    >>> parse_latency("50", field="target"), parse_latency("0.5 s", field="target")
    (50.0, 500.0)
    >>> parse_latency("20 tokens/s", field="target")
    50.0
    """
    plain = _bounded(text).lower()
    if match := _SPEED.fullmatch(plain):
        return 1e3 / _float(match[1]) if _float(match[1]) else math.inf
    if plain.endswith(("ms", *"0123456789.")):
        return parse_amount(plain.removesuffix("ms"), field=field)
    return parse_duration(plain, field=field) * 1e3


_PER: Final = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0} | {
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "month": 2628000.0,
}
_ARRIVALS: Final = re.compile(
    r"(?:(?P<users>[^x×*/]+?)\s*users?\s*[x×*]\s*)?(?P<number>[^/]+?)\s*/\s*(?P<unit>[a-z]+)"
)


def parse_arrivals(text: str, *, field: str) -> float:
    """Read a rate of requests; a bare number is per second. [requests/s]

    >>> parse_arrivals("600/min", field="rate"), parse_arrivals("500 users x 36/h", field="rate")
    (10.0, 5.0)
    """
    plain = re.sub(r"\s*(requests?|req)\b", "", _bounded(text).lower())
    match = _ARRIVALS.fullmatch(plain)
    unit = match["unit"] if match else "s"
    try:
        if unit not in _PER:
            raise InputError("", value=text, allowed="", remedy="")
        number = parse_amount(match["number"] if match else plain, field=field)
        users = parse_amount(match["users"], field=field) if match and match["users"] else 1.0
    except InputError:
        raise refusal("no_rate", value=text, field=field) from None
    return users * number / _PER[unit]


def parse_sound(text: str, *, field: str) -> float:
    """Read hours of sound in a time; a bare number is for each day. [h/day]

    >>> parse_sound("1,000", field="sound"), parse_sound("5000 in 3 days", field="sound")
    (1000.0, 1666.6666666666667)
    >>> parse_sound("70K/week", field="sound"), parse_sound("50/h", field="sound")
    (10000.0, 1200.0)
    """
    amount, _, time = re.sub(r"\s+in\s+", "/", _bounded(text).lower()).partition("/")
    # ``/h`` and ``/week`` are one of them.
    time = time if not time or time.strip()[:1].isdigit() else f"1{time.strip()}"
    try:
        hours = parse_amount(re.sub(r"\s*(h|hours?)$", "", amount.strip()), field=field)
        days = parse_duration(time or "1d", field=field) / DAY_S
    except InputError:
        raise refusal("no_sound", value=text, field=field) from None
    return hours / days


def parse_bytes(text: str, *, field: str) -> float:
    """Read a size or a rate of memory; 0 is none. [bytes or bytes/s]

    >>> parse_bytes("64GB", field="memory"), parse_bytes("2 GB/s", field="rate")
    (64000000000.0, 2000000000.0)
    >>> parse_bytes("1.5GiB", field="memory")
    1610612736.0
    """
    match = _BYTES.fullmatch(_bounded(text))
    number = math.inf
    if match:
        power = " kmgt".index(match[2].lower() or " ")
        number = _float(match[1]) * (KIB if match[3] else 1000.0) ** power
    if number == math.inf:
        raise refusal("no_bytes", value=text, field=field)
    return number


def parse_money(text: str, *, field: str) -> float:
    """Read a positive sum in US dollars, with ``$`` or ``USD`` where you like. [USD]

    >>> parse_money("$1,500", field="budget")
    1500.0
    """
    plain = re.sub(r"\s*usd$", "", _bounded(text), flags=re.IGNORECASE).removeprefix("$").strip()
    try:
        return parse_amount(plain, field=field)
    except InputError:
        raise refusal("no_money", value=text, field=field) from None


def parse_number(text: str, *, field: str) -> float:
    """Read any finite number, or a share in percent.

    >>> parse_number("15%", field="share")
    0.15
    """
    plain = _bounded(text)
    try:
        number = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise refusal("no_number", value=text, field=field)
    return number


def parse_owned(text: str, *, field: str) -> tuple[str, int]:
    """Read cards that the user owns: a catalog key, and their number if it is not 1.

    >>> parse_owned("rtx-4090:2", field="owned")
    ('rtx-4090', 2)
    >>> parse_owned("2x RTX 4090", field="owned") == parse_owned("RTX 4090=2", field="owned")
    True
    """
    # What people write of several cards: the number first.
    written = _TIMES.sub(r"\2:\1", _bounded(text))
    match = _OWNED.fullmatch(written)
    number = int(match[2] or 1) if match else 0
    if match is None or number < 1:
        raise refusal("no_owned_cards", value=text, field=field)
    return match[1].strip(), number


def _bounded(text: str) -> str:
    """Strip the text; return an empty one, which no form accepts, if it is too long."""
    return "" if len(text) > MAX_CHARACTERS else text.strip()


def _float(digits: str) -> float:
    return float(digits.replace(",", "").replace("_", ""))
