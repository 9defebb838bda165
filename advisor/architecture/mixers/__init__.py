"""Operator rows of a transformer's layers: token mixers and feed-forward layers."""
