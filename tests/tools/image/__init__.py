"""The Containerfile, tried without a container engine."""
