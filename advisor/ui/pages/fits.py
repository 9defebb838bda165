"""The page *What fits my GPU*: which known models some cards can serve and train."""

from advisor.ui.parts import fits
from advisor.ui.session import state

with state.Boundary():
    inputs, found = fits.ask()
    fits.show(inputs, found)
