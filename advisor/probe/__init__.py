"""Measures this machine, so that estimates can use its own constants.

Only this package may import PyTorch, and only inside functions.
"""
