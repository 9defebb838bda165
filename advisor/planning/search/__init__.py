"""Enumerate systems and layouts, evaluate them in bulk, price them."""
