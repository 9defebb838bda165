"""The web app: what `streamlit run` serves, and in a session page settings, navigation, run."""

from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.starlette import App

import advisor.ui
from advisor.ui.session.server import bound_uploads, plotly_route, settle

UI = Path(advisor.ui.__file__).parent
if get_script_run_ctx(suppress_warning=True) is None:
    app = App(__file__, routes=[plotly_route()])
else:  # what the pages need is imported by the first visitor: a server is up before that
    from advisor.ui.pages import PAGES
    from advisor.ui.parts.chart_view import follow_window
    from advisor.ui.session import state
    from advisor.ui.session.address import survive_restarts

    st.set_page_config(page_title="GPU advisor", page_icon=str(UI / "favicon.svg"), layout="wide")
    st.html(UI / "page.css")
    pages = [
        st.Page(
            UI / "pages" / f"{name}.py",
            title=title,
            icon=f":material/{icon}:",
            url_path=name.replace("_", "-"),
            default=name == PAGES[0][0],
            help=about,
        )
        for name, title, icon, about in PAGES
    ]
    page = st.navigation(pages, position="top")
    settle()
    bound_uploads()
    survive_restarts()
    follow_window()
    with state.boundary():
        page.run()
