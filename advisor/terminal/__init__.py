"""Results as text for a terminal: readable at 80 columns, without colour, and in a pipe."""
