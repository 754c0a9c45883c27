"""memoryd tends the directories where AI agents keep their memories as plain files."""

__version__ = "0.1.0"
