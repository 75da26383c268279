"""What can be told about a rollout, as values: no I/O, no clock, no colours."""
