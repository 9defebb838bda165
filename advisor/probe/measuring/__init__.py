"""The measuring loop: what the probe measures, how, and within which time."""
