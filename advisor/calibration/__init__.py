"""From measurements to constants and intervals, and the score of predictions."""
