"""The files of a catalog: rows as people write them, their checks, and the nouns made of them."""
