"""Kinds of network on the page: the fields that each has, and the case that they make."""

import pytest
from streamlit.testing.v1 import AppTest

from advisor.architecture.resolve import resolve_model
from advisor.estimate.batch.forward import passes_per_answer
from advisor.nouns.case import Case
from advisor.nouns.inputs import Network
from advisor.nouns.workload import FineTuning, Pretraining, Serving
from advisor.planning.prepared import resolved
from advisor.ui.forms.networks import EXAMPLES, network_named


def fields(page: AppTest) -> set[str]:
    return {str(item.key) for item in page.text_input}


@pytest.mark.parametrize("network", list(Network))
def test_each_kind_opens_with_a_model_of_its_own(network: Network) -> None:
    assert network_named(EXAMPLES[network], "") is network


def test_a_vision_network_asks_for_images(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.selectbox(key="in_network").set_value("vision").run()

    assert not page.exception
    assert not page.error
    assert page.selectbox(key="in_model").value == "resnet-50"
    assert page.selectbox(key="in_task").value == "pretrain"
    assert "in_samples" in fields(page)
    assert not fields(page) & {"in_tokens", "in_pretrain_tokens"}
    workload = asked[-1].workload
    assert isinstance(workload, Pretraining)
    assert (workload.samples, workload.tokens) == (10_000_000, None)


def test_serving_images_asks_for_a_batch_and_a_latency(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.selectbox(key="in_network").set_value("diffusion").run()
    page.selectbox(key="in_task").set_value("serve").run()
    page.text_input(key="in_at_once").set_value("4").run()
    page.text_input(key="in_within").set_value("3 s").run()

    assert not page.exception
    assert not page.error
    workload = asked[-1].workload
    assert isinstance(workload, Serving)
    assert workload.concurrency == 4
    assert asked[-1].limits.max_ttft_ms == 3000
    assert asked[-1].limits.max_tpot_ms is None


def test_a_batch_opens_as_the_command_line_answers_it(page: AppTest, asked: list[Case]) -> None:
    """Diffusers' pipeline takes 50 steps; eight requests at once are the case's own default."""
    page.run()
    page.selectbox(key="in_network").set_value("diffusion").run()
    page.selectbox(key="in_task").set_value("serve").run()

    workload = asked[-1].workload
    assert isinstance(workload, Serving)
    plain = Serving()
    assert workload.concurrency == plain.concurrency
    assert passes_per_answer(resolve_model(asked[-1].model), workload) == passes_per_answer(
        resolve_model(asked[-1].model), plain
    )


def test_the_fields_follow_a_model_that_was_typed(page: AppTest, asked: list[Case]) -> None:
    page.run()
    page.selectbox(key="in_task").set_value("full").run()
    page.selectbox(key="in_model").set_value("efficientnet-b2").run()

    assert not page.error
    assert "in_samples" in fields(page)
    workload = asked[-1].workload
    assert isinstance(workload, FineTuning)
    assert workload.samples == 20_000  # a whole training has more
    page.text_input(key="in_samples").set_value("3M").run()
    page.selectbox(key="in_task").set_value("pretrain").run()
    assert page.text_input(key="in_samples").value == "3M"


def test_an_encoder_is_asked_for_requests_at_once_and_no_tokens_per_second(
    page: AppTest, asked: list[Case]
) -> None:
    page.run()
    page.selectbox(key="in_model").set_value("bge-base-en-v1.5").run()
    assert {"in_tokens", "in_deadline"} < fields(page)
    page.selectbox(key="in_task").set_value("serve").run()

    assert not page.exception
    assert not page.error
    assert {"in_at_once", "in_within"} < fields(page)
    assert not fields(page) & {"in_users", "in_requests_per_second", "in_speed"}
    workload = asked[-1].workload
    assert isinstance(workload, Serving)
    assert workload.concurrency == 8
    shown, _ = resolved(asked[-1])
    assert isinstance(shown.workload, Serving)
    assert shown.workload.input_tokens == 512  # what its table holds
    assert asked[-1].limits.max_tpot_ms is None
