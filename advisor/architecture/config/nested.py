"""Finds the text tower and the other towers in a multimodal ``config.json``."""

from collections.abc import Mapping
from typing import Final

from advisor.architecture.config.class_defaults import (
    BUILT_WHOLE,
    class_defaults,
    default_towers,
    text_tower_defaults,
)
from advisor.architecture.config.fields import ConfigFields
from advisor.architecture.mixers.shapes import Tower
from advisor.foundation.names import visible

TEXT_CONFIGS: Final = ("text_config", "llm_config", "language_config")
"""Fields that hold the text tower's configuration in multimodal ones."""

_THINKER_ONLY: Final = (
    "only the thinker's text tower is counted; talker and other towers are left out"
)
_TEXT_ONLY: Final = "only the text tower is counted; image and audio towers are left out"


def text_tower(
    config: Mapping[str, object],
) -> tuple[Mapping[str, object], tuple[str, ...], tuple[Tower, ...]]:
    """Find the text configuration of a multimodal one.

    Raises InputError if a nested configuration is not an object.

    Parameters
    ----------
    config : mapping
        Parsed ``config.json``.

    Returns
    -------
    Mapping
        The nested text configuration with its class's defaults, or ``config`` itself.
    tuple of str
        Notes on parts that are left out or assumed.
    tuple of Tower
        Towers that the class builds by default. They count, although the file does not describe
        them.
    """
    outer = ConfigFields(config)
    kind = outer.text("model_type", "").lower()
    thinker = outer.mapping("thinker_config")
    if thinker is not None:
        alone = {name: value for name, value in thinker.items() if name != "thinker_config"}
        text, _, towers = text_tower(alone)
        return text, (_THINKER_ONLY,), towers
    nested = next((outer.mapping(name) for name in TEXT_CONFIGS if outer.has(name)), None)
    if kind in BUILT_WHOLE:
        return config, (), ()
    if nested is None and default_towers(kind):
        return _built_by_default(config, kind)
    if nested is None:
        seen = any(outer.has(key) for key in ("vision_config", "audio_config"))
        return config, (_TEXT_ONLY,) if seen else (), ()
    text = {**text_tower_defaults(kind), **nested}
    # The class that holds the towers decides whether the head is tied.
    if outer.has("tie_word_embeddings"):
        text["tie_word_embeddings"] = outer.flag("tie_word_embeddings", False)
    return text, (_TEXT_ONLY,), ()


def _built_by_default(
    config: Mapping[str, object], kind: str
) -> tuple[Mapping[str, object], tuple[str, ...], tuple[Tower, ...]]:
    """Return what a class builds by default if the file has no nested configurations."""
    inner = text_tower_defaults(kind)
    defaults = class_defaults(str(inner["model_type"]), sizes=True)
    ignored = [
        f"{name} {defaults[name]} (the file says {visible(str(config[name])[:40])})"
        for name in defaults
        if config.get(name, defaults[name]) != defaults[name]
    ]
    towers = tuple(Tower(name=name, parameters=n) for name, n in default_towers(kind).items())
    notes = [
        "the file has no text_config and no vision_config, so the class's defaults are counted: "
        + ", ".join(f"{tower.name} {tower.parameters:,}" for tower in towers)
    ]
    if ignored:
        notes.append(
            f"the class reads sizes inside text_config only, hence its default {', '.join(ignored)}"
            "; the published checkpoint may hold what the file says"
        )
    return {**config, **inner, **defaults}, tuple(notes), towers
