"""Short lessons: a question that people ask, answered with figures of their own case."""
