"""What the acting verbs write: for each live object one guarded JSON Patch, and its meaning in words. No I/O."""
