"""Reads Hugging Face configurations: fields, defaults, quantisation."""
