"""What would happen next, and what if: the controller's own planner, run again and again on a
simulated world. Pure."""
