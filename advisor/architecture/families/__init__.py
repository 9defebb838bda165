"""Model families: each turns a configuration into a shape or a stack of layers."""
