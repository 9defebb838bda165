"""Timings, printed as figures and ratios; nothing here fails a build."""
