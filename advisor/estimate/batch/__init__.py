"""Networks that answer whole batches: one forward pass."""
