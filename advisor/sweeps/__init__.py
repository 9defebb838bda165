"""Sweeps: many cases, from a grid or a table, answered in parallel and written as one table."""
