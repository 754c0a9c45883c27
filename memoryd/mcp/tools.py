"""The seven tools: name, description, arguments, answer, hints, and the operation behind each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from memoryd.control.methods.memories import AddResult, CheckedResult, GetResult, ListResult, SearchResult, StoredResult
from memoryd.control.methods.method_types import Result
from memoryd.control.methods.status import StatusResult
from memoryd.errors import DeniedError
from memoryd.layouts.registry import LAYOUTS
from memoryd.mcp import schemas
from memoryd.mcp.client import Values
from memoryd.mcp.memories import Memories, Verb


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `writes`: hidden and refused by a server started with --read-only; `destroys`: changes or removes
    existing data; `repeatable`: a second identical call changes nothing."""

    name: str
    title: str
    description: str
    takes: type[Struct]
    gives: type[Result]
    verb: Verb
    writes: bool = False
    destroys: bool = False
    repeatable: bool = True


def _fields_by_layout() -> str:
    """Return a line for each layout that can be written: where a memory goes, and its fields."""
    lines = []
    for name, layout in LAYOUTS.items():
        needed = [field for field, spec in layout.fields.items() if spec.required]
        others = [field for field in layout.fields if field not in needed]
        beside = f"with {' and '.join(layout.location)} beside it; " if layout.location else ""
        fields = "; ".join(", ".join(part) for part in (needed, others) if part)
        if layout.writer is not None:
            lines.append(f"- {name}: {beside}{fields}.")
    return "\n".join(lines)


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "search_memories",
            "Search memories",
            "Find what was remembered, best first. Search before you begin a task, and whenever you meet an error, a "
            "name or a decision that may have come up before. Any text is a legal query. Without max_tokens it gives "
            "snippets (get_memory gives the whole); with it whole memories, ready to use.",
            schemas.Search,
            SearchResult,
            Memories.search,
        ),
        Tool(
            "get_memory",
            "Read one memory",
            "One memory, whole, as it was written.",
            schemas.Get,
            GetResult,
            Memories.get,
        ),
        Tool(
            "list_memories",
            "List memories",
            "The memories of one root or of all, newest first, page by page. To find something, search_memories is "
            "better.",
            schemas.Listing,
            ListResult,
            Memories.page,
        ),
        Tool(
            "add_memory",
            "Store a memory",
            "Remember something for later sessions and other agents: a lesson, a decision, how something works here. "
            "One thing a memory, and so that it is understood without the present conversation. It is on disk when "
            "this returns. Never store passwords, tokens or keys: say where they are kept; real secrets are refused.\n"
            f"What `memory` holds depends on the layout of the root:\n{_fields_by_layout()}",
            schemas.Add,
            AddResult,
            Memories.add,
            writes=True,
            repeatable=False,
        ),
        Tool(
            "update_memory",
            "Change a memory",
            "Correct or extend a memory: the named fields change, the rest stays. Better than adding a second one "
            "that says nearly the same. It can be taken back by its receipt.",
            schemas.Update,
            CheckedResult,
            Memories.update,
            writes=True,
            destroys=True,
            repeatable=False,
        ),
        Tool(
            "forget_memory",
            "Forget a memory",
            "Take away a memory that is wrong or no longer true. It goes to the archive where the layout has one, and "
            "can be brought back by its receipt in any case.",
            schemas.Forget,
            StoredResult,
            Memories.forget,
            writes=True,
            destroys=True,
        ),
        Tool(
            "memory_status",
            "See the memory roots",
            "The roots (memory directories) with their names, layouts, sizes and states, and whether their index is "
            "current.",
            schemas.Status,
            StatusResult,
            Memories.status,
        ),
    )
}


def offer(*, read_only: bool) -> list[Tool]:
    """Return the tools that a server offers."""
    return [tool for tool in TOOLS.values() if not (read_only and tool.writes)]


def describe(tool: Tool, layouts: Mapping[str, str]) -> str:
    """Return the description of a tool; one that stores lists the current roots."""
    if tool.name != "add_memory" or not layouts:
        return tool.description
    known = ", ".join(f"{name} ({layout})" for name, layout in layouts.items())
    return f"{tool.description}\nRoots: {known}."


def carry_out(tool: Tool, memories: Memories, given: Mapping[str, object], *, read_only: bool) -> Values:
    """Return the tool's answer. Raises MemorydError kinds."""
    if read_only and tool.writes:
        raise DeniedError("this server is read-only", hint="it was started with --read-only")
    return tool.verb(memories, schemas.check_arguments(tool.takes, given))
