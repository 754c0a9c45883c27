"""Search for memories by words and by meaning, in any index that implements `core/index.py`."""
