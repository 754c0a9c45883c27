"""The journal of one root: memoryd's changes, what is needed to undo them, and state that the files cannot hold."""

from memoryd.disk.journal.entries import CAUSES, STATES, Entry, Step
from memoryd.disk.journal.journal import Journal

__all__ = ["CAUSES", "STATES", "Entry", "Journal", "Step"]
