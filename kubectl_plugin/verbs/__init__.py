"""What each verb does, step by step: read, decide, print or write."""
