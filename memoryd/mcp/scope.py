"""Which roots an agent may see: those named with `--root`, or all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryd.errors import UnknownRootError


@dataclass(frozen=True, slots=True)
class Scope:
    """`names` in the order of the command line; empty means no limit."""

    names: tuple[str, ...] = ()

    def chosen(self, root: str | None) -> tuple[str | None, ...]:
        """The values of `root` to ask the daemon with, one call each. (None,) is one call about all roots, and never
        stands where there is a limit. UnknownRootError for a root outside."""
        if root is not None:
            if not self.holds(root):
                raise self.refusal()
            return (root,)
        return self.names or (None,)

    def holds(self, root: object) -> bool:
        return not self.names or root in self.names

    def inside(self, row: Mapping[str, Any]) -> bool:
        """Whether what the daemon sent is of a root within."""
        return self.holds(row.get("root"))

    def refusal(self) -> UnknownRootError:
        known = ", ".join(self.names)
        return UnknownRootError("this server does not serve that root", hint=f"it serves: {known}")
