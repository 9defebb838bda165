"""The page *Learn*: questions that people ask, answered with figures of their own case."""

from advisor.ui.parts import learn

learn.page()
