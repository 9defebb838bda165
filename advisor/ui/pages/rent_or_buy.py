"""The page *Rent or buy*: above how many hours a month owning beats renting."""

from advisor.ui.parts import rent_or_buy

rent_or_buy.page()
