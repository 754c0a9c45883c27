"""Floor 3: one watched root. Layout, policy, catalogue, journal and safe commits meet here."""

from memoryd.store.store import Source, Store

__all__ = ["Source", "Store"]
