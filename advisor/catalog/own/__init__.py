"""Your own offers, cards and discounts: read, put in use, and laid over the shipped catalog."""
