"""Model families: a configuration in, a shape or a stack of layers out."""
