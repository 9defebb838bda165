"""Rent or buy: what owning costs, what renting costs, and when one beats the other."""
