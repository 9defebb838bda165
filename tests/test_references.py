"""The registry of sources holds what the engine cites, and nothing else."""

import re
from pathlib import Path

from advisor.foundation.references import references


def test_every_source_is_cited(root: Path) -> None:
    modules = (root / "advisor").rglob("*.py")
    data = [root / "data" / name for name in ("lessons.yaml", "terms.yaml")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*modules, *data))
    assert {key for key in references() if not re.search(rf"\b{key}\b", text)} == set()
