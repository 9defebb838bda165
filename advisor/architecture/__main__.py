"""Print the page of supported models: ``python -m advisor.architecture > docs/models.md``."""

import sys
from collections.abc import Iterable

from advisor.architecture.families.registry import family_of, refused_types, supported_types
from advisor.architecture.presets import list_presets
from advisor.architecture.table.model import Unit
from advisor.foundation.data_files import items, page, table


def models_page() -> str:
    """Return the Markdown page: notes, the table of families, the presets, the refused types."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for kind in supported_types():
        family = family_of(kind)
        shown = family.title, f"{family.takes.value}s", family.summary
        grouped.setdefault(shown, []).append(kind)
    reasons: dict[str, list[str]] = {}
    for kind, reason in refused_types().items():
        reasons.setdefault(reason, []).append(kind)
    families = sorted(grouped.items(), key=lambda item: item[0][0].lower())
    presets = {unit: list_presets(unit) for unit in Unit}
    return page(
        "models",
        families=table(
            ("family", "`model_type`", "takes", "what it is"),
            [(title, _listed(kinds), *further) for (title, *further), kinds in families],
        ),
        presets=items(
            f"{len(names)} that take {unit.value}s: {_listed(names)}."
            for unit, names in presets.items()
        ),
        refused=items(f"{_listed(kinds)}: {reason}" for reason, kinds in reasons.items()),
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(models_page())
