"""The registry of sources holds what the engine cites, and nothing else."""

import re
from pathlib import Path

from advisor.foundation.references import citation, references


def test_every_source_is_cited(root: Path) -> None:
    modules = (root / "advisor").rglob("*.py")
    data = [root / "data" / name for name in ("lessons.yaml", "terms.yaml")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*modules, *data))
    assert {key for key in references() if not re.search(rf"\b{key}\b", text)} == set()


def test_a_citation_names_who_when_and_where() -> None:
    assert citation("rajbhandari2020") == (
        "S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, ZeRO: Memory Optimizations Toward Training "
        "Trillion Parameter Models, 2020, arXiv:1910.02054, section 5 and figure 1"
    )
