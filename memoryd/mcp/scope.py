"""Which roots an agent may see: those named with `--root`, or all."""

from __future__ import annotations

from dataclasses import dataclass

from memoryd.errors import UnknownRootError


@dataclass(frozen=True, slots=True)
class Scope:
    """`names` in the order of the command line; empty means no limit."""

    names: tuple[str, ...] = ()

    def holds(self, root: object) -> bool:
        return not self.names or root in self.names

    def checked(self, root: str | None) -> str | None:
        """The root that was asked for. UnknownRootError where it lies outside."""
        if root is not None and not self.holds(root):
            raise UnknownRootError("this server does not serve that root", hint=f"it serves: {', '.join(self.names)}")
        return root
