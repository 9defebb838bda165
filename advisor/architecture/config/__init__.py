"""Reading of Hugging Face configurations: fields, defaults, quantisation."""
