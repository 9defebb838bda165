"""Explain an answer: reasons, rejections, changes that help, curves and sentences."""
