"""What a model is: families and configurations in, one table of operators out."""
