"""Lock files of memory directories, shared with other programs that use them in different ways."""
