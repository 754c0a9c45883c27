"""Programs that make what memoryd ships. Not part of the wheel."""
