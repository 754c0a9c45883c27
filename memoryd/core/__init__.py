"""Floor 1: pure values and decisions. No files, clock, threads, environment or logging."""
