"""Training programs: what each can express, the case that its file means, and the file."""
