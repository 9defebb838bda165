"""What a person entered: the fields and their defaults.

Values stay as typed (``"10M"``), so that a wrong one can be shown back, kept in a link and
corrected. Reading them returns numbers and, for each that cannot be used, one sentence.
"""

from dataclasses import dataclass, field, fields, make_dataclass
from typing import Final, TypeVar

from advisor.nouns.hardware import PriceKind
from advisor.nouns.inputs import Network, Task
from advisor.ui.forms.rules import RULES

FROM_CONFIG: Final = "config.json"
FROM_COUNT: Final = "parameters"
TUNED_SAMPLES: Final = "20K"
"""Images or samples of the example of fine-tuning; `Inputs` has those of a whole training."""
EXAMPLE_CARD: Final = "rtx-4090"
"""Stands for a card that nobody chose, where a page cannot do without."""

Entered = TypeVar("Entered")


def _with_declared(own: type[Entered]) -> type[Entered]:
    """Add every other input of `RULES`, with the default of its noun."""
    known = {item.name for item in fields(own)}  # type: ignore[arg-type]
    further = [
        (name, type(rules.default), field(default=rules.default))
        for name, rules in RULES.items()
        if name not in known
    ]
    whole = make_dataclass(own.__name__, further, bases=(own,), frozen=True)
    whole.__module__, whole.__doc__ = own.__module__, own.__doc__
    return whole


@_with_declared
@dataclass(frozen=True)
class Inputs:
    """Every input of the page, as entered. The defaults are the example the page opens with.

    Here stand those that the page knows by name, or opens with another value than the noun's.
    """

    task: str = Task.LORA
    network: str = Network.LANGUAGE
    model: str = "llama-3.1-8b"
    config: str = ""
    parameters: str = "7B"
    tokens: str = "10M"
    deadline: str = "24 h"
    pretrain_tokens: str = "20B"
    pretrain_deadline: str = "30 days"
    samples: str = "10M"
    users: str = "8"
    speed: str = ""
    rent: str = PriceKind.ON_DEMAND
    own_accelerator: str = ""
    own_count: str = "1"
    first_token: str = ""


DEFAULTS: Final = Inputs()
