"""Loading the server with the protocol's package, and that without what only the package's clients need.

One process of this kind stands beside every agent, and an agent waits for its start. The package brings its clients,
and with them a whole HTTP client, as soon as anything of it is imported: 12 of 67 MB and a sixth of the time.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from types import ModuleType

from memoryd.errors import ConfigError

# Packages that import far more than the parts of them that server.py names.
_WIDE = ("mcp", "mcp.server")


def load() -> ModuleType:
    """The module server.py. ConfigError where the protocol's package is missing or too old."""
    gc.disable()  # thousands of types are made, none is garbage: looking for it takes a tenth of the time
    try:
        return _load()
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "memoryd":
            raise
        raise ConfigError(
            f"`memoryd mcp` needs the package mcp, version 2.3 or newer ({error})", hint="pip install 'memoryd[mcp]'"
        ) from error
    finally:
        gc.enable()


def _load() -> ModuleType:
    if "mcp" in sys.modules:
        return _server()
    try:
        for name in _WIDE:
            _open(name)
        return _server()
    except (ImportError, AttributeError):
        _close()  # a version that is built otherwise: then all of it
        return _server()


def _server() -> ModuleType:
    from memoryd.mcp import server  # noqa: PLC0415 - the point of this module

    return server


def _open(name: str) -> None:
    """Let the modules of a package be imported without running the package itself."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, module)


def _close() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        del sys.modules[name]
