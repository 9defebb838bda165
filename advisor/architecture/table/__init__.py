"""The operator table: the single description of a network, over which all estimates sum."""
