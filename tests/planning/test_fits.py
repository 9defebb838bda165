"""What fits a card: known limits, and the same answers as ``estimate``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import advisor
from advisor.architecture.resolve import resolve_model
from advisor.architecture.titles import short_list
from advisor.foundation.units import GIB
from advisor.nouns.case import ModelSource
from advisor.nouns.training_choices import FineTuningMethod
from advisor.planning.fits.results import Fits, ModelFit, Verdict
from advisor.planning.fits.training import longest
from tests.cases import serve, tune

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def desktop() -> Fits:
    return advisor.fits("rtx-4090", count=1)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Shorten the list of models that are judged to those that a test asks about."""

    def only(*presets: str) -> None:
        monkeypatch.setattr("advisor.planning.fits.request.short_list", lambda: presets)

    return only


def model(fits: Fits, preset: str) -> ModelFit:
    return next(item for item in fits.models if item.preset == preset)


def test_every_model_of_the_short_list_is_judged_once(desktop: Fits) -> None:
    assert sorted(item.preset for item in desktop.models) == sorted(short_list())


@pytest.mark.parametrize(
    ("preset", "verdict"),
    [
        # 8.03 billion parameters in 8.5 bits are 7.9 GiB of the card's 24.
        ("llama-3.1-8b", Verdict.FITS),
        # 14.7 billion are 14.5 GiB.
        ("phi-4", Verdict.FITS),
        # 46.7 billion in 4.8 bits are 26.4 GiB, in 3.9 bits 21.
        ("mixtral-8x7b", Verdict.FITS_IF_CHANGED),
        # 70.6 billion in 4 bits are at least 32.9 GiB: more than the card, less than its host.
        ("llama-3.3-70b", Verdict.FITS_WITH_HOST),
        # 671 billion in 4 bits are at least 312 GiB.
        ("deepseek-v3", Verdict.DOES_NOT_FIT),
        # OpenAI's model card: made to run within 16 GB in its own 4-bit format.
        ("gpt-oss-20b", Verdict.FITS),
    ],
)
def test_a_24_gib_card_holds_what_its_owners_run(
    desktop: Fits, preset: str, verdict: Verdict
) -> None:
    assert model(desktop, preset).verdict is verdict


def test_an_8b_model_trains_on_24_gib_by_adapters_only(desktop: Fits) -> None:
    # Weights, master copy, gradients and two moments: 16 bytes for each of 8.03 billion.
    full, lora, qlora = model(desktop, "llama-3.1-8b").trained
    assert [fit.method for fit in (full, lora, qlora)] == list(FineTuningMethod)
    assert full.longest_recomputed == 0
    assert full.needed_bytes > 119.6 * GIB
    assert 0 < lora.longest_kept < lora.longest_recomputed < qlora.longest_recomputed


def test_margins_have_the_sign_of_the_verdict(desktop: Fits) -> None:
    assert {item.verdict for item in desktop.models} == set(Verdict)
    for item in desktop.models:
        assert (item.margin_bytes < 0) == (item.verdict is Verdict.DOES_NOT_FIT)
        for fit in item.trained:
            if fit.longest_recomputed >= item.context_tokens:
                assert fit.margin_bytes >= 0


@pytest.mark.parametrize("preset", ["llama-3.1-8b", "gemma-4-e4b"])
def test_serving_gives_the_numbers_of_estimate(desktop: Fits, preset: str) -> None:
    served = model(desktop, preset).served
    estimate = advisor.estimate(
        serve(preset, "rtx-4090", input_tokens=8192 - 256, output_tokens=256, concurrency=1)
    )
    assert estimate.serving is not None
    assert served.max_context_tokens == estimate.serving.max_context_tokens
    assert served.needed_bytes == pytest.approx(estimate.memory.total_bytes.high, rel=1e-9)
    assert served.tokens_per_s is not None
    assert served.tokens_per_s.expected == pytest.approx(
        1000 / estimate.serving.tpot_ms.expected, rel=1e-9
    )


@pytest.mark.parametrize("method", ["lora", "qlora"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_longest_sequence_fits_by_estimate_and_a_tenth_more_does_not(
    desktop: Fits, method: str, recompute: str
) -> None:
    fit = next(item for item in model(desktop, "qwen3-8b").trained if item.method.value == method)
    length = fit.longest_kept if recompute == "none" else fit.longest_recomputed

    def fits(sequence: int) -> bool:
        return advisor.estimate(
            tune(
                "qwen3-8b",
                "rtx-4090",
                method=method,
                sequence_length=sequence,
                layout={"micro_batch": 1, "recompute": recompute, "offload": []},
            )
        ).memory.fits

    assert fits(length)
    assert not fits(int(1.1 * length) + 1)


@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_longer_sequences_take_the_hosts_memory_as_estimate_does(
    desktop: Fits, method: str
) -> None:
    """RunPod's pods with one RTX 4090 have 41 GB (its price page, 2026-10-10)."""
    fit = next(item for item in model(desktop, "qwen3-8b").trained if item.method.value == method)
    assert fit.longest_hosted > fit.longest_recomputed

    def found(sequence: int) -> advisor.Estimate:
        return advisor.estimate(
            tune("qwen3-8b", "rtx-4090", method=method, sequence_length=sequence)
        )

    alone, hosted = found(fit.longest_recomputed - 100), found(fit.longest_hosted - 100)
    assert alone.memory.fits
    assert not alone.layout.offload
    assert hosted.memory.fits
    assert hosted.layout.offload
    assert hosted.memory.host_bytes.high <= 41 * 2**30
    limit = resolve_model(ModelSource(preset="qwen3-8b")).max_position_embeddings or 0
    assert fit.longest_hosted == limit or not found(int(1.1 * fit.longest_hosted)).memory.fits


def test_all_weights_of_a_small_model_train_with_16_bytes_each_in_the_host(
    desktop: Fits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rajbhandari et al. 2020 (arXiv:1910.02054, section 3.1): 1.5B need 25 GB, 3.2B 51 of 44."""
    full = {item.preset: item.trained[0] for item in desktop.models}
    assert full["llama-3.2-3b"].longest == "-"
    # Beyond the short list; test_cli_documents runs `gpu-advisor fits --all` on every family.
    asked = "advisor.planning.fits.request.list_presets"
    monkeypatch.setattr(asked, lambda _: ["qwen2.5-1.5b"])
    [found] = advisor.fits("rtx-4090", everything=True).models
    small = found.trained[0]
    assert small.longest_recomputed == 0 < small.longest_hosted


def test_more_cards_never_lose_a_model(desktop: Fits) -> None:
    several = advisor.fits("rtx-4090", count=4)
    order = list(Verdict)
    for item in desktop.models:
        assert order.index(model(several, item.preset).verdict) <= order.index(item.verdict)


def test_models_with_a_short_context_are_judged_by_their_own(listed: Callable[..., None]) -> None:
    listed("phi-4", "llama-3.1-8b")
    fits = advisor.fits("h100-sxm", context_tokens=65_536)
    # Phi-4 was trained for 16,384 positions.
    assert model(fits, "phi-4").context_tokens == 16_384
    assert model(fits, "llama-3.1-8b").context_tokens == 65_536


def test_longest_takes_the_chord_of_the_first_bracket_that_ends_too_high() -> None:
    needs = np.array([[10.0, 90.0, 1.0], [20.0, 95.0, 2.0], [60.0, 99.0, 3.0]])
    # 20 at 101 and 60 at 301: 40 at 201. The second never fits, the third always.
    assert longest(np.array([1.0, 101.0, 301.0]), needs, 40.0).tolist() == [201.0, 0.0, 301.0]


def test_a_mac_whose_limit_is_raised_says_so_and_how(listed: Callable[..., None]) -> None:
    """117 GiB of weights stood under "Each card has 96 GiB"."""
    listed("qwen3-235b-a22b")
    found = advisor.fits("apple-m4-max", count=1)
    served = model(found, "qwen3-235b-a22b").served
    assert found.memory_bytes == 96 * GIB
    assert served.needed_bytes > 96 * GIB
    assert any("iogpu.wired_limit_mb=122880" in line for line in found.assumptions)


def test_a_card_with_its_own_memory_has_no_limit_to_raise(desktop: Fits) -> None:
    assert not any("by default" in line for line in desktop.assumptions)


def test_mistakes_are_told() -> None:
    with pytest.raises(advisor.InputError, match="too short"):
        advisor.fits("rtx-4090", context_tokens=1)
    with pytest.raises(advisor.InputError, match="unknown accelerator"):
        advisor.fits("rtx-9999")
    with pytest.raises(advisor.InputError, match=r"hardware\.count"):
        advisor.fits("rtx-4090", count=0)


def test_several_sequences_name_the_weights_that_they_need(listed: Callable[..., None]) -> None:
    """Fifty caches of 8,192 tokens, each 2 x 48 layers x 4 heads x 128 x 2 bytes, are 37.5 GiB:
    beside 56.9 GiB of weights in bf16 no card of 80 GiB has room, beside half of that it has."""
    listed("qwen3-30b-a3b")
    [found] = advisor.fits("h100-sxm", concurrency=50).models
    assert found.served.weight_format == "bf16"
    assert found.context_together.endswith(" (fp8)")


def test_of_models_that_do_not_fit_the_nearest_miss_comes_first(desktop: Fits) -> None:
    missed = [model.served.margin_bytes for model in desktop.having(Verdict.DOES_NOT_FIT)]

    assert len(missed) > 1
    assert missed == sorted(missed, reverse=True)
    fitting = [model.parameters for model in desktop.having(Verdict.FITS)]
    assert fitting == sorted(fitting, reverse=True)


@pytest.mark.parametrize(
    ("card", "lacks"),
    [
        # Optimum Habana has no 4-bit training; Pascal 6.1 has next to no fp16 (1/64 of fp32, CUDA
        # C++ Programming Guide, throughput of arithmetic instructions), and no bf16.
        ("gaudi2", {FineTuningMethod.QLORA}),
        ("p40", {FineTuningMethod.QLORA}),
        ("rtx-4090", set()),
    ],
)
def test_only_methods_that_software_offers_on_the_card_are_told(
    card: str, lacks: set[FineTuningMethod], listed: Callable[..., None]
) -> None:
    listed("llama-3.2-3b")
    found = {item.method for item in advisor.fits(card, count=1).models[0].trained}
    assert found == {*FineTuningMethod} - lacks
    case = tune("llama-3.2-3b", method="qlora", tokens=5e6)
    owned = {"owned": [{"accelerator": card, "count": 1}]}
    plans = advisor.recommend({**case, "limits": owned}).plans
    assert bool(plans) == (FineTuningMethod.QLORA in found)
