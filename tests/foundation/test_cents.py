"""Amounts in whole cents, also where the usual 28 digits of decimals end."""

import pytest

from advisor.foundation import cents


@pytest.mark.parametrize("usd", [0.0, 0.01, -2.5, 1e15, 1e26, 1e30, 1.7e308])
def test_an_amount_of_any_size_has_cents(usd: float) -> None:
    assert cents.rounded(usd) == usd
    assert cents.total([usd]) == usd
