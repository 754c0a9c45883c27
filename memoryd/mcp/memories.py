"""What an agent can ask for, within the roots it may see, and the URIs of memories (`memory://root/id`). Every method
takes and returns plain JSON values.

The scope is enforced twice: the daemon is told the roots, and anything it returns from another root is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from memoryd.errors import ConflictError, NotFoundError, UnknownRootError, UsageError
from memoryd.mcp.client import Call, Values
from memoryd.mcp.schemas import ROOT_FIELDS

SCHEME = "memory://"
TEMPLATE = "memory://{root}/{id}"


def address(root: str, memory: str) -> str:
    """Return the address of a memory."""
    return f"{SCHEME}{_encoded(root)}/{_encoded(memory)}"


def parts(uri: str) -> tuple[str, str]:
    """Return (root, id) of an address. Raises UsageError if it is not one."""
    root, slash, memory = uri.removeprefix(SCHEME).partition("/")
    if not uri.startswith(SCHEME) or not slash or not root or not memory:
        raise UsageError("not the address of a memory", hint=f"they look like {TEMPLATE}, both parts percent-encoded")
    return _decoded(root), _decoded(memory)


def _encoded(text: str) -> str:
    return quote(text, safe="")


def _decoded(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeError:
        raise UsageError("not the address of a memory", hint="percent-encode the UTF-8 bytes of both parts") from None


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


_BRIEF = ("root", "id", "uri", "title", "type", "created", "score")
_VECTOR = 32  # a list of at least so many numbers is no reading for an agent


class Memories:
    """The operations behind the tools. Raises MemorydError kinds: errors of the daemon, NoDaemonError, and refusals of
    its own."""

    def __init__(self, call: Call, scope: Scope) -> None:
        self._call = call
        self._scope = scope

    # -- looking ----------------------------------------------------------------------------------

    def search(self, params: Values) -> Values:
        """Call `memory.search` and add the `uri` of each hit. If whole memories come as one text, hits only identify
        them."""
        result = self._ask("memory.search", self._in_scope(params))
        rows = self._rows(result.get("hits", []))
        if "embedding" in result:
            rows = [{key: row[key] for key in _BRIEF if key in row} for row in rows]
        return {**result, "hits": rows}

    def get(self, params: Values) -> Values:
        """Call `memory.get`; the numbers of a stored embedding are left out unless `embedding` asks for them."""
        params = dict(params)
        whole = params.pop("embedding", False)
        found = self._with_uri(self._find(params))
        found.pop("text", None)  # said once is enough for an agent: it stands in `memory` too
        return found if whole else _without_vectors(found)

    def page(self, params: Values) -> Values:
        """Call `memory.list` and add the `uri` of each memory."""
        result = self._ask("memory.list", self._in_scope(params))
        return {**result, "memories": self._rows(result.get("memories", []))}

    def status(self, params: Values) -> Values:
        """Return the daemon and the roots that the agent may see."""
        root = self._scope.require(params.get("root"))
        told = self._ask("status", _given({"root": root}))
        rows = [row for row in told.get("roots", []) if self._scope.holds(row.get("name"))]
        missing = [name for name in self._scope.names if root is None and name not in {row["name"] for row in rows}]
        result = {
            "version": told.get("version"),
            "pid": told.get("pid"),
            "uptime_s": told.get("uptime_s"),
            "roots": [{key: row[key] for key in ROOT_FIELDS if key in row} for row in rows],
            "missing": missing or None,
        }
        return _given(result)

    def layouts(self) -> dict[str, str]:
        """Return {root: layout} of the roots that the agent may see."""
        return {row["name"]: row.get("layout") or "unknown" for row in self.status({})["roots"]}

    # -- changing ---------------------------------------------------------------------------------

    def add(self, params: Values) -> Values:
        """Call `memory.add`; the root may be omitted if there is only one."""
        root = self._scope.require(params.get("root")) or self._only_root()
        return self._with_uri(self._ask("memory.add", {**params, "root": root}))

    def update(self, params: Values) -> Values:
        """Call `memory.update` with `changes`; `touch` alone only marks the memory as used."""
        params = dict(params)
        touch = params.pop("touch", False)
        if not touch and not params.get("changes"):
            raise UsageError("no changes given", hint="give `changes`, or `touch`: true")
        params = self._with_root(params)
        if not params.get("changes"):
            seen = self._ask("memory.get", {"id": params["id"], "root": params["root"], "touch": True})
            return self._with_uri({key: seen[key] for key in ("root", "id", "path") if key in seen})
        changed = self._with_uri(self._ask("memory.update", params))
        if touch:
            self._ask("memory.get", {"id": changed["id"], "root": changed["root"], "touch": True})
        return changed

    def forget(self, params: Values) -> Values:
        """Call `memory.forget`."""
        return self._with_uri(self._ask("memory.forget", self._with_root(params)))

    # -- asking -----------------------------------------------------------------------------------

    def _ask(self, method: str, params: Values) -> Values:
        try:
            return self._call(method, params)
        except UnknownRootError as error:
            if not self._scope.names:
                raise
            # The daemon's hint names every root there is.
            raise UnknownRootError(
                error.message, hint="this server was started for a root that does not exist"
            ) from error

    def _in_scope(self, params: Values) -> Values:
        """Return the parameters for the named root, or for the roots that the agent may see."""
        if self._scope.require(params.get("root")) is not None or not self._scope.names:
            return dict(params)
        return {**params, "roots": list(self._scope.names)}

    def _find(self, params: Values) -> Values:
        """Return the one memory with this id in the roots that the agent may see."""
        named = self._scope.require(params.get("root"))
        if named is not None or not self._scope.names:
            return self._require_in_scope(self._ask("memory.get", params))
        found: list[Values] = []
        for root in self._scope.names:
            try:
                found.append(self._require_in_scope(self._ask("memory.get", {**params, "root": root})))
            except NotFoundError as error:
                missed = error
        if not found:
            raise missed
        if len(found) > 1:
            names = [each["root"] for each in found]
            raise ConflictError(
                "several roots have a memory with this id", hint=f"name one: {', '.join(names)}", data={"roots": names}
            )
        return found[0]

    def _with_root(self, params: Values) -> Values:
        """Return the parameters with the root that has the memory."""
        root = self._scope.require(params.get("root")) or self._find({"id": params["id"]})["root"]
        return {**params, "root": root}

    def _require_in_scope(self, row: Values) -> Values:
        """Return the row if its root is in scope, else raise NotFoundError."""
        if not self._scope.holds(row.get("root")):
            raise NotFoundError("no such memory in the roots that this server serves")
        return row

    def _rows(self, rows: Sequence[Values]) -> list[Values]:
        return [self._with_uri(row) for row in rows if self._scope.holds(row.get("root"))]

    def _only_root(self) -> str:
        if len(self._scope.names) == 1:
            return self._scope.names[0]
        layouts = self.layouts()
        if len(layouts) != 1:
            known = ", ".join(f"{name} ({layout})" for name, layout in layouts.items())
            raise UsageError("specify the root to store in", hint=f"`root` is one of: {known or 'there are none yet'}")
        return next(iter(layouts))

    @staticmethod
    def _with_uri(row: Values) -> Values:
        """Return the row with its `uri`."""
        return {**row, "uri": address(row["root"], row["id"])}


def _given(params: Mapping[str, object]) -> Values:
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
