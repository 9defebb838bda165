"""Operator rows of a transformer's layers: what mixes tokens, what feeds forward."""
