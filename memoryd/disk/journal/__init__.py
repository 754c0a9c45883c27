"""The journal of one root: what memoryd changed, how to take it back, and small facts that no file has a place for."""

from memoryd.disk.journal.entries import CAUSES, STATES, Entry, Step
from memoryd.disk.journal.journal import Journal

__all__ = ["CAUSES", "STATES", "Entry", "Journal", "Step"]
