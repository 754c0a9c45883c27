"""The seven tools: name, words, arguments, answer, hints, and what carries each out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryd.errors import DeniedError
from memoryd.mcp import answers, arguments
from memoryd.mcp.link import Values
from memoryd.mcp.memories import Memories, Verb


@dataclass(frozen=True, slots=True)
class Tool:
    """`writes`: left out and refused by a server started with --read-only. `destroys`: changes or takes away what is
    there. `repeatable`: the same call once more changes nothing further."""

    name: str
    title: str
    description: str
    takes: type[arguments.Arguments]
    gives: dict[str, Any]
    verb: Verb
    writes: bool = False
    destroys: bool = False
    repeatable: bool = True


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "search_memories",
            "Search memories",
            "Find what was remembered, best first. Search before you begin a task, and whenever you meet an error, a "
            "name or a decision that may have come up before. Any text is a legal query. Without max_tokens it gives "
            "snippets (get_memory gives the whole); with it whole memories, ready to use.",
            arguments.Search,
            answers.SEARCH,
            Memories.search,
        ),
        Tool(
            "get_memory",
            "Read one memory",
            "One memory, whole, as it was written.",
            arguments.Get,
            answers.GET,
            Memories.get,
        ),
        Tool(
            "list_memories",
            "List memories",
            "The memories of one root or of all, newest first, page by page. To find something, search_memories is "
            "better.",
            arguments.Listing,
            answers.LIST,
            Memories.page,
        ),
        Tool(
            "add_memory",
            "Store a memory",
            "Remember something for later sessions and other agents: a lesson, a decision, how something works here. "
            "One thing a memory, and so that it is understood without the present conversation. It is on disk when "
            "this returns. Never store passwords, tokens or keys: say where they are kept; real secrets are refused.\n"
            "What `memory` holds depends on the layout of the root:\n"
            "- jsonl-store: type (core, learning, task), content; category, tags, importance, task_metadata.\n"
            "- json-files: content; summary, type, confidence, tags, entities.\n"
            "- markdown-topics: with topic and subtopic beside it; title, context, problem, solution, code, date; or "
            "text alone.\n"
            "- session-files: with session beside it; type, category, title, content, confidence_score, …\n"
            "- user-document: with user beside it; content; importance (0 to 1), category, topics.",
            arguments.Add,
            answers.CHANGED,
            Memories.add,
            writes=True,
            repeatable=False,
        ),
        Tool(
            "update_memory",
            "Change a memory",
            "Correct or extend a memory: the named fields change, the rest stays. Better than adding a second one "
            "that says nearly the same. It can be taken back by its receipt.",
            arguments.Update,
            answers.CHANGED,
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
            arguments.Forget,
            answers.CHANGED,
            Memories.forget,
            writes=True,
            destroys=True,
        ),
        Tool(
            "memory_status",
            "See the memory roots",
            "The roots (memory directories) with their names, layouts, sizes and states, and whether their index is "
            "current.",
            arguments.Status,
            answers.STATUS,
            Memories.status,
        ),
    )
}


def offered(*, read_only: bool) -> list[Tool]:
    return [tool for tool in TOOLS.values() if not (read_only and tool.writes)]


def described(tool: Tool, layouts: Mapping[str, str]) -> str:
    """Its description, for a tool that stores with the roots there are now."""
    if tool.name != "add_memory" or not layouts:
        return tool.description
    known = ", ".join(f"{name} ({layout})" for name, layout in layouts.items())
    return f"{tool.description}\nRoots: {known}."


def carry_out(tool: Tool, memories: Memories, given: Mapping[str, Any], *, read_only: bool) -> Values:
    """The tool's answer. Raises MemorydError kinds."""
    if read_only and tool.writes:
        raise DeniedError("this server only reads", hint="it was started with --read-only")
    return tool.verb(memories, arguments.checked(tool.takes, given))
