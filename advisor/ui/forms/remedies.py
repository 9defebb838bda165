"""Changes of the question that may make something work: each is one click on the page.

What each would bring is the engine's to say; `parts.remedies` asks it.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from advisor import api
from advisor.architecture.titles import in_letters
from advisor.foundation.record import record
from advisor.foundation.units import round_significant
from advisor.nouns.hardware import PriceKind
from advisor.nouns.inputs import TEXT, WRITING, Task
from advisor.ui.forms.inputs import Inputs
from advisor.ui.forms.reading import network_of, problem_of, read, used, value_title
from advisor.ui.forms.rules import OWN, RULES

MARGIN: Final = 1.02
"""Limits are compared with the unrounded figures."""
SHORTEST: Final = 1024
"""Longer prompts and sequences can be halved. [tokens]"""
RESTRICTIONS: Final = ("providers", "accelerators", "vendor", "framework", "allow_software")
WORK: Final = ("tokens", "pretrain_tokens", "samples")
LIMITS: Final = ("deadline", "pretrain_deadline", "budget", "monthly_budget")
OPTIONS: Final = re.compile(r" \((--[^)]*)\)")
"""What a remark names for the command line, e.g. ``(--weights fp8 --risk 50%)``."""
LONGEST_TITLE: Final = 30
"""A longer value is said without what stands in brackets. [characters]"""


@record
class Remedy:
    """One change: what the button says, and the inputs that it sets."""

    title: str
    changes: Mapping[str, str]

    def applied(self, inputs: Inputs) -> Inputs:
        """Return the question with the change."""
        return replace(inputs, **dict(self.changes))


def near_misses(inputs: Inputs, rejections: Iterable[api.Rejection]) -> Iterator[Remedy]:
    """Yield limits that the nearest accelerators meet, the smallest change of each limit.

    After a deadline comes the work that can be done until then.
    """
    least: dict[tuple[str, str], float] = {}
    for item in rejections:
        if item.actual is not None and item.limit and item.actual > item.limit:
            place = (item.code.value, item.unit)
            least[place] = min(item.actual, least.get(place, math.inf))
    deadline = "deadline" if used("deadline", inputs) else "pretrain_deadline"
    budget = "budget" if used("budget", inputs) else "monthly_budget"
    if hours := least.get(("deadline", "h")):
        text = f"{math.ceil(hours * MARGIN)} h"
        yield Remedy(f"Deadline {text}", {deadline: text})
        work = next((name for name in WORK if used(name, inputs)), "")
        if amount := read(inputs).numbers.get(work):
            limit = read(inputs).numbers.get(deadline) or hours
            text = in_letters(round_significant(amount * limit / hours / MARGIN, 2, "down"))
            yield Remedy(f"{RULES[work].label}: {text}", {work: text})
    if usd := least.get(("budget", "USD")):
        text = f"{round_significant(usd * MARGIN, 2, 'up'):.0f}"
        yield Remedy(f"Budget {float(text):,.0f} USD", {budget: text})


def changes(inputs: Inputs) -> Iterator[Remedy]:
    """Yield other changes that need less, the smallest sacrifice first."""
    numbers = read(inputs).numbers
    network = network_of(inputs)
    text = network in (WRITING if inputs.task == Task.SERVE else TEXT)
    weights = vars(inputs)["weights"]
    if inputs.task == Task.SERVE:
        if text and weights not in ("fp8", "w4a16"):
            yield Remedy("8-bit weights", {"weights": "fp8"})
        if text and weights != "w4a16":
            yield Remedy("4-bit weights", {"weights": "w4a16"})
        if text and (numbers.get("users") or 1) > 1:
            yield Remedy("One user", {"users": "1"})
        if text and (prompt := numbers.get("prompt") or 0) >= SHORTEST:
            yield Remedy(f"Prompts of {prompt / 2:,.0f} tokens", {"prompt": f"{prompt / 2:.0f}"})
        if text and (inputs.speed or inputs.first_token):
            yield Remedy("No limits of speed", {"speed": "", "first_token": ""})
    elif text:
        if inputs.task == Task.FULL:
            yield Remedy("LoRA instead", {"task": Task.LORA.value})
        if inputs.task in (Task.FULL, Task.LORA):
            yield Remedy("QLoRA instead", {"task": Task.QLORA.value})
        sequence = numbers.get("sequence") or 4096
        if sequence >= SHORTEST:
            yield Remedy(
                f"Sequences of {sequence / 2:,.0f} tokens", {"sequence": f"{sequence / 2:.0f}"}
            )
    if inputs.rent == OWN:
        count = int(numbers.get("own_count") or 1)
        yield Remedy("+1 card", {"own_count": str(count + 1)})
        if count > 1:
            yield Remedy(f"{2 * count} cards", {"own_count": str(2 * count)})
        yield Remedy("Rent instead", {"rent": PriceKind.ON_DEMAND.value})
    restricted = [name for name in RESTRICTIONS if getattr(inputs, name)]
    if restricted:
        yield Remedy("Any provider and card", dict.fromkeys(restricted, ()))  # type: ignore[arg-type]
    unlimited = [name for name in LIMITS if used(name, inputs) and getattr(inputs, name)]
    for name in unlimited:
        yield Remedy(f"No {RULES[name].label.lower().partition(' (')[0]}", {name: ""})


def advised(inputs: Inputs, message: str) -> Remedy | None:
    """Return the change that a remark names as options; None where the page has no such input."""
    found = OPTIONS.search(message)
    words = found[1].split() if found else []
    changes: dict[str, str] = {}
    for flag, value in zip(words[::2], words[1::2], strict=False):
        names = [name for name, one in RULES.items() if one.flag == flag and used(name, inputs)]
        if not names or problem_of(replace(inputs, **{names[0]: value}), names[0]):
            return None
        changes[names[0]] = value
    if not changes or len(words) != 2 * len(changes):
        return None
    return Remedy(", ".join(map(_set, changes, changes.values())), changes)


def _set(name: str, value: str) -> str:
    title = value_title(name, value)
    title = title.partition(" (")[0] if len(title) > LONGEST_TITLE else title
    return f"{RULES[name].label.partition(' (')[0]}: {title}"
