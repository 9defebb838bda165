"""The web app: page settings, navigation, run."""

from pathlib import Path

import streamlit as st

import advisor.ui
from advisor.ui.pages import PAGES
from advisor.ui.parts.chart_view import follow_window
from advisor.ui.session import state
from advisor.ui.session.address import survive_restarts
from advisor.ui.session.server import bound_uploads, settle

UI = Path(advisor.ui.__file__).parent

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
follow_window()
with state.boundary():
    page.run()
