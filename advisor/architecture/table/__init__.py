"""The operator table: the one description of a network that everything else folds over."""
