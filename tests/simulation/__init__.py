"""Discrete-event simulations that the queue formulas are compared with."""
