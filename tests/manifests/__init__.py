"""The manifests: what they say by themselves, and what the real API server makes of them."""
