"""Finds the devices of this machine and the libraries that can measure them."""
