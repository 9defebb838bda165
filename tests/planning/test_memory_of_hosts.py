"""The memory that a case states of a machine."""

from __future__ import annotations

import pytest

import advisor
from advisor.planning.prepared import priced
from tests.cases import serve


@pytest.mark.parametrize(
    ("card", "stated", "usable"),
    [
        # Metal gives the GPU two thirds of a unified memory up to 32 GB, three quarters of more.
        ("apple-m4", 16e9, 16e9 * 2 / 3 * 2**30 / 1e9),
        ("apple-m4-max", 64e9, 48e9 * 2**30 / 1e9),
        ("epyc-9654", 768e9, 768e9 * 2**30 / 1e9),
    ],
)
def test_a_named_machine_with_unified_memory_has_the_stated_memory(card, stated, usable):
    case = serve("llama-3.1-8b", card, 1, host={"memory_bytes": stated})
    cards = priced(advisor.load_case(case), None)
    assert cards.accelerator(card).memory_reported_bytes == pytest.approx(usable, rel=0.001)


def test_other_machines_keep_theirs():
    own, plain = (
        priced(advisor.load_case(serve("llama-3.1-8b", "rtx-4090", 1, **host)), None)
        for host in ({"host": {"memory_bytes": 16e9}}, {})
    )
    for key in ("rtx-4090", "apple-m4", "epyc-9654"):
        assert own.accelerator(key) == plain.accelerator(key)
