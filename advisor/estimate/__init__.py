"""Nouns and equations combined into memory, time, serving figures and cost."""
