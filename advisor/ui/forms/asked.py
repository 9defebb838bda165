"""The question in words, as every page says it above its answer."""

from typing import Final

from advisor.architecture.presets import find_preset
from advisor.architecture.titles import in_letters, model_title
from advisor.nouns.inputs import TEXT, Task
from advisor.ui.forms.inputs import FROM_CONFIG, FROM_COUNT, Inputs
from advisor.ui.forms.reading import network_of, typed_size, used, value_title
from advisor.ui.forms.rules import OWN, RULES

MAIN_ROW: Final = (
    "task",
    "network",
    "model",
    *("tokens", "pretrain_tokens", "samples", "deadline", "pretrain_deadline", "budget"),
    *(
        "users",
        "requests_per_second",
        "at_once",
        "audio_hours",
        "speed",
        "within",
        "monthly_budget",
    ),
    "rent",
)
"""Inputs that are always in sight, in the order in which a person decides."""
NAMED: Final = ("task", "network", "model", "rent")
"""Those of them that the name of the work and the hardware say."""
WORK: Final = {
    Task.FULL: "Full fine-tuning of {}",
    Task.LORA: "LoRA fine-tuning of {}",
    Task.QLORA: "QLoRA fine-tuning of {}",
    Task.SERVE: "Serving {}",
}


def model_words(inputs: Inputs) -> str:
    """Return the name of the entered model as people write it."""
    if inputs.model == FROM_CONFIG:
        return "your config.json"
    if inputs.model == FROM_COUNT:
        return f"a model of {inputs.parameters} parameters"
    if preset := find_preset(inputs.model):
        return model_title(preset)
    size = typed_size(inputs.model)
    return f"a model of {in_letters(size)} parameters" if size else inputs.model


def work_words(inputs: Inputs) -> str:
    """Return task and model, e.g. ``LoRA fine-tuning of Llama 3.1 8B``."""
    begun = "Pretraining of {}" if network_of(inputs) in TEXT else "Training of {}"
    return WORK.get(Task(inputs.task), begun).format(model_words(inputs))


def question_words(inputs: Inputs) -> str:
    """Return the work, its amount, its limits and where it runs."""
    parts = [work_words(inputs)]
    for name in MAIN_ROW:
        if name not in NAMED and used(name, inputs) and (value := getattr(inputs, name)):
            label = RULES[name].label
            parts.append(f"{label[:1].lower()}{label[1:]} {value}")
    where = value_title("rent", inputs.rent)
    where = "cards that you own" if inputs.rent == OWN else f"{where[:1].lower()}{where[1:]}"
    return ", ".join([*parts, where])
