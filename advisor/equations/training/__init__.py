"""A step of training, and a whole run: memory, traffic and losses."""
