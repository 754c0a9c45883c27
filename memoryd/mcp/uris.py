"""`memory://root/id`, the address of a memory as a resource. Both parts are percent-encoded, so ids may hold slashes,
hashes and any script."""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

from memoryd.errors import UsageError

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
