"""Reads weights files: GGUF and safetensors headers, stored bytes."""
