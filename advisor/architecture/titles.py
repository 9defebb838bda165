"""Names of known models as people write them, with size and maker, the most asked first."""

import re
from functools import cache
from typing import Final

from advisor.architecture.presets import first_hub_id, list_presets
from advisor.foundation.noun import Noun, shipped

FILE: Final = "model_titles.yaml"
SIZE: Final = re.compile(r"(a?)(\d+(?:\.\d+)?)([bm])")
"""Parameters in a name: ``8b``, ``a3b`` (active), ``125m``."""


class _Titles(Noun):
    words: dict[str, str]
    makers: dict[str, str]
    first: tuple[str, ...]
    short_list: tuple[str, ...]
    sizes: dict[str, int]


_titles = shipped(FILE, _Titles)


def model_title(preset: str) -> str:
    """Return the name of a preset as people write it.

    >>> model_title("llama-3.1-8b")
    'Llama 3.1 8B'
    >>> model_title("qwen3-30b-a3b")
    'Qwen3 30B A3B'
    """
    return " ".join(map(_word, re.split(r"[-_]", preset)))


def _word(word: str) -> str:
    if known := _titles().words.get(word):
        return known
    if SIZE.fullmatch(word) or re.fullmatch(r"\d+x\d+b", word):
        return word.upper().replace("X", "x")
    return word if word.startswith("v0.") else word[:1].upper() + word[1:]


def model_label(preset: str) -> str:
    """Return what a list shows of a preset: name, size where the name leaves it out, maker.

    >>> model_label("deepseek-v3")
    'DeepSeek V3 · 671B'
    >>> model_label("llama-3.1-8b")
    'Llama 3.1 8B · Meta'
    """
    title, maker = model_title(preset), model_maker(preset)
    maker = "" if title.startswith(maker) else maker
    size = _titles().sizes.get(preset)
    return " · ".join(filter(None, (title, in_letters(size) if size else "", maker)))


def in_letters(parameters: float) -> str:
    """Return a count of parameters as names of models say it, with up to three digits.

    >>> in_letters(8_030_261_248), in_letters(671_026_404_352), in_letters(25_557_032)
    ('8.03B', '671B', '25.6M')
    """
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if parameters >= 0.9995 * unit:
            return f"{parameters / unit:.3g}{letter}"
    return f"{parameters:,.0f}"


def model_maker(preset: str) -> str:
    """Return who published a preset; empty where that is not known.

    >>> model_maker("llama-3.1-8b")
    'Meta'
    """
    hub_id = first_hub_id(preset)
    return _titles().makers.get(hub_id.partition("/")[0], "") if hub_id else ""


def short_list() -> tuple[str, ...]:
    """Return presets of one model or more of each widely used family, from small to large."""
    return _titles().short_list


@cache
def by_use() -> tuple[str, ...]:
    """Return all presets: those that people ask about most, then the others in the file's order."""
    first = _titles().first
    return (*first, *(name for name in list_presets() if name not in first))
