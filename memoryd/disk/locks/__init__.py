"""The lock file of a memory directory, shared with programs that handle it in many ways."""
