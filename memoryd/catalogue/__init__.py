"""Floor 2: what is known of each file and memory. SQLite in the state directory, disposable at any time."""

from memoryd.catalogue.catalogue import Catalogue, FileRow

__all__ = ["Catalogue", "FileRow"]
