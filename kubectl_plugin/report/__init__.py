"""What is shown of a rollout, as values: no I/O, no clock, no colours."""
