"""Say why: reasons, rejections, ways out, curves, the words of an answer."""
