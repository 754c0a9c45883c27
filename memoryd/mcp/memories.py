"""The operations behind the tools, limited to the roots that an agent may see, and the URIs of memories
(`memory://root/id`). Every method takes and returns plain JSON values.

The scope is enforced twice: each call names the roots, and anything the daemon returns from another root is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, unquote_to_bytes

from memoryd.core.records import JsonObject
from memoryd.errors import (
    ConflictError,
    GuardError,
    MemorydError,
    NotFoundError,
    PausedError,
    RootMissingError,
    UnknownRootError,
    UsageError,
)
from memoryd.mcp.client import Call
from memoryd.mcp.schemas import ROOT_FIELDS

SCHEME = "memory://"
TEMPLATE = "memory://{root}/{id}"


def memory_uri(root: str, memory: str) -> str:
    """Return the URI of a memory."""
    return f"{SCHEME}{_encoded(root)}/{_encoded(memory)}"


def parse_uri(uri: str) -> tuple[str, str]:
    """Return (root, id) of the URI of a memory. Raises UsageError for any other text."""
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


_REFERENCE_FIELDS = ("root", "id", "uri", "title", "type", "created", "score")
_UNREADABLE = (UnknownRootError, PausedError, RootMissingError, GuardError)
"""What a root says that cannot be read now. It must not hide a memory of another root."""
_VECTOR_LENGTH = 32  # a list of at least this many numbers is an embedding, useless to an agent as text


class Memories:
    """The operations behind the tools. They raise MemorydError kinds: errors of the daemon, NoDaemonError, and errors
    for roots out of scope or missing arguments. `roots`: the names of those that an agent may see; empty means all."""

    def __init__(self, call: Call, roots: Sequence[str] = ()) -> None:
        self._call = call
        self._names = tuple(dict.fromkeys(roots))

    # -- reading ----------------------------------------------------------------------------------

    def search(self, params: JsonObject) -> JsonObject:
        """Call `memory.search` and add the `uri` of each hit. If the result has the memories as one text, its hits only
        identify them."""
        result = self._request("memory.search", self._in_scope(params))
        rows = self._rows(result.get("hits", []))
        if "embedding" in result:
            rows = [{key: row[key] for key in _REFERENCE_FIELDS if key in row} for row in rows]
        return {**result, "hits": rows}

    def get(self, params: JsonObject) -> JsonObject:
        """Call `memory.get`. The numbers of a stored embedding are left out unless `embedding` is true."""
        params = dict(params)
        with_vectors = params.pop("embedding", False)
        memory = self._with_uri(self._find(params))
        memory.pop("text", None)  # a duplicate for an agent: `memory` contains it too
        return memory if with_vectors else _without_vectors(memory)

    def page(self, params: JsonObject) -> JsonObject:
        """Call `memory.list` and add the `uri` of each memory."""
        result = self._request("memory.list", self._in_scope(params))
        return {**result, "memories": self._rows(result.get("memories", []))}

    def status(self, params: JsonObject) -> JsonObject:
        """Return the daemon and the roots that the agent may see."""
        root = self._require_visible(params.get("root"))
        status = self._request("status", _without_none({"root": root}))
        rows = [row for row in status.get("roots", []) if self._includes(row.get("name"))]
        missing = [name for name in self._names if root is None and name not in {row["name"] for row in rows}]
        result = {
            "version": status.get("version"),
            "pid": status.get("pid"),
            "uptime_s": status.get("uptime_s"),
            "roots": [{key: row[key] for key in ROOT_FIELDS if key in row} for row in rows],
            "missing": missing or None,
        }
        return _without_none(result)

    def layouts(self) -> dict[str, str]:
        """Return {root: layout} of the roots that the agent may see."""
        return {row["name"]: row.get("layout") or "unknown" for row in self.status({})["roots"]}

    # -- writing ----------------------------------------------------------------------------------

    def add(self, params: JsonObject) -> JsonObject:
        """Call `memory.add`; the root may be omitted if there is only one."""
        root = self._require_visible(params.get("root")) or self._only_root()
        return self._with_uri(self._request("memory.add", {**params, "root": root}))

    def update(self, params: JsonObject) -> JsonObject:
        """Call `memory.update` with `changes`; `touch` alone only marks the memory as used."""
        params = dict(params)
        touch = params.pop("touch", False)
        if not touch and not params.get("changes"):
            raise UsageError("no changes given", hint="give `changes`, or `touch`: true")
        params = self._with_root(params)
        if not params.get("changes"):
            current = self._request("memory.get", {"id": params["id"], "root": params["root"], "touch": True})
            return self._with_uri({key: current[key] for key in ("root", "id", "path") if key in current})
        changed = self._with_uri(self._request("memory.update", params))
        if touch:
            self._request("memory.get", {"id": changed["id"], "root": changed["root"], "touch": True})
        return changed

    def forget(self, params: JsonObject) -> JsonObject:
        """Call `memory.forget`."""
        return self._with_uri(self._request("memory.forget", self._with_root(params)))

    # -- calls ------------------------------------------------------------------------------------

    def _includes(self, root: object) -> bool:
        """Return True if an agent may see that root."""
        return not self._names or root in self._names

    def _require_visible(self, root: str | None) -> str | None:
        """Return the requested root. Raises UnknownRootError if an agent may not see it."""
        if root is not None and not self._includes(root):
            raise UnknownRootError("this server does not serve this root", hint=f"it serves: {', '.join(self._names)}")
        return root

    def _request(self, method: str, params: JsonObject) -> JsonObject:
        try:
            return self._call(method, params)
        except UnknownRootError as error:
            if not self._names:
                raise
            # The daemon's hint names all its roots, also those out of scope.
            raise UnknownRootError(
                error.message, hint="this server was started for a root that does not exist"
            ) from error

    def _in_scope(self, params: JsonObject) -> JsonObject:
        """Return the parameters limited to the requested root, or to the roots that the agent may see."""
        if self._require_visible(params.get("root")) is not None or not self._names:
            return dict(params)
        return {**params, "roots": list(self._names)}

    def _find(self, params: JsonObject) -> JsonObject:
        """Return the one memory with this id in the roots that the agent may see."""
        root = self._require_visible(params.get("root"))
        if root is not None or not self._names:
            return self._require_in_scope(self._request("memory.get", params))
        matches: list[JsonObject] = []
        refusals: list[MemorydError] = []
        for name in self._names:
            try:
                matches.append(self._require_in_scope(self._request("memory.get", {**params, "root": name})))
            except (NotFoundError, *_UNREADABLE) as error:
                refusals.append(error)
        if not matches:  # a root that cannot be read may have it
            raise next((each for each in refusals if isinstance(each, _UNREADABLE)), refusals[0])
        if len(matches) > 1:
            names = [each["root"] for each in matches]
            raise ConflictError(
                "several roots have a memory with this id", hint=f"name one: {', '.join(names)}", data={"roots": names}
            )
        return matches[0]

    def _with_root(self, params: JsonObject) -> JsonObject:
        """Return the parameters with the root that has the memory."""
        root = self._require_visible(params.get("root")) or self._find({"id": params["id"]})["root"]
        return {**params, "root": root}

    def _require_in_scope(self, row: JsonObject) -> JsonObject:
        """Return the row if its root is in scope, else raise NotFoundError."""
        if not self._includes(row.get("root")):
            raise NotFoundError("no such memory in the roots that this server serves")
        return row

    def _rows(self, rows: Sequence[JsonObject]) -> list[JsonObject]:
        return [self._with_uri(row) for row in rows if self._includes(row.get("root"))]

    def _only_root(self) -> str:
        if len(self._names) == 1:
            return self._names[0]
        layouts = self.layouts()
        if len(layouts) != 1:
            names = ", ".join(f"{name} ({layout})" for name, layout in layouts.items())
            raise UsageError("specify the root to store in", hint=f"`root` is one of: {names or 'there are none yet'}")
        return next(iter(layouts))

    @staticmethod
    def _with_uri(row: JsonObject) -> JsonObject:
        """Return the row with its `uri`."""
        return {**row, "uri": memory_uri(row["root"], row["id"])}


def _without_none(params: Mapping[str, object]) -> JsonObject:
    return {name: value for name, value in params.items() if value is not None}


def _without_vectors(row: JsonObject) -> JsonObject:
    memory = row.get("memory")
    if not isinstance(memory, dict):
        return row
    vectors = [name for name, value in memory.items() if _is_vector(value)]
    if not vectors:
        return row
    remaining = {name: value for name, value in memory.items() if name not in vectors}
    return {**row, "memory": remaining, "left_out": vectors}


def _is_vector(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= _VECTOR_LENGTH
        and all(isinstance(each, (int, float)) for each in value)
    )


Operation = Callable[[Memories, JsonObject], JsonObject]
