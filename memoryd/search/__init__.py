"""Floor 2: engines that find memories by words and by meaning, behind one protocol."""
