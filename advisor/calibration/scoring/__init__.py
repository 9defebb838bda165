"""Predictions beside measurements: errors, coverage, the accuracy page."""
