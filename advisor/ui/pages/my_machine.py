"""The page *My machine*: measure this machine, and see what the estimates make of it."""

import streamlit as st

from advisor.ui.parts import my_machine

my_machine.ask()
report = st.session_state.get(my_machine.REPORT)
if report is not None:
    my_machine.show(report)
