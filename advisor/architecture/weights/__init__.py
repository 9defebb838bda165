"""Reading of weights files: GGUF and safetensors headers, stored bytes."""
