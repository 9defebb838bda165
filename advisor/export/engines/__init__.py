"""Programs that serve a model: which one, what it can state, and its command line."""
