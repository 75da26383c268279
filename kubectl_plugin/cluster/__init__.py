"""All talk with the API server."""
