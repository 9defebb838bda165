"""What a reader enters: fields, their rules, controls, and the way into a case."""
