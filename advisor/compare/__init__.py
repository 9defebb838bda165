"""Compares cards side by side: facts with sources, prices, and which differences are real."""
