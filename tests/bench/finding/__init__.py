"""Does search find the right memory first? Memories and questions written by hand, among a thousand longer others."""
