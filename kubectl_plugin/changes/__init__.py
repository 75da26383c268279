"""The edits of a DaemonSet that the verbs make, and their effects. Pure."""
