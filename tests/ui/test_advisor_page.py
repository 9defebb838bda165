"""The page *Advisor* in process, with the stand-in engine and, where it says so, the real one."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

import advisor
from advisor.errors import InputError
from advisor.nouns.case import AssumedShape, Case
from advisor.nouns.workload import Serving
from advisor.planning.results import Recommendation
from tests.cases import tune
from tests.ui import factory
from tests.ui.drawn import charts_of
from tests.ui.seen import seen
from tests.ui.test_one_case import opened, text

pytestmark = pytest.mark.usefixtures("fresh_caches")

L40S = "Rent 1x NVIDIA L40S: $10.00."


def headline(page: AppTest) -> str:
    assert not page.exception
    [found] = [item.value for item in page.html if 'role="status"' in item.value]
    assert "<span>" in found  # what the answer is about
    text: str = found.partition('class="answer">')[2].removesuffix("</span></p>")
    return seen(text)


def texts(page: AppTest) -> str:
    """All Markdown of the page, without the escapes."""
    return seen("\n".join(item.value for item in page.markdown))


def test_the_page_opens_with_an_answer(page: AppTest) -> None:
    page.run()

    assert headline(page) == L40S
    assert [item.value for item in page.metric] == ["10 h", "$10", "29 GiB"]
    assert "8–13 h: 8 of 10 comparable measured runs fell in it" in texts(page)
    assert len(charts_of(page)) == 2
    assert not page.error
    assert not page.warning


def test_the_page_names_its_assumptions(page: AppTest) -> None:
    page.run()

    [caption] = [item.value for item in page.caption if "Assumed" in item.value]
    assert "LoRA rank 16" in caption
    assert "64 sequences per optimizer step" in caption


def test_plan_cards_name_price_provider_region_and_date(page: AppTest) -> None:
    page.run()

    assert [item.value for item in page.header][:2] == [
        "Fastest and best value",
        "What speed costs",
    ]
    shown = texts(page)
    assert "$1.00/h at Example Cloud, us-east (l40s-x1), price of 2026-09-01 (old: " in shown
    assert "29 GiB" in [item.value for item in page.metric]
    assert "of 45 GiB usable" in shown
    assert "Runner-up: $99 with another card." in shown


def test_charts_have_text_alternatives(page: AppTest) -> None:
    page.run()

    first, second = (item.alt for item in charts_of(page))
    assert "Cheapest: 1x NVIDIA L40S, 10 h, $10" in first
    assert "29 GiB (up to 32) of 45.0 GiB usable" in second


@pytest.mark.parametrize(
    ("task", "kind", "method"),
    [
        ("lora", "fine_tuning", "lora"),
        ("qlora", "fine_tuning", "qlora"),
        ("full", "fine_tuning", "full"),
        ("pretrain", "pretraining", None),
        ("serve", "serving", None),
    ],
)
def test_each_task_asks_its_own_question(
    page: AppTest, asked: list[Case], task: str, kind: str, method: str | None
) -> None:
    page.run()
    page.selectbox(key="in_task").set_value(task).run()

    assert headline(page)
    assert asked[-1].workload.kind == kind
    assert getattr(asked[-1].workload, "method", None) == method


def test_serving_shows_latencies_and_a_monthly_cost(page: AppTest) -> None:
    page.run()
    page.selectbox(key="in_task").set_value("serve").run()

    assert [item.value for item in page.metric] == ["25", "400 ms", "0.50", "$730", "27 GiB"]
    assert re.search(r"Output: \*\*[\d,]+ tokens/s from 1 replica\*\*", texts(page))
    [caption] = [item.value for item in page.caption if "Assumed" in item.value]
    assert "prompts of 1,024 and answers of 256 tokens" in caption


def test_a_changed_input_changes_the_answer(page: AppTest) -> None:
    page.run()
    page.text_input(key="in_tokens").set_value("20M").run()

    assert headline(page) == "Rent 1x NVIDIA L40S: $20.00."
    assert page.metric[0].value == "20 h"


def test_a_deadline_excludes_what_is_too_slow(page: AppTest) -> None:
    page.run()
    page.text_input(key="in_deadline").set_value("5h").run()

    # One H100 takes 4 h at 2.50 an hour; one L40S would take 10 h.
    assert headline(page) == "Rent 1x NVIDIA H100 SXM5 80GB: $10.00."


def test_the_same_question_is_asked_once(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.text_input(key="in_tokens").set_value("20M").run()
    page.text_input(key="in_tokens").set_value("10M").run()

    assert [item.workload.tokens for item in asked if item.workload.kind != "serving"] == [1e7, 2e7]


def test_a_wrong_value_is_told_at_its_field_and_the_rest_is_kept(page: AppTest) -> None:
    page.run()
    page.text_input(key="in_budget").set_value("60").run()
    page.text_input(key="in_tokens").set_value("abc").run()

    [error] = page.error
    assert seen(error.value) == (
        "Tokens must be a number like 50M or 2e9, not 'abc'. The answer is for 10M."
    )
    assert headline(page) == L40S
    assert page.text_input(key="in_tokens").value == "abc"
    assert page.text_input(key="in_budget").value == "60"


def test_a_corrected_value_clears_the_sentence(page: AppTest) -> None:
    page.run()
    page.text_input(key="in_tokens").set_value("abc").run()
    page.text_input(key="in_tokens").set_value("20M").run()

    assert not page.error
    assert headline(page) == "Rent 1x NVIDIA L40S: $20.00."


def test_an_empty_config_keeps_the_last_model(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.selectbox(key="in_model").set_value("config.json").run()

    [error] = page.info
    assert seen(error.value).startswith("Paste the text of the model's config.json")
    assert asked[-1].model.preset == "llama-3.1-8b"


def test_a_pasted_config_reaches_the_engine(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.selectbox(key="in_model").set_value("config.json").run()
    page.text_area(key="in_config").set_value('{"model_type": "llama"}').run()

    assert not page.error
    assert asked[-1].model.config == {"model_type": "llama"}


def test_an_uploaded_config_fills_the_text(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.selectbox(key="in_model").set_value("config.json").run()
    page.file_uploader[0].upload("config.json", b'{"model_type": "llama"}').run()

    assert page.text_area(key="in_config").value == '{"model_type": "llama"}'
    assert asked[-1].model.config == {"model_type": "llama"}


def test_an_upload_that_is_no_text_is_told(page: AppTest) -> None:
    page.run()
    page.selectbox(key="in_model").set_value("config.json").run()
    page.file_uploader[0].upload("config.json", b"\xff\xfe\x00").run()

    assert any("is not UTF\\-8 text" in item.value for item in page.error)


def test_a_parameter_count_is_a_model(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.selectbox(key="in_model").set_value("parameters").run()
    page.text_input(key="in_parameters").set_value("13B").run()

    assert asked[-1].model.parameters == 13e9


def test_the_shape_behind_a_count_is_shown_and_edited(page: AppTest, asked: list[Case]) -> None:
    page.session_state["shape"] = True
    page.run()
    page.selectbox(key="in_model").set_value("parameters").run()

    table = page.dataframe[0].value
    # 6.74 billion parameters (arXiv:2307.09288), 7.62 (arXiv:2412.15115), 8.03 (arXiv:2407.21783).
    assert list(table["Model"])[1:4] == ["Llama 2 7B", "Qwen2.5 7B", "Llama 3.1 8B"]
    assert list(table["Feed-forward width"])[1:4] == ["11,008", "18,944", "14,336"]
    assert page.text_input(key="in_hidden_size").placeholder == "4,096"

    page.selectbox(key="in_shape_like").set_value("Llama 3.1 8B").run()
    page.text_input(key="in_kv_heads").set_value("4").run()

    assert asked[-1].model.shape == AssumedShape(like="Llama 3.1 8B", num_key_value_heads=4)


def test_a_shape_that_cannot_be_is_told_at_its_field(root: Path) -> None:
    """With the real engine."""
    page = AppTest.from_file(str(root / "app.py"), default_timeout=60)
    page.session_state["shape"] = True
    page.run()
    page.selectbox(key="in_model").set_value("parameters").run()
    page.text_input(key="in_heads").set_value("24").run()
    [caption] = [item.value for item in page.caption if "Assumed" in item.value]
    assert "scaled with the given num\\_attention\\_heads" in caption
    page.text_input(key="in_hidden_size").set_value("4096").run()

    [problem] = [seen(item.value) for item in page.error]
    assert "Heads does not divide the hidden size" in problem


def test_a_link_without_an_answer_shows_its_own_question(root: Path) -> None:
    """With the real engine: what BERT reads is shorter than the prompt."""
    page = AppTest.from_file(str(root / "app.py"), default_timeout=60)
    asked = {"model": "bert-base", "task": "serve", "prompt": "600"}
    page.query_params.update(asked)
    page.run()

    [problem] = [seen(item.value) for item in page.error]
    assert problem.startswith("Prompt tokens exceeds the model's context. Allowed: at most 512")
    assert "The answer is for" not in problem
    assert not page.metric
    assert not charts_of(page)
    assert page.session_state["in_prompt"] == "600"
    assert {name: page.query_params[name] for name in asked} == asked

    page.session_state["in_prompt"] = "100"  # its box is folded
    page.run()
    assert not page.error
    page.session_state["in_prompt"] = "600"
    page.run()

    [problem] = [seen(item.value) for item in page.error]
    assert problem.startswith("Prompt tokens exceeds the model's context.")
    assert problem.endswith("The answer is for 100.")
    assert page.metric


def test_lengths_that_nobody_entered_fit_the_model(root: Path) -> None:
    page = AppTest.from_file(str(root / "app.py"), default_timeout=60)
    page.query_params["model"] = "bert-base"  # 512 positions
    page.query_params["task"] = "serve"
    page.run()

    assert not page.error
    [caption] = [item.value for item in page.caption if "Assumed" in item.value]
    assert "sequences of 512 tokens, which is what the model's positions hold" in caption


def test_owned_cards_can_be_named(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.selectbox(key="in_rent").set_value("own").run()
    page.text_input(key="in_own_count").set_value("2").run()

    [owned] = asked[-1].limits.owned
    assert (owned.accelerator, owned.count) == ("rtx-4090", 2)


def test_advanced_counts_its_changes_and_resets(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.session_state["advanced"] = True
    page.run()
    page.text_input(key="in_sequence").set_value("8192").run()
    page.selectbox(key="in_optimizer").set_value("adamw_8bit").run()

    assert "Advanced (2 changed): Sequence length, Optimizer" in texts(page)
    assert asked[-1].workload.kind == "fine_tuning"
    assert asked[-1].workload.sequence_length == 8192

    [reset] = [item for item in page.button if item.label == "Reset"]
    reset.click().run()

    assert "changed)" not in texts(page)
    assert page.text_input(key="in_sequence").value == ""
    assert page.selectbox(key="in_optimizer").value == ""  # the usual one of the network


def test_advanced_values_stay_when_closed(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.session_state["advanced"] = True
    page.run()
    page.text_input(key="in_sequence").set_value("8192").run()
    page.session_state["advanced"] = False
    page.run()
    page.text_input(key="in_tokens").set_value("20M").run()

    assert "Advanced (1 changed): Sequence length" in texts(page)
    assert asked[-1].workload.kind == "fine_tuning"
    assert asked[-1].workload.sequence_length == 8192


def test_why_not_answers_with_the_rejection(page: AppTest) -> None:
    page.run()
    page.selectbox(key="why_not").set_value(factory.RTX_4090).run()

    assert any(
        seen(item.value).startswith("NVIDIA GeForce RTX 4090 is 5.0 GiB short")
        for item in page.info
    )


def test_why_not_answers_with_the_plan_for_a_recommended_card(page: AppTest) -> None:
    page.run()
    page.selectbox(key="why_not").set_value("NVIDIA L40S").run()

    assert any("number 1 when sorted by cheapest" in item.value for item in page.info)


def test_rejections_can_be_filtered(page: AppTest) -> None:
    page.run()
    page.session_state["rejections"] = True
    page.run()
    page.text_input(key="rejections_filter").set_value("4090").run()

    [table] = page.table
    assert table.value["Accelerator"].tolist() == ["NVIDIA GeForce RTX 4090"]


def test_every_number_opens_into_formula_and_source(page: AppTest) -> None:
    page.run()
    page.session_state["computed"] = True
    page.run()

    memory = page.table[0].value
    assert memory["Formula"].tolist() == ["parameters x bytes per parameter"]
    assert "arXiv\\:1910.02054" in memory["Source"].tolist()[0]
    assert "### Memory on each accelerator: 29 GiB (27–32)" in texts(page)


def test_details_are_built_only_when_opened(page: AppTest) -> None:
    page.run()

    assert len(page.table) == 0


def test_nothing_works_says_what_would(page: AppTest) -> None:
    page.run()
    page.text_input(key="in_budget").set_value("0.5").run()

    assert headline(page) == "Nothing works within your limits."
    assert "What would change that" in texts(page)
    assert "**QLoRA keeps the base in 4 bits.**" in texts(page)
    assert not page.metric


def test_an_error_of_the_engine_is_told_at_its_field(
    page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.run()

    def refuse(
        case: Case, on_sentence: Callable[[str], object] = str, **left_out: bool
    ) -> Recommendation:
        if case.workload.kind == "fine_tuning" and case.workload.tokens == 20e6:
            raise InputError(
                "tokens are too many",
                value=20e6,
                allowed="up to 15 M",
                remedy="Train on fewer.",
                field="workload.tokens",
            )
        return factory.recommend_aloud(case, on_sentence)

    monkeypatch.setattr("advisor.api.recommend", refuse)
    page.text_input(key="in_tokens").set_value("20M").run()

    [error] = page.error
    assert seen(error.value).startswith("Tokens are too many. Allowed: up to 15 M. Train on fewer.")
    assert headline(page) == L40S


def test_an_unexpected_error_shows_no_traceback(
    page: AppTest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(
        case: Case, on_sentence: Callable[[str], object] = str, **left_out: bool
    ) -> Recommendation:
        raise ZeroDivisionError("secret path")

    monkeypatch.setattr("advisor.api.recommend", fail)
    page.run()

    assert not page.exception
    [error] = page.error
    assert "Your inputs are kept" in error.value
    assert "secret path" not in error.value
    assert "ZeroDivisionError: secret path" in caplog.text


def link_of(page: AppTest) -> str:
    page.session_state["share"] = True
    page.run()
    [code] = page.code
    text: str = code.value
    return text


def test_a_link_brings_the_inputs_to_another_session(
    root: Path, page: AppTest, asked: list[Case]
) -> None:
    other = AppTest.from_file(str(root / "app.py"), default_timeout=30)
    page.run()
    page.selectbox(key="in_task").set_value("serve").run()
    page.text_input(key="in_users").set_value("50").run()
    question = asked[-1]
    query = link_of(page).partition("?")[2]

    other.query_params.update(parse_qs(query, keep_blank_values=True))
    other.run()

    assert not other.exception
    assert not other.warning
    assert other.text_input(key="in_users").value == "50"
    assert asked[-1] == question


def test_a_link_with_wrong_values_names_them(page: AppTest) -> None:
    page.query_params["task"] = "serve"
    page.query_params["users"] = "5M"
    page.query_params["model"] = "no-such-model"
    page.run()

    [warning] = page.warning
    told = seen(warning.value)
    assert "Model must be" in told
    assert "not 'no-such-model'. Now: Llama 3.1 8B." in told
    [problem] = [seen(item.value) for item in page.error]
    assert problem == "Users at once must be 1 to 1,000,000, not '5M'. The answer is for 8."
    assert page.text_input(key="in_users").value == "5M"
    assert headline(page)


def test_an_old_link_says_how_the_price_moved(page: AppTest) -> None:
    page.query_params.update({"v": "1", "engine": "0.0.9", "catalog": "2026-03-01", "usd": "8"})
    page.run()

    # The answer is 10 USD now.
    assert any(
        "said $8.00 with prices up to 2026-03-01; now it is $10 with prices up to 2026-09-01"
        in seen(item.value)
        for item in page.info
    )


def test_the_link_carries_what_was_changed_and_what_the_sender_saw(page: AppTest) -> None:
    page.context = {"url": "https://tools.example.org/gpu/"}
    page.run()
    page.text_input(key="in_budget").set_value("500").run()

    base, _, query = link_of(page).partition("?")
    assert base == "https://tools.example.org/gpu/"
    sent = dict(parse_qsl(query))
    asked = {"v": "1", "task": "lora", "model": "llama-3.1-8b", "deadline": "24 h", "budget": "500"}
    seen = {"engine": advisor.__version__, "catalog": "2026-09-01", "usd": "10.00"}
    assert sent.items() >= (asked | seen).items()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_follow_the_theme(page: AppTest, theme: str) -> None:
    page.context = {"theme": theme}
    page.run()

    [first, _] = charts_of(page)
    background = {"light": "#FFFFFF", "dark": "#171614"}[theme]
    assert f'"paper_bgcolor":"{background}"' in first.spec.replace(" ", "")


def test_page_and_python_give_the_same_answer(root: Path) -> None:
    page = AppTest.from_file(str(root / "app.py"), default_timeout=60).run()
    expected = advisor.recommend(
        tune("llama-3.1-8b", method="lora", tokens=10e6, limits={"deadline_hours": 24})
    )

    assert headline(page) == expected.answer
    assert len(page.selectbox(key="why_not").options) == len(advisor.load_catalog().accelerators)


def test_scaling_is_drawn_when_opened(page: AppTest) -> None:
    page.run()
    before = len(charts_of(page))
    page.session_state["scaling"] = True
    page.run()
    # The cheapest plan is one card of a market that states no network.
    assert any("in another number" in item.value for item in page.markdown)
    plan = page.selectbox(key="scaling_plan")
    plan.set_value(next(name for name in plan.options if name.startswith("Fastest"))).run()

    assert not page.exception
    assert len(charts_of(page)) == before + 1
    page.session_state["scaling_table"] = True
    page.run()
    assert page.table[0].value["Efficiency"].tolist()[0] == "100\u00a0%"


def test_the_plan_has_a_set_up_checklist_for_each_platform(page: AppTest) -> None:
    page.run()
    page.session_state["set_up"] = True
    page.run()
    assert any("#### Driver" in item.value for item in page.markdown)
    page.selectbox(key="platform").set_value("kubernetes").run()
    assert not page.exception
    [steps] = [item.value for item in page.markdown if "#### Driver" in item.value]
    assert "kubectl" in steps
    assert "--" not in steps.partition("#### Driver")[0], "an option of the command line"


def test_the_answer_downloads_as_report_and_as_launch_configuration(page: AppTest) -> None:
    page.run()
    page.session_state["download_part"] = True
    page.run()
    choice = page.selectbox(key="to")
    assert choice.value == "html"
    assert choice.options[0] == "Report to print or save as PDF (HTML)"
    choice.set_value("torchrun").run()
    assert not page.exception
    assert not page.warning
    page.selectbox(key="to").set_value("skypilot").run()
    assert not page.exception


def test_a_newcomer_clicks_an_example_and_sees_it_no_more(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.button(key="Serve a chat to 500 users").click().run()

    assert not page.exception
    assert page.text_input(key="in_users").value == "500"
    workload = asked[-1].workload
    assert isinstance(workload, Serving)
    asked_for = (workload.concurrency, workload.input_tokens, workload.output_tokens)
    assert asked_for == (500, 1024, 256)
    assert "Serve a chat to 500 users" not in {item.key for item in page.button}


def test_models_are_listed_by_name_and_cards_with_memory(page: AppTest) -> None:
    page.run()
    models = page.selectbox(key="in_model").options
    assert models[:2] == ["Llama 3.1 8B · Meta", "Qwen3 8B · Alibaba"]
    assert "DeepSeek V3 · 671B" in models
    page.selectbox(key="in_rent").set_value("own").run()
    cards = page.selectbox(key="in_own_accelerator").options
    assert cards[0] == "RTX 4090 · 24 GB (example)"
    # NVIDIA's product pages: 12 GB (the first RTX 3060) and 8 GB (RTX 3060 Ti).
    first, second = (cards.index(item) for item in ("RTX 3060 · 12 GB", "RTX 3060 Ti · 8 GB"))
    assert first < second


CONFIG = (
    '{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, '
    '"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, '
    '"vocab_size": 128256}'
)


def test_an_own_config_is_asked_for_then_read_back(page: AppTest) -> None:
    page.run()
    page.selectbox(key="in_model").set_value("config.json").run()
    assert not page.error
    assert page.info[0].value.startswith("Paste the text of the model's config")
    page.text_area(key="in_config").set_value(CONFIG).run()
    # Grattafiori et al. 2024, arXiv:2407.21783, table 3: 8B has 32 layers.
    assert "Read as: Llama, 8.03B parameters, 32 layers." in texts(page)

    page.text_area(key="in_config").set_value(CONFIG[:-1]).run()
    assert "not valid JSON" in page.error[0].value
    assert page.error[0].value.endswith("The answer is for the last inputs that worked.")


def test_no_option_of_the_command_line_is_on_the_page() -> None:
    page = opened("advisor", {})
    assert "--" not in text(page)


def test_sliders_write_into_the_boxes(page: AppTest, asked: list[Case]) -> None:
    page.run().select_slider(key="slide_tokens").set_value(50e6).run()
    page.select_slider(key="slide_deadline").set_value(12.0).run()
    assert not page.exception
    assert (page.text_input(key="in_tokens").value, page.text_input(key="in_deadline").value) == (
        "50M",
        "12 h",
    )
    assert vars(asked[-1].workload)["tokens"] == 50e6
    assert asked[-1].limits.deadline_hours == 12
