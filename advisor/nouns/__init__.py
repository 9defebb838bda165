"""What a question is made of: case, work, hardware, layout, and the facts of software."""
