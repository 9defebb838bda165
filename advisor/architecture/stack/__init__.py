"""Networks described as a list of layers: their vocabulary, reader and compiler."""
