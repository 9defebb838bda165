"""What to own, what to rent and when, for a portfolio of workloads."""
