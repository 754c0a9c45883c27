"""The journal of one root: memoryd's changes, what is needed to undo them, and state that the files cannot hold."""

from memoryd.disk.journal.entries import Entry, Step
from memoryd.disk.journal.journal import Journal

__all__ = ["Entry", "Journal", "Step"]
