"""The roots that an agent may see: those named with `--root`, or all."""

from __future__ import annotations

from dataclasses import dataclass

from memoryd.errors import UnknownRootError


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of visible roots, in the order of the command line; empty means all."""

    names: tuple[str, ...] = ()

    def holds(self, root: object) -> bool:
        """True if an agent may see that root."""
        return not self.names or root in self.names

    def require(self, root: str | None) -> str | None:
        """Return the requested root. Raises UnknownRootError if it is out of scope."""
        if root is not None and not self.holds(root):
            raise UnknownRootError("this server does not serve this root", hint=f"it serves: {', '.join(self.names)}")
        return root
