"""What an agent can ask for, within the roots it may see. Every method takes and gives plain JSON values.

The limit is asked for and looked at: the daemon is told the roots, and what it sends of another is not passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memoryd.errors import ConflictError, NotFoundError, UnknownRootError, UsageError
from memoryd.mcp.addresses import address
from memoryd.mcp.link import Call, Values
from memoryd.mcp.scope import Scope

_ROOT_FIELDS = (
    "name", "path", "layout", "mode", "state", "reasons", "memories", "archived", "findings", "limits", "lag_ms",
)  # fmt: skip
_BRIEF = ("root", "id", "uri", "title", "type", "created", "score")
_VECTOR = 32  # a list of at least so many numbers is no reading for an agent


class Memories:
    """Raises MemorydError kinds: what the daemon reports, NoDaemonError, and our own refusals."""

    def __init__(self, call: Call, scope: Scope) -> None:
        self._call = call
        self._scope = scope

    # -- looking ----------------------------------------------------------------------------------

    def search(self, params: Values) -> Values:
        """`memory.search`; each hit with its `uri`. Where whole memories come as one text, hits only say which."""
        result = self._ask("memory.search", self._within(params))
        rows = self._rows(result.get("hits", []))
        if "embedding" in result:
            rows = [{key: row[key] for key in _BRIEF if key in row} for row in rows]
        return {**result, "hits": rows}

    def get(self, params: Values) -> Values:
        """`memory.get`, without the numbers of a stored embedding unless `embedding` asks for them."""
        params = dict(params)
        whole = params.pop("embedding", False)
        found = self._addressed(self._find(params))
        found.pop("text", None)  # said once is enough for an agent: it stands in `memory` too
        return found if whole else _without_vectors(found)

    def page(self, params: Values) -> Values:
        """`memory.list`; each memory with its `uri`."""
        result = self._ask("memory.list", self._within(params))
        return {**result, "memories": self._rows(result.get("memories", []))}

    def status(self, params: Values) -> Values:
        """The daemon, and the roots an agent may see."""
        root = self._scope.checked(params.get("root"))
        told = self._ask("status", _given({"root": root}))
        rows = [row for row in told.get("roots", []) if self._scope.holds(row.get("name"))]
        missing = [name for name in self._scope.names if root is None and name not in {row["name"] for row in rows}]
        result = {
            "version": told.get("version"),
            "pid": told.get("pid"),
            "uptime_s": told.get("uptime_s"),
            "roots": [{key: row[key] for key in _ROOT_FIELDS if key in row} for row in rows],
            "missing": missing or None,
        }
        return _given(result)

    def layouts(self) -> dict[str, str]:
        """{root: layout} of the roots an agent may see."""
        return {row["name"]: row.get("layout") or "unknown" for row in self.status({})["roots"]}

    # -- changing ---------------------------------------------------------------------------------

    def add(self, params: Values) -> Values:
        """`memory.add`; the root may be left out where there is only one."""
        root = self._scope.checked(params.get("root")) or self._only_root()
        return self._addressed(self._ask("memory.add", {**params, "root": root}))

    def update(self, params: Values) -> Values:
        """`memory.update` with `changes`; with `touch` alone the memory is only marked as used."""
        params = dict(params)
        touch = params.pop("touch", False)
        if not touch and not params.get("changes"):
            raise UsageError("nothing is to be changed", hint="give `changes`, or `touch`: true")
        params = self._placed(params)
        if not params.get("changes"):
            seen = self._ask("memory.get", {"id": params["id"], "root": params["root"], "touch": True})
            return self._addressed({key: seen[key] for key in ("root", "id", "path") if key in seen})
        changed = self._addressed(self._ask("memory.update", params))
        if touch:
            self._ask("memory.get", {"id": changed["id"], "root": changed["root"], "touch": True})
        return changed

    def forget(self, params: Values) -> Values:
        """`memory.forget`."""
        return self._addressed(self._ask("memory.forget", self._placed(params)))

    # -- asking -----------------------------------------------------------------------------------

    def _ask(self, method: str, params: Values) -> Values:
        try:
            return self._call(method, params)
        except UnknownRootError as error:
            if not self._scope.names:
                raise
            # The daemon's hint names every root there is.
            raise UnknownRootError(
                error.message, hint="this server was started for a root that is not there"
            ) from error

    def _within(self, params: Values) -> Values:
        """The same for one root, or for those an agent may see."""
        if self._scope.checked(params.get("root")) is not None or not self._scope.names:
            return dict(params)
        return {**params, "roots": list(self._scope.names)}

    def _find(self, params: Values) -> Values:
        """The one memory of this id in the roots an agent may see."""
        named = self._scope.checked(params.get("root"))
        if named is not None or not self._scope.names:
            return self._own(self._ask("memory.get", params))
        found: list[Values] = []
        for root in self._scope.names:
            try:
                found.append(self._own(self._ask("memory.get", {**params, "root": root})))
            except NotFoundError as error:
                missed = error
        if not found:
            raise missed
        if len(found) > 1:
            names = [each["root"] for each in found]
            raise ConflictError(
                "several roots have a memory of this id", hint=f"name one: {', '.join(names)}", data={"roots": names}
            )
        return found[0]

    def _placed(self, params: Values) -> Values:
        """The same with the root in which the id is to be changed."""
        root = self._scope.checked(params.get("root")) or self._find({"id": params["id"]})["root"]
        return {**params, "root": root}

    def _own(self, row: Values) -> Values:
        """What the daemon sent, if it is of a root within."""
        if not self._scope.holds(row.get("root")):
            raise NotFoundError("there is no such memory in the roots that this server serves")
        return row

    def _rows(self, rows: Sequence[Values]) -> list[Values]:
        return [self._addressed(row) for row in rows if self._scope.holds(row.get("root"))]

    def _only_root(self) -> str:
        if len(self._scope.names) == 1:
            return self._scope.names[0]
        layouts = self.layouts()
        if len(layouts) != 1:
            known = ", ".join(f"{name} ({layout})" for name, layout in layouts.items())
            raise UsageError("say in which root to store", hint=f"`root` is one of: {known or 'none is there yet'}")
        return next(iter(layouts))

    @staticmethod
    def _addressed(row: Mapping[str, Any]) -> Values:
        """The row with its `uri`."""
        return {**row, "uri": address(row["root"], row["id"])}


def _given(params: Mapping[str, Any]) -> Values:
    return {name: value for name, value in params.items() if value is not None}


def _without_vectors(found: Values) -> Values:
    memory = found.get("memory")
    if not isinstance(memory, dict):
        return found
    vectors = [name for name, value in memory.items() if _is_vector(value)]
    if not vectors:
        return found
    kept = {name: value for name, value in memory.items() if name not in vectors}
    return {**found, "memory": kept, "left_out": vectors}


def _is_vector(value: object) -> bool:
    return isinstance(value, list) and len(value) >= _VECTOR and all(isinstance(each, (int, float)) for each in value)


Verb = Callable[[Memories, Values], Values]
