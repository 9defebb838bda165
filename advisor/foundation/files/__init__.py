"""Files that a user names: read and written whole, within bounds."""
