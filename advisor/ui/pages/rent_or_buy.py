"""The page *Rent or buy*: above how many hours a month owning beats renting."""

from advisor.ui.parts import rent_or_buy
from advisor.ui.session import state

with state.Boundary():
    rent_or_buy.page()
