"""Forecasts of a rollout: the controller's own planner, run repeatedly on a simulated world. Pure."""
