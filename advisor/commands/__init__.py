"""What each command of ``gpu-advisor`` does: one call of the facade, and its answer printed."""
