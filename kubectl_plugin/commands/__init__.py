"""The verbs: what each reads, what it writes, what it prints."""
