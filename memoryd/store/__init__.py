"""One watched root: its layout, policy, catalogue, journal and safe commits."""

from memoryd.store.store import Store

__all__ = ["Store"]
