"""An engine that serves requests: batching, queues, memory and replicas."""
