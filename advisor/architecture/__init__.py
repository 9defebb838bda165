"""Models: turns families and configurations into one table of operators."""
