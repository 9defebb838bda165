"""EAGLE-3 heads that somebody published for a model."""

from advisor.architecture.presets import hub_ids_beside
from advisor.architecture.table.model import ModelArchitecture
from advisor.nouns.techniques import technique_facts


def heads_of(model: ModelArchitecture) -> dict[str, str]:
    """Return the hub id of a model's EAGLE-3 heads for each program that starts them.

    Heads of a variant with the same shape count; those of one model do not fit another.

    >>> from advisor.architecture.presets import load_preset
    >>> heads_of(load_preset("qwen3-8b"))
    {'vllm': 'RedHatAI/Qwen3-8B-speculator.eagle3'}
    """
    if model.hub_id is None:
        return {}
    names = {name.lower() for name in (model.hub_id, *hub_ids_beside(model.hub_id))}
    facts = technique_facts().heads
    programs = {"vllm": facts.vllm, "sglang": facts.sglang}
    return {
        program: heads
        for program, published in programs.items()
        for target, heads in published.items()
        if target.lower() in names
    }
