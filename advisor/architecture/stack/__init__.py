"""Networks described as a list of layers: vocabulary, reading, compiling."""
