"""From what was typed to a case: numbers read, bounds checked, one sentence for each mistake."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from advisor.architecture.config.fields import load_config_text
from advisor.architecture.presets import find_preset, load_preset
from advisor.architecture.titles import model_title
from advisor.errors import InputError
from advisor.foundation.parsing import parse_amount, parse_duration
from advisor.foundation.record import record
from advisor.nouns.inputs import Network, Reads
from advisor.ui.forms.inputs import FROM_CONFIG, FROM_COUNT, Inputs
from advisor.ui.forms.networks import network_named
from advisor.ui.forms.rules import OWN, RULES, SHAPE, Rules

RATE: Final = "requests_per_second"
SOUND: Final = "audio_hours"
DAY: Final = "demand_shape"
OF_DAY: Final = ("peak_requests", "growth", "min_replicas")
"""Inputs that mean something with a day."""
OF_RATE: Final = ("arrivals", "output_tokens_p95", "at")
"""Inputs that mean something with a rate of requests."""
MAX_KEPT_CHARACTERS: Final = 200_000
"""Of a ``config.json``, what a session keeps; published ones are longer by their labels alone."""
MOST_NAMED: Final = 8
"""Options that a message names."""


@record
class Reading:
    """Inputs as numbers; a field that cannot be used is in ``problems`` only."""

    numbers: Mapping[str, float | None]
    problems: Mapping[str, str]


@lru_cache(maxsize=64)
def read(inputs: Inputs) -> Reading:
    """Read every number that the chosen task uses; None where an optional field is blank."""
    numbers: dict[str, float | None] = {}
    problems: dict[str, str] = {}
    for name in RULES:
        if not used(name, inputs):
            continue
        if problem := problem_of(inputs, name):
            problems[name] = problem
        elif RULES[name].kind.parse:
            numbers[name] = _number(str(getattr(inputs, name)), RULES[name])
    return Reading(numbers, problems)


def used(name: str, inputs: Inputs) -> bool:
    """Return whether a field matters for the chosen task, model source and hardware."""
    if name in ("config", "parameters"):
        return inputs.model == {"config": FROM_CONFIG, "parameters": FROM_COUNT}[name]
    if name in SHAPE:
        return inputs.model == FROM_COUNT or bool(typed_size(inputs.model))
    if not _of_demand(name, inputs):
        return False
    if name in ("own_accelerator", "own_count"):
        return inputs.rent == OWN
    if name in (
        "providers",
        "accelerators",
        "max_accelerators",
        "usd_per_eur",
        "commitment_months",
    ):
        return inputs.rent != OWN
    rules = RULES[name]
    return inputs.task in rules.tasks and network_of(inputs) in rules.networks


def _of_demand(name: str, inputs: Inputs) -> bool:
    """Return whether users, a rate or a day is what the load is entered by."""
    day, rate = bool(getattr(inputs, DAY)), bool(getattr(inputs, RATE))
    if name == "users":
        return not (day or rate)
    if name == "at_once":
        return not getattr(inputs, SOUND)
    if name == RATE:
        return not day
    if name in OF_DAY:
        return day
    return day or rate or name not in OF_RATE


def network_of(inputs: Inputs) -> Network:
    """Return the kind of the entered network."""
    return network_named(inputs.model, inputs.network)


def problem_of(inputs: Inputs, name: str) -> str | None:
    """Return what is wrong with one field, as the end of a sentence that its label begins.

    >>> problem_of(Inputs(users="5M"), "users")
    "must be 1 to 1,000,000, not '5M'."
    """
    rules = RULES[name]
    if rules.kind is Reads.CHOICE and not rules.several:
        value = str(getattr(inputs, name))
        if value in rules.options:
            return None
        return f"must be one of {few(list(rules.options.values()))}, not {shown(value)}."
    if name == "model":
        return model_problem(inputs.model)
    if name == "config":
        return _config_problem(inputs.config)
    if rules.kind.parse is None:
        return None
    text = str(getattr(inputs, name))
    try:
        number = _number(text, rules)
    except InputError:
        blank = " or blank" if rules.blank else ""
        return f"must be {rules.kind.example}{blank}, not {shown(text)}."
    if number is not None and not rules.low <= number <= rules.high:
        low, high = (_bound(bound, rules.kind) for bound in (rules.low, rules.high))
        return f"must be {low} to {high}, not {shown(text)}."
    return None


def complaint(name: str, problem: str) -> str:
    """Return what is wrong with a field as a whole sentence.

    >>> complaint("users", "must be 1 to 1,000,000, not '5M'.")
    "Users at once must be 1 to 1,000,000, not '5M'."
    """
    return f"{RULES[name].label} {problem}" if problem[:1].islower() else problem


def value_title(name: str, value: str | tuple[str, ...]) -> str:
    """Return a value as the page shows it."""
    if isinstance(value, tuple):
        return ", ".join(value) or "all"
    if name == "model" and (preset := find_preset(value)):
        return model_title(preset)
    return RULES[name].options.get(value, value) or RULES[name].blank.lower() or "blank"


def model_problem(model: str) -> str | None:
    """Return what is wrong with the name of a model, as `problem_of` does; None if nothing is."""
    if model in (FROM_CONFIG, FROM_COUNT) or find_preset(model) or typed_size(model):
        return None
    try:
        load_preset(model)
    except InputError as error:
        return f"must be a size like 13B or {error.allowed}, not {shown(model)}."
    return None


def listed(typed: str, titles: Mapping[str, str]) -> str:
    """Return the first value whose title holds all typed words, else what was typed.

    >>> listed("3060", {"": "RTX 3060 (example)", "rtx-3060-12gb": "RTX 3060 · 12 GB"})
    'rtx-3060-12gb'
    >>> listed("A100 80gb", {"a100-40gb": "A100 · 40 GB", "a100-80gb": "A100 · 80 GB"})
    'a100-80gb'
    """
    if typed in titles:
        return typed
    words = typed.casefold().split()
    spelled = {value: title.casefold().replace(" ", "") for value, title in titles.items() if value}
    return next((key for key, text in spelled.items() if all(one in text for one in words)), typed)


@lru_cache(maxsize=256)
def typed_size(model: str) -> float | None:
    """Return the parameter count of a model named by its size alone, such as ``13B``."""
    try:
        size = parse_amount(model, field="model")
    except InputError:
        return None
    rules = RULES["parameters"]
    return size if rules.low <= size <= rules.high else None


def short_config(content: bytes) -> str:
    """Return the text of an uploaded ``config.json``, without tables of labels where it is long.

    Raises InputError if it is unusable, or too long even so.

    >>> short_config(b'{"hidden_size": 64}')
    '{"hidden_size": 64}'
    """
    parsed = load_config_text(content)
    text = content.decode()
    if len(text) > MAX_KEPT_CHARACTERS:
        text = json.dumps(_unlabelled(parsed), indent=1)
    load_config_text(text, most=MAX_KEPT_CHARACTERS)
    return text


def _unlabelled(config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration that says how many labels there are, not which."""
    kept = {
        name: _unlabelled(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name not in ("id2label", "label2id")
    }
    labels = config.get("id2label")
    return kept | ({"num_labels": len(labels)} if isinstance(labels, dict) and labels else {})


def _config_problem(text: str) -> str | None:
    if not text.strip():
        return "Paste the text of the model's config.json, or upload it."
    try:
        load_config_text(text, most=MAX_KEPT_CHARACTERS)
    except InputError as error:
        return f"cannot be read: {error.what}. {error.remedy}"
    return None


def _number(text: str, rules: Rules) -> float | None:
    """Read a field in its own unit: hours, USD, milliseconds or a count."""
    text = text.strip()
    if not text and rules.blank:
        return None
    bare = rules.kind is Reads.MS and not text[-1:].isalpha()  # could be seconds
    parse = parse_duration if bare else rules.kind.parse
    return parse(text, field=rules.label) if parse else None


def shown(text: str) -> str:
    """Return a value in quotes, shortened, on one line."""
    line = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:40]
    )
    return f"'{line}…'" if len(text) > 40 else f"'{line}'"


def few(options: Sequence[str]) -> str:
    """Return the first options, and how many others there are.

    >>> few(["red", "green", "blue", "black", "white", "grey", "pink", "brown", "gold", "cyan"])
    'red, green, blue, black, white, grey, pink, brown and 2 others'
    """
    if len(options) <= MOST_NAMED + 1:
        return ", ".join(options)
    return f"{', '.join(options[:MOST_NAMED])} and {len(options) - MOST_NAMED} others"


def _bound(value: float, kind: Reads) -> str:
    unit = {Reads.HOURS: " hours", Reads.USD: " USD", Reads.MS: " ms"}.get(kind, "")
    if value < 1e5 or kind in (Reads.WHOLE, Reads.LENGTH):
        return f"{value:,.10g}{unit}"
    return f"1e{round(math.log10(value))}{unit}"
