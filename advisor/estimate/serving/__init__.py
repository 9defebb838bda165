"""Latency, throughput and memory of serving under continuous batching."""
