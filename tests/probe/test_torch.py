"""PyTorch on the processors: the same probe, and a real training step."""

import pytest

from advisor.probe.checks.step_model import StepModel, architecture_of
from advisor.probe.checks.training_check import with_checks
from advisor.probe.devices.backend import UnsupportedError
from advisor.probe.devices.host import host_device
from advisor.probe.devices.torch_backend import TorchBackend
from advisor.probe.measuring.run import probe
from advisor.probe.report import ProbeReport, StepShape, TransferKind

pytestmark = pytest.mark.torch

TINY = StepShape(
    name="tiny",
    hidden_size=64,
    layers=2,
    heads=4,
    key_value_heads=2,
    intermediate_size=96,
    vocab_size=256,
    sequence_length=32,
    micro_batch=2,
)
EXPERTS = TINY.model_copy(update={"experts": 4, "active_experts": 2})
CHECKPOINTED = TINY.model_copy(update={"recompute": True})


@pytest.fixture(scope="module")
def report() -> ProbeReport:
    return probe(library="torch", sizes=((8, 64, 64), (64, 64, 64)), time_limit_s=10)


def test_the_processors_through_torch(report: ProbeReport) -> None:
    [found] = report.devices

    assert report.backend.startswith("PyTorch")
    assert {"fp32", "bf16"} <= {row.format for row in found.matmuls}
    assert {row.kind for row in found.transfers} == {TransferKind.COPY, TransferKind.TRIAD}


def test_a_format_that_torch_lacks_is_a_sentence() -> None:
    backend = TorchBackend(host_device(), "cpu")

    with pytest.raises(UnsupportedError, match="int8 product is not supported"):
        # Sizes that do not agree raise what a missing kernel raises.
        backend._guarded("int8 product", _mismatched)


def _mismatched() -> float:
    import torch

    return float(torch.mm(torch.ones(8, 3), torch.ones(4, 5)).sum())


@pytest.mark.parametrize("shape", [TINY, EXPERTS])
def test_the_model_has_the_parameters_of_the_operator_table(shape: StepShape) -> None:
    import torch

    model = StepModel(shape, torch, torch.device("cpu"))
    counted = sum(tensor.numel() for tensor in model.parameters())

    assert counted == architecture_of(shape).total_parameters


def test_parameters_by_hand() -> None:
    # Two tables of 256 x 64; in each layer 64 x (64 + 32 + 32 + 64) of attention, three matrices
    # of 64 x 96, two norms; one norm at the end.
    by_hand = 2 * 256 * 64 + 2 * (64 * 192 + 3 * 64 * 96 + 2 * 64) + 64

    assert architecture_of(TINY).total_parameters == by_hand == 94_528


def test_an_untrained_model_guesses() -> None:
    import torch

    torch.manual_seed(0)
    model = StepModel(TINY, torch, torch.device("cpu"))
    words = torch.randint(256, (2, 33))

    # The loss of a uniform guess over 256 words is ln 256.
    assert float(model.loss(words[:, :-1], words[:, 1:]).detach()) == pytest.approx(5.545, abs=0.05)


def test_checkpointing_changes_neither_loss_nor_gradients() -> None:
    import torch
    import torch.utils.checkpoint

    words = torch.randint(256, (2, 33), generator=torch.Generator().manual_seed(1))
    results = []
    for shape in (TINY, CHECKPOINTED):
        torch.manual_seed(0)
        model = StepModel(shape, torch, torch.device("cpu"))
        loss = model.loss(words[:, :-1], words[:, 1:])
        loss.backward()
        results.append((float(loss.detach()), float(model.parameters()[-1].grad.abs().sum())))

    assert results[0] == pytest.approx(results[1])


def test_steps_are_measured_beside_their_prediction(report: ProbeReport) -> None:
    checked = with_checks(report, shapes=(TINY, EXPERTS, CHECKPOINTED), budget_s=0.5)

    assert [check.shape.name for check in checked.checks] == ["tiny"] * 3
    assert all(check.precision == "fp32" for check in checked.checks)
    assert all(check.measured_bytes is None for check in checked.checks)
    # Weights, gradients and two AdamW states in fp32 are in every peak: 16 bytes a parameter.
    assert checked.checks[0].predicted_bytes.expected > 16 * 94_528
    assert ProbeReport.model_validate_json(checked.to_json()) == checked


def test_a_cancel_before_the_third_step_is_a_sentence(report: ProbeReport) -> None:
    stopped = with_checks(report, shapes=(TINY,), cancelled=lambda: True)

    assert stopped.checks == ()
    assert "tiny: stopped by the user" in stopped.problems


def test_a_report_without_rates_cannot_be_checked(report: ProbeReport) -> None:
    bare = report.devices[0].model_copy(update={"matmuls": ()})
    checked = with_checks(report.model_copy(update={"devices": (bare,)}))

    assert checked.checks == ()
    assert any("can be used for planning" in text for text in checked.problems)
