"""Measures this machine, and lets the measurements teach the estimates.

The only room that may import PyTorch, and only inside functions.
"""
