"""What given cards can serve and train."""
