"""Ground floor: units, quantities, text and files. It knows nothing of models or cards."""
