"""Watching roots through the kernel: hints only; the scan is the truth."""
