"""Predictions compared with measurements: errors, coverage, the accuracy page."""
