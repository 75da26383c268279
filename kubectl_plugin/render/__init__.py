"""Tables and screens."""
