"""Revisions of a pod template: what each changed, and two of them side by side."""
