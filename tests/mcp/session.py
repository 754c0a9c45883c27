"""Sessions of the official client with `memoryd mcp`, in a separate process or in this one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, MCPError, StdioServerParameters, types
from mcp.server.lowlevel import Server

import memoryd
from memoryd.mcp.client import caller
from memoryd.mcp.memories import Memories
from memoryd.mcp.server import build

T = TypeVar("T")
Work = Callable[[Client], Awaitable[T]]

PATIENCE_S = 60.0


def server(socket: str, *options: str) -> StdioServerParameters:
    """Return the process as an agent starts it: with hardly any environment."""
    words = ["-m", "memoryd", "--socket", socket, "mcp", *options]
    return StdioServerParameters(
        command=sys.executable, args=words, env={"PYTHONPATH": str(Path(memoryd.__file__).parents[1])}
    )


def in_process(socket: str, *roots: str, read_only: bool = False) -> Server[Any]:
    """Return the server inside this process, for tests that do not depend on a separate one."""
    return build(Memories(caller(lambda: socket), roots), read_only=read_only)


def session(started: StdioServerParameters | Server[Any], work: Work[T], mode: str = "legacy") -> T:
    """Return the result of `work` with a connected client. Mode "legacy" starts with initialize, as agents do now."""

    async def run() -> T:
        async with Client(started, mode=mode) as client:
            return await asyncio.wait_for(work(client), PATIENCE_S)

    return asyncio.run(run())


async def result_of(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured result of a tool that must not fail."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text that an agent gets for a call that must fail."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    assert result.structured_content is None
    return text_of(result)


def text_of(result: types.CallToolResult) -> str:
    [first, *_] = result.content
    assert isinstance(first, types.TextContent)
    return first.text


async def protocol_error(call: Awaitable[object]) -> MCPError:
    try:
        await call
    except MCPError as error:
        return error
    raise AssertionError("nothing was refused")
