"""Public list prices of hosted models, restated from their source."""

from __future__ import annotations

import pytest

from advisor.architecture.presets import list_presets
from advisor.catalog.api_prices import api_named, load_api_prices
from advisor.errors import InputError

# pydantic/genai-prices 0.2.3, its providers: groq.yml, fireworks.yml,
# anthropic.yml, openrouter.yml, zai.yml. USD for a million tokens: in, cached, out.
PUBLISHED = {
    "Groq/openai/gpt-oss-120b": (0.15, 0.075, 0.6),
    "Fireworks/gpt-oss-20b": (0.07, 0.035, 0.3),
    "Fireworks/deepseek-v4-flash": (0.14, 0.028, 0.28),
    "Anthropic/claude-haiku-4-5": (1.0, 0.1, 5.0),
    "OpenRouter/meta-llama/llama-3.1-8b-instruct": (0.05, 0.025, 0.08),
    "Nebius/meta-llama/Llama-3.3-70B-Instruct": (0.25, None, 0.75),
    "Z.ai/GLM-5.2": (1.4, 0.26, 4.4),
    "DeepSeek/deepseek-v4-pro": (0.66, 0.022, 1.98),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_prices_are_those_of_the_source(name: str) -> None:
    found = api_named(name, load_api_prices())
    assert (found.input_usd, found.cached_input_usd, found.output_usd) == PUBLISHED[name]


def test_rows_of_the_same_weights_name_a_preset() -> None:
    presets = set(list_presets())
    for item in load_api_prices():
        assert (item.weights == "same") == (item.preset in presets), item.name
        if item.cached_input_usd is not None:
            assert item.cached_input_usd < item.input_usd, item.name


def test_an_unknown_or_ambiguous_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"claude-haiku-4-5"):
        api_named("claude-haiku-4.5", load_api_prices())
    with pytest.raises(InputError, match=r"several providers"):
        api_named("meta-llama/Llama-3.3-70B-Instruct", load_api_prices())
