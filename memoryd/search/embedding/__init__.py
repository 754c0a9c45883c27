"""Vectors for texts: what a text means as numbers, so that other words for the same thing are found."""
