"""The configuration as values: frozen, complete, every default filled in.

The origin of a value is ignored when configurations are compared: a root whose lines moved in the file is unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from memoryd.core.defaults import Policy

EMBEDDERS = ("static", "minilm", "endpoint", "off")
SECRETS = ("seed", "literal", "shapes", "off")

COMMAND_LINE = "command line"
DEFAULT = "default"


class DaemonConfig(Struct, frozen=True):
    """Settings of the daemon itself: `settle_*` in milliseconds, `quiet_*` in seconds."""

    log_level: str = "info"
    log_format: str = "auto"
    settle_ms: int = 100  # quiet time in a burst before the index files are written
    settle_cap_ms: int = 1000  # but never later than this after the first change
    quiet_s: float = 10  # quiet time that scheduled upkeep waits for
    quiet_cap_s: float = 60  # but never later than this after it is due
    max_clients: int = 64


class EndpointConfig(Struct, frozen=True):
    """A server that makes vectors. `key_env`: the environment variable with its API key, if it needs one."""

    url: str = "http://localhost:11434/v1"
    model: str = "all-minilm"
    key_env: str = "MEMORYD_EMBEDDINGS_KEY"
    size: int = 384


class SearchConfig(Struct, frozen=True):
    """The settings of the semantic search: which embedder makes the vectors, and which ranks the best results again."""

    embedder: str = "static"
    endpoint: EndpointConfig = EndpointConfig()
    rerank: str = "auto"


@dataclass(frozen=True, slots=True)
class RootConfig:
    """One root. `path` is absolute with links resolved; the directory need not exist yet.

    `external` means that `memory_configuration.external_path` names the directory, which is created when missing.
    `position` counts the `[[root]]` tables of the file from 0; it is None for a root of the command line.
    """

    name: str
    path: str
    display_path: str
    layout: str = "auto"
    policy: Policy = field(default_factory=Policy)
    project: str | None = None
    external: bool = False
    origin: str = field(default=COMMAND_LINE, compare=False)
    position: int | None = field(default=None, compare=False)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration.

    `path` is the file read, None without one. `origins` holds those of the `[daemon]` values, and those of `[search]`
    as `search.KEY` and `search.endpoint.KEY`. `defaults` are the settings of a root that has none of its own.
    """

    daemon: DaemonConfig = field(default_factory=DaemonConfig)
    roots: tuple[RootConfig, ...] = ()
    path: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    search: SearchConfig = field(default_factory=SearchConfig)
    defaults: Policy = field(default_factory=Policy)

    def root(self, name: str) -> RootConfig | None:
        """Return the root of that name, or None."""
        return next((root for root in self.roots if root.name == name), None)

    def root_at(self, path: str) -> RootConfig:
        """Return the root at a real path; one with the default settings if there is none."""
        root = next((root for root in self.roots if root.path == path), None)
        return root or RootConfig(os.path.basename(path), path, path, policy=self.defaults)
