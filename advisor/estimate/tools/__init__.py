"""The tool that does a case's work on a card, and the formats in which it may serve."""
