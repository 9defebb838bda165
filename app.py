"""The web app: page settings, navigation, run."""

from pathlib import Path

import streamlit as st

import advisor.ui.pages
from advisor.ui.session.address import survive_restarts
from advisor.ui.session.server import bound_uploads

PAGES = Path(advisor.ui.pages.__file__).parent

st.set_page_config(
    page_title="GPU advisor", page_icon=str(PAGES.parent / "favicon.svg"), layout="wide"
)
page = st.navigation(
    [
        st.Page(
            PAGES / "advisor.py",
            title="Advisor",
            icon=":material/memory:",
            default=True,
            help="Which accelerators to rent for a model, a task and your limits.",
        ),
        st.Page(
            PAGES / "fits.py",
            title="What fits my GPU",
            icon=":material/fit_screen:",
            url_path="fits",
            help="Which models a card can serve and train.",
        ),
        st.Page(
            PAGES / "rent_or_buy.py",
            title="Rent or buy",
            icon=":material/balance:",
            url_path="rent-or-buy",
            help="Above how many hours a month buying a GPU beats renting it.",
        ),
        st.Page(
            PAGES / "fleet.py",
            title="Fleet",
            icon=":material/dns:",
            url_path="fleet",
            help="What to buy and what to rent, and when, for many workloads.",
        ),
        st.Page(
            PAGES / "catalog.py",
            title="Catalog",
            icon=":material/inventory_2:",
            url_path="catalog",
            help="Accelerators and prices: browse, compare, see sources.",
        ),
        st.Page(
            PAGES / "learn.py",
            title="Learn",
            icon=":material/school:",
            url_path="learn",
            help="What people ask about GPUs, answered with figures of your case.",
        ),
        st.Page(
            PAGES / "my_machine.py",
            title="My machine",
            icon=":material/speed:",
            url_path="my-machine",
            help="How fast this machine is, and what the estimates make of it.",
        ),
        st.Page(
            PAGES / "accuracy.py",
            title="Accuracy",
            icon=":material/science:",
            url_path="accuracy",
            help="How far the predictions are from what people measured.",
        ),
    ],
    position="top",
)
bound_uploads()
survive_restarts()
page.run()
