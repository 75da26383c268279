"""The command tree: every verb with its arguments, flags and help, and nothing else.

What a verb does is imported when it is called: `--help` and completion must not wait for an HTTP client.
"""
