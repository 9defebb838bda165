"""The measuring loop: what is measured, how, and in which time."""
