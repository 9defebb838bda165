"""The page *Accuracy*: how far the predictions are from what people measured."""

from advisor import api
from advisor.ui.parts import accuracy, question

question.asked(accuracy.page(), title="Accuracy", heading="How right are the numbers?")
runs = api.published_runs()
accuracy.overview(runs)
accuracy.explore(runs)
