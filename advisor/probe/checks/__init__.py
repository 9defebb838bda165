"""A report beside data sheet, predictions and real training steps."""
