"""Floor 2: find memories by words and by meaning, in any index behind the port of `core/index.py`."""
