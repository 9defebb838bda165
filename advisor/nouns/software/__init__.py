"""Facts of software: constants of kernels and engines, training stacks, tools."""
