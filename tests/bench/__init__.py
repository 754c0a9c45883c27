"""Measurements: run by hand, never timed by the test suite."""
