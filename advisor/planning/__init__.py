"""The search: enumerate, evaluate in bulk, reject, rank, explain."""
