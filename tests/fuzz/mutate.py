"""How inputs break: values that no field expects, fields that move, texts and bytes that tear."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

Place = tuple[Any, Any]
"""A mapping or list, and a key or index of it."""

HOSTILE: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    10_000,
    65_536,
    10**9,
    10**30,
    10**400,
    -(2**63),
    0.5,
    -0.0,
    1e-320,
    1e15,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    " ",
    "auto",
    "M*",
    "1e400",
    "\x00",
    "a\x1b[2Jb\r\nc",
    "\ud800",
    "a\u202eb\u2028c",
    "\N{PILE OF POO}" * 3,
    "--help",
    "=1+1",
    "/dev/zero",
    "~nobody-here/c",
    "$(touch p)",
    "../" * 40,
    "'\"\n#",
    "<script>",
    "%s%n{}{0}",
    "x" * 100_000,
    "\u00b2",
    "\u0663",
    "nan",
    "None",
    b"\xff\xfe",
    [],
    [0],
    [1, 0, 1],
    [None, "a", {}],
    ["full_attention"] * 48,
    [[]] * 10,
    [float("nan")],
    {},
    {"hidden_size": "x"},
    {"0": {"head_dim": -1}},
    {"preset": "gpt2"},
)
"""Values that no field expects."""
FRAGMENTS: Final = (
    "!!int x",
    "!!int 0x",
    "!!float x",
    "!!bool 7",
    "!!timestamp x",
    "!!binary aGk=",
    "!!binary ?",
    "!!set {a, b}",
    "!!omap [a: 1]",
    "!!pairs [a: 1]",
    "!!null x",
    "!!python/object/apply:os.getcwd []",
    "!x y",
    "2026-99-99",
    "2026-02-30",
    "0000-00-00",
    "2026-11-21T99:99:99Z",
    "2026-11-21",
    "0x_",
    "0b_",
    "0o9",
    "0_",
    "1_000",
    "190:20:30",
    "-:-",
    ".inf",
    "-.inf",
    ".nan",
    "1e999",
    "9" * 400,
    "9" * 5000,
    "&a [*a]",
    "&a {b: *a}",
    "*missing",
    "&a 1",
    "{<<: *a}",
    "{<<: 1}",
    "{<<: [1]}",
    "{? [1] : 2}",
    "{? {a: 1} : 2}",
    "{!!binary aGk= : 1}",
    "{1: 2, 1.5: 3, null: 4, true: 5, 2026-11-21: 6}",
    "{a: 1, a: 2}",
    "[" * 60 + "]" * 60,
    "[" * 3000,
    "{a: " * 60 + "1" + "}" * 60,
    '"\\ud800"',
    '"\\0"',
    '"\\x1b[2J"',
    "\x00",
    "\x07",
    "\ufeff",
    "\u2028",
    "'",
    '"',
    "|",
    ">-",
    "%YAML 9.9",
    "---",
    "...",
    "\t",
    "@",
    "`",
    "=",
    "~",
)
"""Pieces of YAML that parsers and their users stumble over."""
TYPED: Final = ("0", "-1", "7B", "1e400", "24 h", "yes", "no", "spot", "serve", "qlora", "NaN", "")
"""What people type into fields."""
INTEGERS: Final = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


def places(content: Any) -> Iterator[Place]:
    """Yield every place inside mappings and lists."""
    if isinstance(content, dict):
        items: Any = list(content.items())
    elif isinstance(content, list):
        items = list(enumerate(content))
    else:
        return
    for key, value in items:
        yield content, key
        yield from places(value)


def hostile(source: Random) -> Any:
    return copy.deepcopy(source.choice(HOSTILE))


def mutated(content: Any, source: Random, changes: int) -> Any:
    """Return a copy with so many changes: dropped, doubled, swapped, wrapped, scaled, replaced."""
    content = copy.deepcopy(content)
    for _ in range(changes):
        found = list(places(content))
        if not found:
            return hostile(source)
        holder, key = source.choice(found)
        _change(holder, key, found, source)
    return content


def _change(holder: Any, key: Any, found: list[Place], source: Random) -> None:
    value, kind = holder[key], source.random()
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    if kind < 0.12:
        del holder[key]
    elif kind < 0.2:
        name = source.choice((f"{key}2", "", "x\x00y", "__class__", 7, None, "x" * 9999, "a\nb"))
        if isinstance(holder, dict):
            holder[name] = copy.deepcopy(value)
        else:
            holder.append(copy.deepcopy(value))
    elif kind < 0.28:
        other, name = source.choice(found)
        # A branch that swaps with a leaf of its own would hold itself.
        ours, theirs = copy.deepcopy(value), copy.deepcopy(other[name])
        holder[key], other[name] = theirs, ours
    elif kind < 0.34:
        holder[key] = source.choice(([value], {"a": value}, str(value), [value] * 40))
    elif kind < 0.55 and number:
        factor = source.choice((-1, 2, 3, 0.5, 1000, 1e-6, 1e12))
        scaled = value * factor
        finite = abs(scaled) < 1e300
        holder[key] = int(scaled) if isinstance(value, int) and finite else scaled
    else:
        holder[key] = hostile(source)


def torn(text: str, source: Random, changes: int) -> str:
    """Return a text with lines lost, doubled or moved, and fragments in odd places."""
    for _ in range(changes):
        kind, at = source.random(), source.randrange(len(text) + 1)
        lines = text.split("\n")
        row = source.randrange(len(lines))
        if kind < 0.45:
            # In place of a value, where it means something.
            head, colon, _ = lines[row].rpartition(": ")
            piece = source.choice(FRAGMENTS)
            lines[row] = f"{head}{colon}{piece}" if colon else piece
            text = "\n".join(lines)
        elif kind < 0.6:
            text = text[:at] + source.choice(FRAGMENTS) + text[at:]
        elif kind < 0.7:
            del lines[row]
            text = "\n".join(lines)
        elif kind < 0.8:
            lines.insert(source.randrange(len(lines) + 1), lines[row])
            text = "\n".join(lines)
        elif kind < 0.9:
            text = text[:at] + text[at + source.randint(1, 12) :]
        else:
            text = text[:at] + chr(source.randrange(0x300)) + text[at + 1 :]
    return text


def broken(content: bytes, source: Random, changes: int) -> bytes:
    """Return bytes with flips, odd integers, cuts and repetitions."""
    raw = bytearray(content)
    for _ in range(changes):
        if not raw:
            break
        kind, at = source.random(), min(source.randrange(len(raw)), source.randrange(len(raw)))
        if kind < 0.4:
            raw[at] ^= 1 << source.randrange(8)
        elif kind < 0.7:
            size = source.choice((4, 8))
            number = source.choice(INTEGERS) % 2 ** (8 * size)
            raw[at : at + size] = number.to_bytes(size, "little")
        elif kind < 0.8:
            del raw[at:]
        elif kind < 0.9:
            del raw[at : at + source.randint(1, 16)]
        else:
            raw[at:at] = raw[at : at + source.randint(1, 64)]
    return bytes(raw)
