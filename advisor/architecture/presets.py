"""Well-known models by name: ``data/model_presets.yaml`` through the configuration builder."""

import re
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from itertools import combinations
from typing import Annotated

from pydantic import Field

from advisor.architecture.table.model import ModelArchitecture, SampleSize, Unit
from advisor.errors import InputError, refusal
from advisor.foundation.data_files import kept, read_yaml
from advisor.foundation.noun import RESTORE, Noun, check_numbers, checked, refuse, shown
from advisor.foundation.resources import data_path

FILE = "model_presets.yaml"
_SIZE = re.compile(r"[\d.]+[bm]")
_FORMAT = re.compile(r"(.+?)[-:_](i?q\d\w*|b?f(?:loat)?\d+|fp\d+|int\d|\dbit|bnb\S*|awq|gptq|gguf)")
"""A name that ends with a number format, as Ollama's tags and repositories of weights do."""
_TUNED = re.compile(r"meta-|-(instruct|base|chat|it|pt|hf|bf16)(?![a-z0-9])")
"""What the names of a model's variants add to it."""
Fields = tuple[tuple[str, object], ...]
"""Fields of a model's config with their values."""


class PresetSource(Noun):
    """Source of a preset's fields, and when it was read."""

    title: str
    date: str


class Preset(Noun):
    """One well-known model."""

    hub: tuple[str, ...] = ()
    """Hub ids: first the model itself, then variants of the same shape."""
    source: str
    """Key into the file's ``sources``."""
    config: Annotated[dict[str, object], Field(min_length=1)]
    """Fields of its ``config.json`` that differ from the family's defaults."""


class _PresetFile(Noun):
    video: tuple[str, ...]
    """Beginnings of the names of models that make video."""
    sources: dict[str, PresetSource]
    presets: Annotated[dict[str, Preset], Field(min_length=1)]


@lru_cache(maxsize=1)
def _load() -> _PresetFile:
    content = read_yaml(data_path(FILE))
    check_numbers(content, file=FILE)
    found = checked(_PresetFile.model_validate, content, file=FILE)
    for name, preset in found.presets.items():
        if preset.source not in found.sources:
            remedy = f"Use one of {', '.join(found.sources)}."
            refuse(FILE, preset.source, remedy, entry=name, field="source")
    return found


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Return every accepted spelling in lower case, with its preset."""
    names: dict[str, str] = {}
    for name, preset in _load().presets.items():
        for hub_id in preset.hub:
            spelled = hub_id.lower()
            names.setdefault(spelled, name)
            names.setdefault(spelled.replace("/", "__"), name)
            names.setdefault(spelled.rpartition("/")[2], name)
        # A diffusion pipeline is asked for by its own name: sdxl.
        names.setdefault(name.removesuffix("-unet"), name)
    return names | {name: name for name in _load().presets}


@lru_cache(maxsize=1)
def _compact_names() -> dict[str, str]:
    """Return the same without dashes and blanks: ``resnet50``, ``Llama 3.1 8B``."""
    return {_compact(spelled): name for spelled, name in _names().items()}


def _compact(name: str) -> str:
    return re.sub("[-_: ]", "", name)


def list_presets(takes: Unit | None = None, *, part: str = "") -> tuple[str, ...]:
    """Return the names of the presets, in file order: all, or those whose input is ``takes``.

    ``part``: of the name or of a hub id, in any case, with or without dashes.
    """
    sought = _compact(part.lower())
    held = {name for spelled, name in _compact_names().items() if sought in spelled}
    return tuple(
        name
        for name in _load().presets
        if name in held and (takes is None or preset_takes(name) is takes)
    )


def preset_takes(name: str) -> Unit:
    """Return the unit of one input of a preset, named as in :func:`list_presets`."""
    from advisor.architecture.config.fields import ConfigFields
    from advisor.architecture.families.registry import family_of, named_type, supported_types

    fields = ConfigFields(_load().presets[name].config)
    nested = fields.mapping("text_config")
    kind = named_type(fields)
    if kind not in supported_types() and nested is not None:
        kind = named_type(ConfigFields(nested))
    if kind not in supported_types():
        refuse(FILE, kind, "Correct it: no family has this name.", entry=name, field="model_type")
    return family_of(kind).takes


def first_hub_id(name: str) -> str | None:
    """Return the hub id of a preset, named as in :func:`list_presets`; None without one."""
    return next(iter(_load().presets[name].hub), None)


def hub_ids_beside(name: str) -> tuple[str, ...]:
    """Return the hub ids that share the preset of a name or hub id; empty without a preset.

    >>> hub_ids_beside("Qwen/Qwen2.5-7B")
    ('Qwen/Qwen2.5-7B', 'Qwen/Qwen2.5-7B-Instruct')
    """
    preset = find_preset(name)
    return tuple(_load().presets[preset].hub) if preset else ()


def tuned_alike(name: str) -> tuple[str, ...]:
    """Return the hub ids of the model that a hub id names, itself first: tuned, or as trained.

    >>> tuned_alike("Qwen/Qwen2.5-7B"), tuned_alike("Qwen/Qwen3.6-27B")
    (('Qwen/Qwen2.5-7B', 'Qwen/Qwen2.5-7B-Instruct'), ('Qwen/Qwen3.6-27B',))
    """
    same = (each for each in hub_ids_beside(name) if _untuned(each) == _untuned(name))
    return tuple(dict.fromkeys((name, *same)))


def _untuned(hub_id: str) -> str:
    return _TUNED.sub("", hub_id.rpartition("/")[2].lower())


def find_preset(name: str) -> str | None:
    """Return the preset of a name, a hub id or ``org__name``; None if there is none.

    A part of a name with its size is enough where one preset has the fewest other words.

    >>> find_preset("Llama 3.1 8B"), find_preset("llama3.1:8b"), find_preset("qwen3-30b")
    ('llama-3.1-8b', 'llama-3.1-8b', 'qwen3-30b-a3b')
    >>> find_preset("llama-70b")  # more than one
    """
    spelled = name.strip().lower()
    found = _names().get(spelled) or _compact_names().get(_compact(spelled))
    return found or _by_part(_compact(spelled)) or _by_beginning(re.sub("[_: ]", "-", spelled))


def _by_beginning(spelled: str) -> str | None:
    """Return the one preset with a name that begins with these words, a size among them."""
    if not any(map(_SIZE.fullmatch, spelled.split("-"))):
        return None
    found = {name for known, name in _names().items() if known.startswith(f"{spelled}-")}
    return found.pop() if len(found) == 1 else None


@lru_cache(maxsize=256)
def _by_part(spelled: str) -> str | None:
    """Return the one preset whose name, without the fewest of its words, is a compact name."""
    left_out: dict[int, list[str]] = {}
    for name in _load().presets:
        words = name.split("-")
        for number in range(2, len(words)):
            if any(
                "".join(some) == spelled and any(map(_SIZE.fullmatch, some))
                for some in combinations(words, number)
            ):
                left_out.setdefault(len(words) - number, []).append(name)
    best = left_out[min(left_out)] if left_out else []
    return best[0] if len(best) == 1 else None


def listed_hub_id(name: str) -> str | None:
    """Return the hub id that a name spells, of those that share a preset; None for the preset's.

    >>> listed_hub_id("llama-3.1-8b-instruct"), listed_hub_id("llama-3.1-8b")
    ('meta-llama/Llama-3.1-8B-Instruct', None)
    """
    preset = find_preset(name)
    spelled = _compact(name.strip().lower().replace("__", "/"))
    if preset is None or spelled == _compact(preset):
        return None
    for hub_id in _load().presets[preset].hub:
        listed = _compact(hub_id.lower())
        if spelled in (listed, listed.rpartition("/")[2]):
            return hub_id
    return None


def load_preset(
    name: str,
    sample: SampleSize | None = None,
    pruning: float = 0.0,
    other: Fields = (),
) -> ModelArchitecture:
    """Return the architecture of a well-known model.

    Cached; nouns are frozen. Raises InputError if the name is unknown. The message suggests the
    nearest ones.

    ``name``: ``llama-3.1-8b``, a hub id like ``meta-llama/Llama-3.1-8B`` in any case, or
    ``meta-llama__Llama-3.1-8B``. ``sample``: size of one input, for networks whose table depends on
    it. ``pruning``: share of heads and inner widths to remove. ``other``: fields of its config
    that differ, with their values.
    """
    known, spelled = find_preset(name), name.strip().lower()
    if known is None:
        refuse_unread(name.strip())
        nearest = _nearest(_compact(spelled))
        raise refusal(
            "unknown_preset",
            value=name,
            presets=len(list_presets()),
            nearest=f", e.g. {', '.join(nearest)}" if nearest else ", e.g. llama-3.1-8b",
        )
    plain = _plain(known)
    stated = listed_hub_id(name) or plain.hub_id
    if not pruning and not other and (sample is None or plain.unit is Unit.TOKEN):
        return _variant(known, stated)
    return _build(known, sample, pruning, other).changed(hub_id=stated)


def refuse_unread(name: str) -> None:
    """Refuse the name of a model of video, and a known one with a number format at its end."""
    if _compact(name.rpartition("/")[2].lower()).startswith(_load().video):
        raise refusal("video_model", value=name, name=name)
    alone = _FORMAT.fullmatch(name.rpartition("/")[2].lower())
    if alone and (model := find_preset(alone[1])):
        raise refusal("format_in_name", value=name, model=model)


def _nearest(spelled: str) -> list[str]:
    """Return up to three names that begin like a compact one, or else presets that resemble it."""
    names = _compact_names()
    begun = {name: name for name in _load().presets if _compact(name).startswith(spelled)}
    for known, name in _names().items():  # of repositories after those of presets
        if _compact(known).startswith(spelled):
            begun.setdefault(name, known)
    if begun and spelled:
        return [*begun.values()][:3]
    near = get_close_matches(spelled, names, n=9, cutoff=0.5)
    return list(dict.fromkeys(names[match] for match in near))[:3]


@cache
def _plain(name: str) -> ModelArchitecture:
    """Return a preset as published. The cache holds all presets, 16 MB in total."""
    try:
        return kept(f"checked_{name}", partial(_build.__wrapped__, name, None, 0.0, ()))
    except InputError as error:  # the file itself is wrong, not the request
        refuse(FILE, shown(error.value), f"{error.what}. {RESTORE}", entry=name, field="config")


@cache
def _variant(name: str, hub_id: str | None) -> ModelArchitecture:
    """Return a preset as published, under one of its hub ids."""
    plain = _plain(name)
    return plain if hub_id == plain.hub_id else plain.changed(hub_id=hub_id)


@lru_cache(maxsize=16)
def _build(
    name: str, sample: SampleSize | None, pruning: float, other: Fields
) -> ModelArchitecture:
    """Return a changed preset. The cache holds only a few, because one can take 2 MB."""
    from advisor.architecture.config.huggingface import architecture_from_config

    preset = _load().presets[name]
    return architecture_from_config(
        preset.config
        | {key: [*value] if isinstance(value, tuple) else value for key, value in other},
        name=name,
        hub_id=preset.hub[0] if preset.hub else None,
        source="preset",
        sample=sample,
        pruning=pruning,
    )
