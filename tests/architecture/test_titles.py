"""Names of models as a list shows them."""

from __future__ import annotations

from advisor.architecture.presets import list_presets, load_preset
from advisor.architecture.titles import FILE, by_use, model_title
from advisor.foundation.data_files import read_yaml
from advisor.foundation.resources import data_path


def test_sizes_are_those_of_the_operator_table() -> None:
    content = read_yaml(data_path(FILE))
    assert isinstance(content, dict)
    sizes = content["sizes"]
    wrong = {
        name: (size, load_preset(name).total_parameters)
        for name, size in sizes.items()
        if load_preset(name).total_parameters != size
    }
    assert not wrong


def test_every_preset_is_listed_once_the_most_asked_first() -> None:
    listed = by_use()
    assert sorted(listed) == sorted(list_presets())
    assert listed[0] == "llama-3.1-8b"


def test_titles_tell_all_presets_apart() -> None:
    titles = [model_title(name) for name in list_presets()]
    assert len(set(titles)) == len(titles)
    assert {"Llama 3.1 8B", "Qwen3 30B A3B", "GPT OSS 20B", "Stable Diffusion XL U-Net"} < set(
        titles
    )
