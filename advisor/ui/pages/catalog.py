"""The page *Catalog*: what exists, what it costs, and cards side by side."""

from advisor import api
from advisor.ui.parts import catalog, offers, question
from advisor.ui.session import state

inputs = question.asked(catalog.page(), title="Catalog", heading="Which cards are there?")
catalog.said()
shown = catalog.prices(api.load_catalog())
catalog.own()
chosen = catalog.choose(inputs.own_accelerator)
catalog.compare(shown, chosen)
catalog.browse(shown)
offers.offers(catalog.page(), shown)
state.write(catalog.page())
