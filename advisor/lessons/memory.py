"""Lessons about memory: where it goes, number formats, sharding, the batch."""

from typing import Final

from advisor import api
from advisor.architecture.titles import in_letters, model_title
from advisor.estimate.results import MEMORY_TITLES, Estimate
from advisor.foundation.formatting import duration as spelled
from advisor.foundation.formatting import memory, milliseconds, percent, rate
from advisor.foundation.units import GB, GIB, HOUR_S, MB, MILLISECOND, plain
from advisor.lessons.asked import Asked
from advisor.lessons.results import Bar, Figures
from advisor.nouns.layout import Offload, ParallelLayout, Sharding
from advisor.nouns.precision import RECIPES, WEIGHT_FORMATS

FORMS: Final = {"fp32": 4.0, "16 bits": 2.0, "8 bits": 1.0, "4 bits": 0.5}
"""Bytes of a parameter."""
TRAINED_IN: Final = ("fp32", "bf16_amp", "bf16_mixed", "bf16_pure", "fp8")
SERVED_IN: Final = ("bf16", "fp8", "int8", "w4a16")
DEGREES: Final = (1, 2, 4, 8)
SHARDED_OVER: Final = 8
"""Cards that the lesson on sharding takes at least."""
SHARDED: Final = {
    Sharding.DDP: "Plain data parallelism",
    Sharding.ZERO1: "ZeRO-1",
    Sharding.ZERO2: "ZeRO-2",
    Sharding.ZERO3: "ZeRO-3 (FSDP)",
}
BYTES_OF_ADAM: Final = 16
"""Mixed precision: weight, gradient, fp32 master and two moments (ZeRO, section 3.1)."""
MOST_POINTS: Final = 10
MISFIT: Final = "does not fit"


def parts(asked: Asked) -> Figures:
    """Return where the memory of a card goes."""
    plan = asked.plan
    sizes = [
        (title, getattr(plan.memory, field).expected) for field, title in MEMORY_TITLES.items()
    ]
    found = sorted((item for item in sizes if item[1] > 0), key=lambda item: -item[1])
    total, parameters = plan.memory.total_bytes, plan.parameters.total
    forms = ", ".join(f"{_decimal(parameters * size)} in {form}" for form, size in FORMS.items())
    first, most = found[0]
    share = f"{percent(most / total.expected)} of it: {first.lower()}"
    card = plan.accelerator_name
    preset = asked.case.model.preset
    model = model_title(preset) if preset else plan.model
    sentences = [
        f"The plan needs {memory(total, with_range=True)} on each {card}, {share}.",
        f"{model} has {in_letters(parameters)} parameters: {forms}.",
    ]
    if not asked.serves:
        adam = _decimal(parameters * BYTES_OF_ADAM)
        sentences.append(
            f"Training every parameter with Adam in mixed precision keeps {adam} of weights, "
            "gradients and optimizer states."
        )
    return Figures(
        sentences=tuple(sentences),
        axis="GiB on each card",
        bars=tuple(Bar.of(title, size, memory(size), scale=GIB) for title, size in found),
        limit=plan.memory.usable_bytes / GIB,
        limit_words=f"{memory(plan.memory.usable_bytes)} usable",
    )


def _decimal(size_bytes: float) -> str:
    """Return a size in GB or MB, as rules of thumb give it."""
    unit, name = (GB, "GB") if size_bytes >= GB else (MB, "MB")
    return f"{plain(size_bytes / unit, 3)} {name}"


def formats(asked: Asked) -> Figures:
    """Return what number formats change in the plan's layout."""
    plan = asked.plan
    field, known = ("weight_format", WEIGHT_FORMATS) if asked.serves else ("precision", RECIPES)
    names = dict.fromkeys((*(SERVED_IN if asked.serves else TRAINED_IN), plan.precision))
    tried = [(name, asked.variant(**{field: name})) for name in names]
    found = [(known[name].title, one, name == plan.precision) for name, one in tried if one]
    title, least, _ = min(found, key=lambda item: item[1].memory.total_bytes.expected)
    smaller, now = memory(least.memory.total_bytes), memory(plan.memory.total_bytes)
    text = f"The plan uses {known[plan.precision].title}"
    if smaller == now:
        text += ". No other format takes less memory on each card"
    else:
        text += f". The smallest is {title}: {smaller} instead of {now} on each card"
    return _memories(asked, found, f"{text}.")


def numbered(cards: int) -> str:
    """Return a number of cards in words."""
    return f"{cards:,} cards" if cards > 1 else "1 card"


def sharding(asked: Asked) -> Figures:
    """Return what dividing a model over cards does to the memory of each."""
    plan = asked.plan
    if asked.serves:
        layouts = {numbered(n): ParallelLayout(tensor=n) for n in DEGREES}
    else:
        start = ParallelLayout(
            data=max(plan.count, SHARDED_OVER), micro_batch=1, recompute=plan.layout.recompute
        )
        layouts = {title: start.changed(sharding=stage) for stage, title in SHARDED.items()}
        hosted = {"sharding": Sharding.ZERO3, "offload": (Offload.OPTIMIZER, Offload.PARAMETERS)}
        layouts["ZeRO-3, states on the host"] = start.changed(**hosted)
    found = [(title, asked.variant(layout=layout)) for title, layout in layouts.items()]
    known = [(title, one, one.layout == plan.layout) for title, one in found if one]
    fit = sum(one.memory.fits for _, one, _ in known)
    cards = plan.accelerator_name if asked.serves else f"{start.data}x {plan.accelerator_name}"
    text = f"On {cards}, {fit} of these {len(known)} arrangements fit."
    if plan.layout.tensor * plan.layout.pipeline == 1 and (asked.serves or plan.count == 1):
        text = f"The plan fits on one card. {text}"
    return _memories(asked, known, text)


def _memories(asked: Asked, found: list[tuple[str, Estimate, bool]], sentence: str) -> Figures:
    usable = asked.plan.memory.usable_bytes
    return Figures(
        sentences=(sentence,),
        axis="GiB on each card",
        bars=tuple(
            Bar.of(
                title,
                one.memory.total_bytes,
                f"{memory(one.memory.total_bytes)}, {speed(one) if one.memory.fits else MISFIT}",
                scale=GIB,
                chosen=chosen,
            )
            for title, one, chosen in found
        ),
        limit=usable / GIB,
        limit_words=f"{memory(usable)} usable",
    )


def speed(found: Estimate) -> str:
    """Return the time of a run, or of a token or a batch that is served."""
    if found.time is not None:
        return spelled(found.time.run_hours.expected * HOUR_S)
    assert found.serving is not None
    return f"{milliseconds(found.serving.tpot_ms.expected * MILLISECOND)} {found.serving.timed}"


def batch(asked: Asked) -> Figures:
    """Return what the batch costs and buys."""
    plan = asked.plan
    case = asked.on(plan.accelerator, plan.count, plan.layout)
    curve = api.memory_curves(case, catalog=asked.catalog)[0]
    fit = sum(point.fits for point in curve.points)
    points = curve.points[max(0, fit - MOST_POINTS) : fit + 1]  # and the first that does not fit
    unit = f"{points[0].unit}s"
    what = "requests at once" if asked.serves else "size of the micro-batch"
    return Figures(
        sentences=(curve.sentence,),
        axis=f"{unit} per second, by {what}",
        bars=tuple(
            Bar.of(
                f"{point.value:,}",
                point.speed_per_s,
                f"{rate(point.speed_per_s.expected, f'{unit}/s')}, {memory(point.memory_bytes)}"
                + ("" if point.fits else f", {MISFIT}"),
                chosen=point.value == curve.chosen,
            )
            for point in points
        ),
    )
