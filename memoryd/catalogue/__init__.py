"""Floor 2: what is known of each file and memory. SQLite in the state directory, disposable at any time."""

from memoryd.catalogue.catalogue import Catalogue
from memoryd.catalogue.rows import FileRow, Place
from memoryd.catalogue.splicing import Hole

__all__ = ["Catalogue", "FileRow", "Hole", "Place"]
