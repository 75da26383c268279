"""The steps between a native DaemonSet and an Advanced one. Pure."""
