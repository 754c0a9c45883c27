"""Search: how well it finds, how fast, and what it never does."""
