"""Files that start a model's servers: shell, Slurm, Compose, Kubernetes, SkyPilot, dstack."""
