"""Networks that process whole batches in a forward pass."""
