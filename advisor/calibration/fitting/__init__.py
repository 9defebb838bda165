"""From measurements to constants."""
