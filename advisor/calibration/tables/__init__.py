"""Rows of measurement tables as cases that the engine can predict."""
