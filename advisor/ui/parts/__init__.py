"""The parts that pages are made of: results, details, charts, tables."""
