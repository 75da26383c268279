"""The whole product from outside: kubectl, the controller's process, and a real control plane."""
