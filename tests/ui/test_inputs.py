"""From what is typed to a case, and from a link back to what was typed."""

import base64
import random
import string
import zlib
from dataclasses import asdict, fields, replace

import pandas as pd
import pytest

import advisor
from advisor.cli import main
from advisor.errors import InputError
from advisor.nouns.case import Case
from advisor.nouns.inputs import ADAPTERS, Network, Task
from advisor.nouns.workload import Serving
from advisor.ui.forms.cases import case_of, in_words, input_field
from advisor.ui.forms.inputs import DEFAULTS, Inputs
from advisor.ui.forms.networks import EXAMPLES
from advisor.ui.forms.reading import problem_of, read, used
from advisor.ui.forms.rules import RULES
from advisor.ui.parts.wording import listed, plain, span
from advisor.ui.session import links
from advisor.ui.session.question import question
from advisor.ui.session.state import inputs_of

CONFIG = '{"model_type": "llama", "hidden_size": 4096}'
PROVIDERS = ("AWS", "RunPod")
ACCELERATORS = {"h100-sxm": "NVIDIA H100 SXM5 80GB", "rtx-4090": "NVIDIA GeForce RTX 4090"}


def changed(**entered: object) -> Inputs:
    """The defaults, but for what was entered."""
    return replace(DEFAULTS, **entered)  # type: ignore[arg-type]


def case(**entered: object) -> Case:
    inputs = changed(**entered)
    reading = read(inputs)
    assert reading.problems == {}
    return Case.model_validate(case_of(inputs, reading.numbers))


PAGE = question(providers=lambda: PROVIDERS, accelerators=lambda: ACCELERATORS)


def encoded(inputs: Inputs) -> dict[str, str]:
    return links.encode(PAGE, asdict(inputs) | {"why": None})


def opened(**parameters: str) -> tuple[Inputs, tuple[str, ...]]:
    found = links.decode(PAGE, parameters)
    return inputs_of(found.values), found.corrections


def test_every_input_has_rules() -> None:
    assert sorted(item.name for item in fields(Inputs)) == sorted(RULES)


def test_the_page_opens_with_an_example() -> None:
    found = case()

    assert found.model.preset == "llama-3.1-8b"
    assert found.workload.kind == "fine_tuning"
    assert found.workload.method == "lora"
    assert found.workload.tokens == 10e6
    assert found.limits.deadline_hours == 24
    assert found.limits.budget_usd is None
    assert found.limits.price_kind == "on_demand"


def test_a_run_takes_epochs_and_evaluation() -> None:
    found = case(epochs="3", evaluation="500K").workload

    assert found.kind == "fine_tuning"
    assert (found.epochs, found.evaluation_tokens) == (3, 500_000)


def test_a_run_goes_once_and_evaluates_nothing_unless_asked() -> None:
    found = case().workload

    assert found.kind == "fine_tuning"
    assert (found.epochs, found.evaluation_tokens) == (None, None)


def test_the_page_asks_for_spares_and_the_load_balancer() -> None:
    workload = case(task="serve", spare_replicas="1", load_balancer="yes").workload
    assert isinstance(workload, Serving)
    assert workload.spare_replicas == 1
    assert workload.load_balancer is True


def test_the_page_asks_for_two_pools() -> None:
    workload = case(task="serve", disaggregated="yes").workload
    assert isinstance(workload, Serving)
    assert workload.disaggregated is True


FLAGS = {
    "tokens": "--tokens",
    "pretrain_tokens": "--tokens",
    "samples": "--samples",
    "deadline": "--deadline",
    "pretrain_deadline": "--deadline",
    "users": "--concurrency",
    "speed": "--max-tpot-ms",
}
"""Options of what the page's question says in words; it says tokens/s, the command the time."""


@pytest.mark.parametrize(
    ("network", "task"),
    [
        (network, task)
        for network in Network
        for task in Task
        if network in (Network.LANGUAGE, Network.ENCODER) or task not in ADAPTERS
    ],
)
def test_what_the_question_leaves_open_is_the_same_on_the_command_line(
    network: Network, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = replace(DEFAULTS, network=network, model=EXAMPLES[network], task=task)
    words = ["recommend", "--model", EXAMPLES[network]]
    words += ["--task", "finetune" if task is Task.FULL else task]
    for name, flag in FLAGS.items():
        if used(name, entered) and (value := getattr(entered, name)):
            words += [flag, f"{1000 / float(value):g}" if name == "speed" else value]
    asked: list[Case] = []

    def stop(found: Case, **_: object) -> None:
        asked.append(found)
        raise SystemExit

    monkeypatch.setattr(advisor, "recommend", stop)
    with pytest.raises(SystemExit):
        main(words)
    assert case(**asdict(entered)).model_dump() == asked[0].model_dump()


def test_pretraining_has_its_own_tokens_and_deadline() -> None:
    found = case(task="pretrain")

    assert found.workload.kind == "pretraining"
    assert found.workload.tokens == 20e9
    assert found.limits.deadline_hours == 720


def test_advanced_inputs_reach_the_case() -> None:
    found = case(
        task="qlora",
        precision="bf16_amp",
        sequence="8k",
        batch="32",
        optimizer="adamw_8bit",
        software="liger",
        rank="64",
        providers=("AWS",),
        accelerators=("h100-sxm",),
        max_accelerators="16",
        usd_per_eur="1.25",
        objective="fastest",
        budget="$1,500",
        rent="spot",
    )

    assert found.workload.kind == "fine_tuning"
    assert (found.workload.method, found.workload.lora_rank) == ("qlora", 64)
    assert (found.workload.sequence_length, found.workload.global_batch) == (8192, 32)
    assert (found.workload.precision, found.workload.optimizer) == ("bf16_amp", "adamw_8bit")
    assert found.workload.software == "liger"
    assert found.limits.providers == ("AWS",)
    assert found.limits.accelerators == ("h100-sxm",)
    assert (found.limits.max_accelerators, found.limits.budget_usd) == (16, 1500)
    assert (found.limits.price_kind, found.objective) == ("spot", "fastest")
    assert found.limits.usd_per_eur == 1.25


def test_owned_cards_replace_renting() -> None:
    found = case(rent="own", own_accelerator="rtx-4090", own_count="2", providers=("AWS",))

    [owned] = found.limits.owned
    assert (owned.accelerator, owned.count) == ("rtx-4090", 2)
    assert found.limits.providers == ()


@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [("parameters", "7B", 7e9), ("13B", "", 13e9), ("1.5e9", "", 1.5e9)],
)
def test_a_size_is_a_model(model: str, parameters: str, expected: float) -> None:
    assert case(model=model, parameters=parameters).model.parameters == expected


def test_a_shape_travels_with_its_count_in_case_and_link() -> None:
    entered = changed(model="7.2B", shape_like="Llama 3.1 8B", layers="32", feed_forward="14,336")
    shape = {"like": "Llama 3.1 8B", "num_hidden_layers": 32, "intermediate_size": 14336}

    assert case_of(entered, read(entered).numbers)["model"] == {"parameters": 7.2e9, "shape": shape}
    assert opened(**encoded(entered)) == (entered, ())
    # A named model has its own shape.
    assert case(layers="32").model == case().model


def test_a_pasted_config_travels_parsed() -> None:
    found = case(model="config.json", config=CONFIG)

    assert found.model.config == {"model_type": "llama", "hidden_size": 4096}


def test_a_path_pasted_as_config_is_never_opened() -> None:
    reading = read(replace(DEFAULTS, model="config.json", config="/etc/hostname"))

    assert reading.problems["config"].startswith("cannot be read: the config is not valid JSON")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("users", "5M", "must be 1 to 1,000,000, not '5M'."),
        ("users", "2.5", "must be a whole number, not '2.5'."),
        ("tokens", "abc", "must be a number like 50M or 2e9, not 'abc'."),
        ("tokens", "", "must be a number like 50M or 2e9, not ''."),
        ("tokens", "-5", "must be a number like 50M or 2e9, not '-5'."),
        ("tokens", "0.1", "must be 1 to 1e15, not '0.1'."),
        ("deadline", "24", "must be a time like 24h or 3 days or blank, not '24'."),
        ("deadline", "9e9 days", "must be 0.01 hours to 1e6 hours, not '9e9 days'."),
        ("usd_per_eur", "500", "must be 0.01 to 100, not '500'."),
        ("usd_per_eur", "dear", "must be a rate like 1.12 or blank, not 'dear'."),
        ("budget", "5 EUR", "must be an amount like 500 or blank, not '5 EUR'."),
        ("first_token", "fast", "must be a time like 2 s or 500 ms or blank, not 'fast'."),
        ("task", "cook", None),
        ("config", "", "Paste the text of the model's config.json, or upload it."),
    ],
)
def test_a_wrong_value_is_told(name: str, value: str, expected: str | None) -> None:
    problem = problem_of(replace(DEFAULTS, **{name: value}), name)

    if expected is None:
        assert problem is not None
        assert problem.startswith("must be one of Fine-tune (LoRA), ")
    else:
        assert problem == expected


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("first_token", "500 ms", 500),
        ("first_token", "2 s", 2000),
        ("first_token", "", None),
        ("deadline", "90min", 1.5),
        ("deadline", "3 days", 72),
    ],
)
def test_times_are_read_in_the_unit_of_the_case(
    name: str, value: str, number: float | None
) -> None:
    task = "serve" if name == "first_token" else "lora"
    inputs = replace(DEFAULTS, task=task, **{name: value})

    assert read(inputs).numbers[name] == number


def test_a_field_of_another_task_cannot_be_wrong() -> None:
    assert read(replace(DEFAULTS, users="many")).problems == {}


def test_an_unknown_model_names_the_nearest() -> None:
    problem = problem_of(replace(DEFAULTS, model="lama-3.1-8b"), "model")

    assert problem is not None
    assert "llama-3.1-8b" in problem
    assert problem.endswith("not 'lama-3.1-8b'.")


@pytest.mark.parametrize(
    ("case_field", "task", "expected"),
    [
        ("workload.tokens", "lora", "tokens"),
        ("workload.fine_tuning.tokens", "lora", "tokens"),
        ("workload.tokens", "pretrain", "pretrain_tokens"),
        ("limits.budget_usd", "serve", "monthly_budget"),
        ("workload.sequence_length", "lora", "sequence"),
        ("model.config.hidden_size", "lora", "config"),
        ("limits.owned.0.accelerator", "lora", "own_accelerator"),
        ("layout.tensor", "lora", None),
        ("", "lora", None),
    ],
)
def test_an_error_of_the_engine_finds_its_input(
    case_field: str, task: str, expected: str | None
) -> None:
    assert input_field(case_field, replace(DEFAULTS, task=task)) == expected


CHANGED = changed(
    task="serve",
    model="config.json",
    config=CONFIG,
    users="50",
    monthly_budget="2,000",
    providers=("AWS", "RunPod"),
    accelerators=("h100-sxm",),
    weights="fp8",
    own_accelerator="h100-sxm",
)


@pytest.mark.parametrize("inputs", [DEFAULTS, CHANGED], ids=["defaults", "changed"])
def test_an_address_brings_every_input_back(inputs: Inputs) -> None:
    assert opened(**encoded(inputs)) == (inputs, ())


def test_an_address_is_short_and_leaves_defaults_out() -> None:
    asked = changed(task="qlora", deadline="48h", providers=("AWS", "RunPod"))

    assert encoded(DEFAULTS) == {}
    assert links.address("https://example.org/gpu/?old=1", encoded(asked)) == (
        "https://example.org/gpu/?task=qlora&deadline=48h&providers=AWS~RunPod"
    )


def test_a_link_says_what_its_sender_saw() -> None:
    sent = links.with_answer({"task": "serve"}, engine="0.1.0", catalog="2026-09-01", usd=12.34)

    assert sent["v"] == "1"
    assert links.decode(PAGE, sent).seen == links.Seen("0.1.0", "2026-09-01", 12.34)


def test_links_of_earlier_versions_with_every_input_open() -> None:
    """As version 0.1.0 wrote them: defaults, too."""
    every = {
        name: value if isinstance(value, str) else "~".join(value)
        for name, value in asdict(replace(CHANGED, config="")).items()
        if name != "config"
    }
    sent = every | {"v": "1", "model": "llama-3.1-8b", "engine": "0.1.0", "catalog": "2026-09-01"}

    expected = replace(CHANGED, config="", model="llama-3.1-8b")
    assert opened(**sent) == (expected, ())


def test_every_correction_of_a_link_is_named() -> None:
    found, corrections = opened(task="serve", users="5M", model="no-such-model", frobnicate="1")

    # The box of the users says what is wrong with them.
    assert found == replace(DEFAULTS, task="serve", users="5M")
    model, unknown = corrections
    assert model.startswith("Model must be")
    assert model.endswith("not 'no-such-model'. Now: Llama 3.1 8B.")
    assert unknown == "'frobnicate' is no input of this page; it is ignored."


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"v": "9"}, "made for version '9'"),
        ({"task": "cook"}, "Task must be one of Fine-tune (LoRA), "),
        ({"rent": "steal"}, "Rent or own must be one of"),
        ({"providers": "AWS~Nobody"}, "Providers must be in the catalog, not 'Nobody'. Now: all."),
        (
            {"own_accelerator": "abacus"},
            "GPU must be in the catalog, not 'abacus'. Now: the example.",
        ),
        ({"config": "@@@"}, "config.json is damaged in the link."),
        ({"precision": "fp1"}, "Precision must be one of"),
        ({"tokens": "x" * 5_000}, "…'"),
        ({"tokens": "x" * 10_000}, "Tokens is too long for a link: 10,000 characters."),
    ],
)
def test_a_broken_link_is_corrected(parameters: dict[str, str], words: str) -> None:
    found, [correction] = opened(**parameters)

    assert found == DEFAULTS
    assert words in correction
    assert len(correction) < 500


def test_a_link_cannot_unpack_without_bound() -> None:
    bomb = zlib.compress(b'{"a": "' + b"0" * 1_000_000 + b'"}', 9)
    spelled = base64.urlsafe_b64encode(bomb).decode().rstrip("=")

    assert len(spelled) < links.LONGEST_CONFIG
    _, [correction] = opened(config=spelled)
    assert correction == "config.json is damaged in the link. Now: blank."


def test_a_link_of_nonsense_is_told_in_a_few_lines() -> None:
    unknown = {f"x{number}": "<script>" for number in range(100)}
    found, told = opened(**unknown)

    assert found == DEFAULTS
    assert len(told) == links.MOST_CORRECTIONS + 1
    assert told[-1] == "And 88 more."
    _, [ignored] = opened(**{f"x{number}": "" for number in range(900)})
    assert ignored == "The link has 900 values; it is ignored."


def test_a_link_that_is_sent_states_its_defaults() -> None:
    page = question(providers=tuple, accelerators=dict)
    values = asdict(DEFAULTS) | {"why": None, "saved": ()}

    assert links.encode(page, values) == {}
    stated = links.encode(page, values, whole=True)
    assert stated["model"] == "llama-3.1-8b"
    assert stated["deadline"] == "24 h"
    assert links.decode(page, stated).values == values


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        (links.number("n", "Number", 8, 1, 100), "1e400", "must be 1 to 100, not '1e400'."),
        (links.number("n", "Number", 8, 1, 100), "nan", "must be 1 to 100, not 'nan'."),
        (links.number("n", "Number", 8, 1, 100), "2.5", "must be a whole number, not '2.5'."),
        (links.number("n", "Number", None, 0.5), "0.1", "must be at least 0.5, not '0.1'."),
        (links.number("n", "Number", None, 0.5), "dear", "must be a number, not 'dear'."),
        (links.flag("f", "Flag"), "maybe", "must be one that the page offers, not 'maybe'."),
        (links.text("t", "Text"), "a\nb", "must be a short line of text, not 'a\ufffdb'."),
    ],
)
def test_a_field_refuses_what_its_box_could_not_hold(
    field: links.Field, value: str, problem: str
) -> None:
    assert field.read(value)[1] == problem


def test_numbers_keep_every_digit_in_an_address() -> None:
    field = links.number("n", "Number", None, 0)

    assert [field.write(value) for value in (20_000.0, 0.1, 12_345_678.25)] == [
        "20000",
        "0.1",
        "12345678.25",
    ]


@pytest.mark.parametrize("usd", ["nan", "inf", "-1", "1e300", "much"])
def test_a_price_that_is_none_is_left_out(usd: str) -> None:
    sent = {"engine": "0.1.0", "catalog": "2026-09-01", "usd": usd}

    assert links.decode(PAGE, sent).seen is None


def test_a_config_too_long_for_a_link_stays_out_of_it() -> None:
    noise = "".join(random.Random(0).choices(string.ascii_letters, k=60_000))
    inputs = replace(DEFAULTS, model="config.json", config=noise)

    assert links.packed(noise) is None
    assert encoded(inputs) == {"model": "config.json"}


def test_markdown_shows_text_as_it_is() -> None:
    assert plain("$12 ($9–$16) *now*") == "\\$12 \\(\\$9–\u2060\\$16\\) \\*now\\*"
    assert span("29 GiB (27–32)") == "27–32 GiB"
    assert span("$0.49 ($0.20–$1.00)") == "$0.20–$1.00"
    assert span("$431") == ""


def test_errors_are_the_projects_own() -> None:
    with pytest.raises(InputError):
        case_of(replace(DEFAULTS, model="config.json", config="[1]"), read(DEFAULTS).numbers)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("model.shape.hidden_size is not usable", "Hidden size is not usable"),
        ("config field hidden_size is missing", "config field hidden_size is missing"),
        (
            "model.shape alone holds more than model.parameters",
            "shape alone holds more than Parameters",
        ),
        ("input_tokens exceeds the model's context", "Prompt tokens exceeds the model's context"),
        (
            "Choose full fine-tuning (--task finetune), or other targets.",
            "Choose full fine-tuning, or other targets.",
        ),
        ("Correct this field; 'gpu-advisor schema' prints what is allowed.", "Correct this field."),
        ("one of fp32, bf16_mixed, fp16_amp", "one of fp32, bf16_mixed, fp16_amp"),
    ],
)
def test_messages_of_the_engine_take_the_words_of_the_page(said: str, shown: str) -> None:
    assert in_words(said) == shown


def test_a_wide_table_is_a_list_on_a_phone() -> None:
    table = pd.DataFrame([("Weights", "15 GiB", "")], columns=["Term", "Value", "Source"])
    assert listed(table) == ["- **Weights**  \n  Value: 15 GiB"]


def test_a_rate_or_a_day_takes_the_place_of_the_users() -> None:
    """Users at once, a rate and a day exclude each other; scale to zero is a number too."""
    by_rate = {"requests_per_second": "600/min"}
    by_day = {"demand_shape": "office", "peak_requests": "20/s", "min_replicas": "0"}
    rate, day = (replace(DEFAULTS, task="serve", **typed) for typed in (by_rate, by_day))

    asked = [case_of(one, read(one).numbers)["workload"] for one in (rate, day)]

    assert asked[0]["requests_per_s"] == 10
    assert asked[1]["demand"] == {
        "day_shape": "office",
        "peak_requests_per_s": 20,
        "min_replicas": 0,
    }
    assert not any("concurrency" in workload for workload in asked)
    for one in (rate, day):
        Case.model_validate(case_of(one, read(one).numbers))
