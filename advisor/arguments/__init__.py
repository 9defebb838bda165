"""What the command line may say, and the case that it spells."""
