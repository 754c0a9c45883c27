"""One watched root: layout, policy, catalogue, journal and safe commits meet here."""

from memoryd.store.store import Source, Store

__all__ = ["Source", "Store"]
