"""What cards, their links and the host add to an estimate: number formats, kernels, launches."""
