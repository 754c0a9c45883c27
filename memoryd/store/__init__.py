"""One watched root: its layout, policy, catalogue, journal and safe commits."""

from memoryd.store.store import Source, Store

__all__ = ["Source", "Store"]
