"""Compares a report with the data sheet, with predictions and with real training steps."""
