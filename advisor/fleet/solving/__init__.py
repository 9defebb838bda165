"""The planning problem of a fleet in plain numbers, its program and its solver."""
