"""What processors do otherwise: no driver, no copies, and a cache that holds small networks."""

from __future__ import annotations

import numpy as np
import pytest

from advisor import load_case
from advisor.architecture.resolve import resolve_model
from advisor.catalog import load_catalog
from advisor.catalog.constants import load_calibration
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.hardware.caching import in_cache
from advisor.estimate.hardware.kernel_facts import kernel_facts
from advisor.estimate.hardware.kernel_times import copies_time, launch_time
from advisor.estimate.training.run import resolve_training
from advisor.nouns.hardware import Node
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import RECIPES
from advisor.nouns.workload import Pretraining

CALIBRATION = load_calibration()
PLAIN = CALIBRATION.software["plain"]
NODE = Node(
    accelerators=1,
    intra_bytes_per_s=16e9,
    intra_domain=1,
    inter_bytes_per_s=None,
    pcie_bytes_per_s=16e9,
    vcpus_per_accelerator=16,
    host_memory_bytes=64e9,
    host_memory_bandwidth_bytes_per_s=89.6e9,
)


def hardware(key: str) -> HardwareArrays:
    accelerator = load_catalog().accelerator(key)
    kernels, _ = CALIBRATION.kernels_for(accelerator)
    return HardwareArrays.of(accelerator, NODE, kernels, compute="fp32")


@pytest.mark.parametrize(
    ("kernels_us", "added_us"), [(0.0, 1500.0), (300.0, 1200.0), (1600.0, 0.0)]
)
def test_an_accelerator_waits_for_what_its_host_launches(
    kernels_us: float, added_us: float
) -> None:
    """100 launches of 15 us beside the kernels."""
    assert PLAIN.launch_s == 15e-6
    launches, kernels = np.array([100.0]), np.array([kernels_us * 1e-6])
    found = launch_time(launches, kernels, hardware("gtx-1650"), PLAIN)
    assert found == pytest.approx(added_us * 1e-6)


def test_a_processor_dispatches_on_the_threads_that_compute() -> None:
    """100 calls of 15 us, less 2 us of a driver, whatever the kernels take."""
    launches, kernels = np.array([100.0]), np.array([900e-6])
    found = launch_time(launches, kernels, hardware("core-i5-9400"), PLAIN)
    assert found == pytest.approx(1300e-6)


def test_only_memory_of_its_own_needs_copies() -> None:
    """Inputs, labels and the loss: three times 6 us."""
    keys = ("gtx-1650", "core-i5-9400")
    found = [float(copies_time(kernel_facts().step_copies, hardware(key))[0]) for key in keys]
    assert found == pytest.approx([18e-6, 0.0])


def test_the_cache_of_a_processor_is_in_the_catalog() -> None:
    """Intel's data sheets: 9 MB on a Core i5-9400, 35.75 MB on a Xeon 8268."""
    found = [float(hardware(key).cache_bytes[0]) for key in ("core-i5-9400", "xeon-8268", "t4")]
    assert found == [9 * 2**20, 35.75 * 2**20, 0.0]


@pytest.mark.parametrize(("cache_share", "speed"), [(0.5, 5.0), (1.0, 5.0), (1.5, 5 / 3), (3.0, 1)])
def test_what_the_cache_holds_is_five_times_as_near(cache_share: float, speed: float) -> None:
    """Half in the cache: a half at once and a half at a fifth of the time, 0.6 of it."""
    case = load_case(
        {
            "model": {"stack": {"input": {"features": 64}, "layers": [{"linear": 1024}]}},
            "workload": {"kind": "pretraining", "samples": 1e6, "global_batch": 1},
        }
    )
    architecture = resolve_model(case.model)
    assert isinstance(case.workload, Pretraining)
    run = resolve_training(case.workload, architecture, RECIPES["fp32"])
    one = Candidates(LayoutArrays.of(ParallelLayout()), hardware("core-i5-9400"))
    each = cache_share * 9 * 2**20 / architecture.total_parameters
    near = in_cache(run, one, np.array([0.0]), each)
    before, after = (item.hardware.memory_bandwidth_bytes_per_s for item in (one, near))
    assert after / before == pytest.approx(speed)
