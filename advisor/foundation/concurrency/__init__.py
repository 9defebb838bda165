"""Worker processes, and what visitors of a server share."""
