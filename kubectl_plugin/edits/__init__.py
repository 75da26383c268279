"""What the acting verbs write: a live object in, one guarded patch out, and in words what it means. No I/O."""
