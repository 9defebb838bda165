"""The web page: inputs, one advisor call, frames, charts."""
