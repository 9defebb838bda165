"""Memory and time of training."""
