"""What is known of a rollout: nodes, reasons, status, history, differences. Pure."""
