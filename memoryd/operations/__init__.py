"""Floor 4: one product verb a file. Each reads, decides, plans and commits through the store."""
