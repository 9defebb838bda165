"""The web app: page settings, navigation, run."""

from pathlib import Path

import streamlit as st

import advisor.ui
from advisor.ui.parts.chart_view import follow_theme
from advisor.ui.session.address import survive_restarts
from advisor.ui.session.server import bound_uploads, settle

UI = Path(advisor.ui.__file__).parent
PAGES = (
    ("advisor", "Advisor", "memory", "Which GPUs to rent for a model, a task and your limits."),
    ("fits", "What fits my GPU", "fit_screen", "Which models a card can serve and train."),
    ("rent_or_buy", "Rent or buy", "balance", "From how many hours a month buying beats renting."),
    ("fleet", "Fleet", "dns", "What to buy and what to rent, and when, for many workloads."),
    ("catalog", "Catalog", "inventory_2", "Accelerators and prices: browse, compare, see sources."),
    ("learn", "Learn", "school", "What people ask about GPUs, answered with figures of your case."),
    ("my_machine", "My machine", "speed", "How fast this machine is, and what that changes."),
    ("accuracy", "Accuracy", "science", "How far predictions are from what people measured."),
)
"""Name, title, icon and help of each page; the first is at the address of the app."""

st.set_page_config(page_title="GPU advisor", page_icon=str(UI / "favicon.svg"), layout="wide")
st.html(UI / "page.css")
page = st.navigation(
    [
        st.Page(
            UI / "pages" / f"{name}.py",
            title=title,
            icon=f":material/{icon}:",
            url_path=name.replace("_", "-"),
            default=name == PAGES[0][0],
            help=about,
        )
        for name, title, icon, about in PAGES
    ],
    position="top",
)
settle()
bound_uploads()
survive_restarts()
follow_theme()
page.run()
