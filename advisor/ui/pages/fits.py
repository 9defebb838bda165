"""The page *What fits my GPU*: which known models some cards can serve and train."""

from advisor.ui.parts import fits

inputs, found = fits.ask()
fits.show(inputs, found)
