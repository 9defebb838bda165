"""The page of supported models says what the code does."""

from __future__ import annotations

import json
from pathlib import Path

from advisor.architecture.huggingface import architecture_from_config
from advisor.architecture.registry import FAMILIES
from advisor.architecture.support_table import models_page
from advisor.errors import AdvisorError

ROOT = Path(__file__).parents[2]
CONFIGS = json.loads((ROOT / "tests" / "data" / "hf_configs.json").read_text(encoding="utf-8"))


def test_the_page_is_up_to_date() -> None:
    """Mend it with ``python -m advisor.architecture > docs/models.md``."""
    assert (ROOT / "docs" / "models.md").read_text(encoding="utf-8") == models_page()


def test_every_type_is_on_the_page() -> None:
    page = models_page()
    assert [kind for kind in FAMILIES if f"`{kind}`" not in page] == []


def test_the_last_column_is_true() -> None:
    """Families marked as counted are those whose models refuse estimates."""
    for config in CONFIGS.values():
        family = FAMILIES.get(config["model_type"])
        if family is None:
            continue
        try:
            model = architecture_from_config(config)
        except AdvisorError:
            continue
        assert (model.not_estimated is None) == family.estimated, config["model_type"]
