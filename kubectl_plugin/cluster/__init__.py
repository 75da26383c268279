"""All communication with the API server."""
