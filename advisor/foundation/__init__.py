"""Units, quantities, text and files. Nothing here depends on models or accelerators."""
