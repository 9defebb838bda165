"""Maps the module names of a quantised file to rows of the operator table.

Names look like ``lm_head``, ``model.layers.3.self_attn*`` or regular expressions after ``re:``.
They are read word by word: a pattern from an unknown file is never compiled.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from advisor.architecture.config.quantization import quantization_facts
from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part

LINEAR: Final = "Linear"
HEAD: Final = "lm_head"

ATTENTION, MIXER, EXPERTS, SHARED, DENSE = "attention", "mixer", "experts", "shared", "dense"
_MOST_WORDS: Final = 64


@dataclass(slots=True)
class Coverage:
    """The rows and layers that a list of names covers."""

    linear: bool = False
    head: bool = False
    everywhere: set[tuple[str, str | None]] = field(default_factory=set)
    """Kinds of rows, with a projection or None for all projections."""
    layers: dict[tuple[str, str | None], set[int]] = field(default_factory=dict)
    depth: dict[str, int] = field(default_factory=dict)
    """Number of layers with rows of each kind."""

    def share(self, row: Operator) -> float:
        """Return the covered share of the layers of ``row``."""
        if row.part is Part.HEAD:
            return float(self.head)
        kind = _kind(row)
        if kind is None or row.part is Part.EMBEDDING:
            return float(self.linear and row.part is not Part.EMBEDDING)
        keys = ((kind, None), *((kind, name) for name in _projections(row)))
        if self.linear or any(key in self.everywhere for key in keys):
            return 1.0
        hit = set[int]().union(*(self.layers.get(key, set()) for key in keys))
        return min(1.0, len(hit) / self.depth[kind])


def coverage(names: Iterable[str], operators: Sequence[Operator]) -> Coverage:
    """Read a quantised file's module names: names, globs, or regular expressions after ``re:``."""
    names, depth = tuple(names), _depth(operators)
    found = Coverage(depth=depth)
    apart = any(word in name for name in names for word in quantization_facts().mixers)
    for given in names:
        if given == LINEAR:
            found.linear = True
            continue
        for name in _alternatives(given):
            _add(found, name, depth, apart=apart)
    return found


def _add(found: Coverage, name: str, depth: dict[str, int], *, apart: bool) -> None:
    words = [word.strip("*^$") for word in name.split(".")][:_MOST_WORDS]
    facts = quantization_facts()
    if any(word.startswith(facts.elsewhere) for word in words):
        return
    if words[-1] in facts.heads:
        found.head = True
        return
    index = _index(name)
    kinds, projections, known = _meaning(words, depth, apart=apart)
    if not known:
        return
    for key in ((kind, name) for kind in kinds for name in projections or (None,)):
        if index is not None:
            found.layers.setdefault(key, set()).update(_of_kind(key[0], index, depth))
        elif projections or kinds != tuple(depth):
            found.everywhere.add(key)


def _meaning(
    words: list[str], depth: dict[str, int], *, apart: bool
) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Return the kinds of rows and projections of a name, and whether the name is understood."""
    kinds: tuple[str, ...] = tuple(depth)
    projections: tuple[str, ...] = ()
    started, facts = False, quantization_facts()
    for word in words:
        if word in facts.places:
            meant = facts.places[word]
            if meant == (ATTENTION,) and not apart:
                meant = (ATTENTION, MIXER)
            kinds, started = tuple(kind for kind in meant if kind in depth), True
        elif word in facts.projections:
            projections, started = facts.projections[word], True
            if len(kinds) > 1:
                # Projections of experts are named after them.
                kinds = tuple(kind for kind in kinds if kind not in {EXPERTS, SHARED})
        elif word in facts.never or (started and word and not word.isdecimal()):
            return (), (), False
    whole = started or not words[-1] or words[-1].isdecimal()
    return kinds, projections, whole


def _index(name: str) -> str | None:
    """Return the word after ``layers``, if it is a number or the beginning of one."""
    words = name.split(".")
    for before, word in pairwise(words):
        if before.strip("*^") in quantization_facts().stacks and word.rstrip("*$").isdecimal():
            return word.rstrip("$")
    return None


def _of_kind(kind: str, index: str, depth: dict[str, int]) -> set[int]:
    """Return the layers of an index. Dense feed-forward layers come before routed ones."""
    number = index.rstrip("*")
    if len(number) > 5:
        return set()
    dense = depth.get(DENSE, 0)
    first, last = 0, 100_000
    if kind in {EXPERTS, SHARED}:
        first = dense
    elif kind == DENSE and EXPERTS in depth:
        last = dense
    total = max(sum(depth.get(one, 0) for one in (DENSE, EXPERTS)), *depth.values())
    if not index.endswith("*"):
        return {int(number)} if first <= int(number) < last else set()
    return {
        layer for layer in range(total) if first <= layer < last and str(layer).startswith(number)
    }


def _alternatives(name: str) -> tuple[str, ...]:
    """Return the names of a simple pattern, which may have one group ``(a|b)``."""
    if not name.startswith("re:"):
        return (name,)
    plain = name[3:].replace("\\.", ".").replace(".*", "*").replace("*", "*.").replace("..", ".")
    plain = plain.rstrip(".")
    before, opened, rest = plain.partition("(")
    inside, closed, after = rest.partition(")")
    if not (opened and closed):
        return (plain,)
    options = inside.removeprefix("?:").split("|")[:_MOST_WORDS]
    return tuple(f"{before}{option}{after}" for option in options)


def _kind(row: Operator) -> str | None:
    if row.division is Division.EXPERT:
        return EXPERTS
    if ".shared_expert." in row.name:
        return SHARED
    group = row.name.partition(".")[2].partition(".")[0].rstrip("_0123456789")
    return {"attention": ATTENTION, "mixer": MIXER, "feed_forward": DENSE}.get(group)


def _projections(row: Operator) -> tuple[str, ...]:
    last = row.name.rpartition(".")[2]
    return (last,) if row.target is None else (row.target, last)


def _depth(operators: Sequence[Operator]) -> dict[str, int]:
    """Return the number of layers with rows of each kind, summed over groups of layers."""
    groups: dict[tuple[str, str], int] = {}
    for row in operators:
        kind = _kind(row)
        if kind is None or row.kind is not OperatorKind.MATMUL or row.part is not Part.BLOCK:
            continue
        group = (kind, row.name.split(".")[1])
        groups[group] = max(groups.get(group, 0), row.layers)
    depth: dict[str, int] = {}
    for (kind, _), layers in groups.items():
        depth[kind] = depth.get(kind, 0) + layers
    return depth
