"""Results as tables for the charts, the page and the CSV files.

Below the interface, only this package uses pandas. A column's name states its unit; the columns
time and cost take theirs from `points.Axes`.
"""
