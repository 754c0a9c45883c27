"""What an agent can ask for, within the roots it may see. Every method takes and gives plain JSON values.

Where the server is limited to several roots, each is asked by itself and the answers are merged here, so that nothing
of another root is ever asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memoryd.errors import ConflictError, MemorydError, NoDaemonError, NotFoundError, UsageError
from memoryd.mcp.addresses import address
from memoryd.mcp.link import Call, Values
from memoryd.mcp.merging import merged_hits, next_page, page_of
from memoryd.mcp.scope import Scope

_ROOT_FIELDS = (
    "name", "path", "layout", "mode", "state", "reasons", "memories", "archived", "findings", "limits", "lag_ms",
)  # fmt: skip
_VECTOR = 32  # a list of at least so many numbers is no reading for an agent


class Memories:
    """Raises MemorydError kinds: what the daemon reports, NoDaemonError, and our own refusals."""

    def __init__(self, call: Call, scope: Scope) -> None:
        self._call = call
        self._scope = scope

    # -- looking ----------------------------------------------------------------------------------

    def search(self, params: Values) -> Values:
        """`memory.search`; each hit with its `uri`."""
        answers, skipped = self._each("memory.search", params)
        result = merged_hits(answers, params)
        result["hits"] = [self._addressed(hit) for hit in result["hits"] if self._scope.inside(hit)]
        return {**result, "skipped": skipped} if skipped else result

    def get(self, params: Values) -> Values:
        """`memory.get`, without the numbers of a stored embedding unless `embedding` asks for them."""
        params = dict(params)
        whole = params.pop("embedding", False)
        found = self._addressed(self._find(params))
        return found if whole else _without_vectors(found)

    def page(self, params: Values) -> Values:
        """`memory.list`. Limited to several roots it goes through them one after another."""
        params = dict(params)
        roots = self._scope.chosen(params.pop("root", None))
        at, cursor = page_of(params.pop("cursor", None), len(roots))
        asked = {**params, "root": roots[at], "cursor": cursor}
        result = self._call("memory.list", _given(asked))
        rows = [self._addressed(row) for row in result.get("memories", []) if self._scope.inside(row)]
        following = next_page(at, result.get("next_cursor"), len(roots))
        return _given({**result, "memories": rows, "next_cursor": following})

    def status(self, params: Values) -> Values:
        """The daemon, and the roots an agent may see."""
        [root, *_] = self._scope.chosen(params.get("root")) if params.get("root") else [None]
        told = self._call("status", _given({"root": root}))
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
        root = params.get("root") or self._only_root()
        self._scope.chosen(root)
        return self._addressed(self._call("memory.add", {**params, "root": root}), root)

    def update(self, params: Values) -> Values:
        """`memory.update` with `changes`; with `touch` alone the memory is only marked as used."""
        params = self._placed(params)
        touch = params.pop("touch", False)
        if not touch and not params.get("changes"):
            raise UsageError("nothing is to be changed", hint="give `changes`, or `touch`: true")
        result: Values = {}
        if params.get("changes"):
            result = self._call("memory.update", params)
        if touch:
            asked = {"id": result.get("id", params["id"]), "root": params.get("root"), "touch": True}
            seen = self._call("memory.get", _given(asked))
            result = result or {key: seen[key] for key in ("root", "id", "path") if key in seen}
        return self._addressed(result, params.get("root"))

    def forget(self, params: Values) -> Values:
        params = self._placed(params)
        return self._addressed(self._call("memory.forget", params), params.get("root"))

    # -- asking -----------------------------------------------------------------------------------

    def _each(self, method: str, params: Values) -> tuple[list[Values], list[Values]]:
        """The answers of every root, and the roots that had none. Raises the first error when none answers."""
        params = dict(params)
        roots = self._scope.chosen(params.pop("root", None))
        answers: list[Values] = []
        errors: list[tuple[str | None, MemorydError]] = []
        for root in roots:
            try:
                answers.append(self._call(method, _given({**params, "root": root})))
            except NoDaemonError:
                raise
            except MemorydError as error:
                errors.append((root, error))
        if not answers:
            raise errors[0][1]
        return answers, [{"root": root, "code": error.name, "message": error.message} for root, error in errors]

    def _find(self, params: Values) -> Values:
        """The one memory of this id in the roots an agent may see."""
        params = dict(params)
        roots = self._scope.chosen(params.pop("root", None))
        found: list[Values] = []
        missed: list[MemorydError] = []
        for root in roots:
            try:
                found.append(self._call("memory.get", _given({**params, "root": root})))
            except NotFoundError as error:
                missed.append(error)
        found = [each for each in found if self._scope.inside(each)]
        if len(found) > 1:
            names = [each["root"] for each in found]
            raise ConflictError(
                "several roots have a memory of this id", hint=f"name one: {', '.join(names)}", data={"roots": names}
            )
        if not found:
            raise missed[0] if missed else NotFoundError("no such memory in the roots that this server serves")
        return found[0]

    def _placed(self, params: Values) -> Values:
        """The same with the root in which the id is to be changed."""
        root, *others = self._scope.chosen(params.get("root"))
        if root is None or others:
            root = self._find({"id": params["id"]})["root"]
        return {**params, "root": root}

    def _only_root(self) -> str:
        if len(self._scope.names) == 1:
            return self._scope.names[0]
        layouts = self.layouts()
        if len(layouts) != 1:
            known = ", ".join(f"{name} ({layout})" for name, layout in layouts.items())
            raise UsageError("say in which root to store", hint=f"`root` is one of: {known or 'none is there yet'}")
        return next(iter(layouts))

    def _addressed(self, row: Mapping[str, Any], root: str | None = None) -> Values:
        """The row with its root and its `uri`, where it tells both parts."""
        name = row.get("root", root)
        if not isinstance(name, str) or not isinstance(row.get("id"), str):
            return dict(row)
        return {"root": name, **row, "uri": address(name, row["id"])}


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
