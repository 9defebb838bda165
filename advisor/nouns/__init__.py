"""The parts of a question: case, workload, hardware, layout, and facts about software."""
