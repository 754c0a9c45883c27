"""Load the server with the SDK of the protocol, but without the parts that only clients of the protocol need.

Every agent starts such a process and waits for it. Importing any module of the SDK imports its clients, and with them
an HTTP client: 12 of 67 MB and a sixth of the start-up time.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from types import ModuleType

from memoryd.errors import ConfigError

# Packages whose `__init__` imports far more than server.py needs.
_PACKAGES = ("mcp", "mcp.server")


def load() -> ModuleType:
    """Return the module server.py. Raises ConfigError if the SDK is missing or too old."""
    gc.disable()  # thousands of types are made and none is garbage: collection takes a tenth of the time
    try:
        return _load()
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "memoryd":
            raise
        raise ConfigError(
            f"`memoryd mcp` needs the package mcp, version 2.3 or newer ({error})", data={"extra": "mcp"}
        ) from error
    finally:
        gc.enable()


def _load() -> ModuleType:
    if "mcp" in sys.modules:
        return _server()
    try:
        for name in _PACKAGES:
            _stub_package(name)
        return _server()
    except (ImportError, AttributeError):
        _unload()  # unexpected SDK layout: import everything
        return _server()


def _server() -> ModuleType:
    from memoryd.mcp import server  # noqa: PLC0415 - the point of this module

    return server


def _stub_package(name: str) -> None:
    """Let the modules of a package be imported without running its `__init__`."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def _unload() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        del sys.modules[name]
