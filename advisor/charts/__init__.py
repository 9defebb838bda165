"""Plotly figures from tables: pure functions of table and theme, and each chart in words.

A chart takes the table that the function of ``advisor.frames`` with its name makes, and raises
``ValueError`` for one without rows.
"""
