"""Rent or buy: the costs of owning and of renting, and where they are equal."""
