"""Views of a configuration: every value with its origin, and what a reload would change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import to_builtins
from msgspec.structs import asdict

from memoryd.config.settings import DEFAULT, Config, RootConfig
from memoryd.core.records import JsonObject


class Difference(NamedTuple):
    """The names of roots that a reload adds, changes and removes. A renamed root is one removed and one added; where
    the settings of [daemon] or [search] differ, every root that stays is changed."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


def diff(old: Config, new: Config) -> Difference:
    """Compare two configurations."""
    shared = (old.daemon, old.search) == (new.daemon, new.search)
    before = {root.name: root for root in old.roots}
    after = {root.name: root for root in new.roots}
    return Difference(
        tuple(name for name in after if name not in before),
        tuple(name for name in after if name in before and not (shared and before[name] == after[name])),
        tuple(name for name in before if name not in after),
    )


def effective(config: Config) -> JsonObject:
    """Return the file, and every value in force as `{"value": ..., "origin": ...}`, ready for JSON.

    The origin is `default`, `command line`, or the table and line it was written in: `daemon:3`,
    `defaults:12`, `root:20`.
    """
    words = ("embedder", "rerank")
    search: dict[str, object] = {
        name: _entry(getattr(config.search, name), config.origins, f"search.{name}") for name in words
    }
    search["endpoint"] = {
        name: _entry(value, config.origins, f"search.endpoint.{name}")
        for name, value in asdict(config.search.endpoint).items()
    }
    return {
        "path": config.path,
        "daemon": {name: _entry(value, config.origins, name) for name, value in asdict(config.daemon).items()},
        "search": search,
        "roots": {root.name: _root(root) for root in config.roots},
    }


def _root(root: RootConfig) -> dict[str, object]:
    plain = {"layout": root.layout, "project": root.project, **asdict(root.policy)}
    del plain["schedule"], plain["limits"]
    shown: dict[str, object] = {
        "name": _entry(root.name, root.origins, "name"),
        "path": {"value": root.path, "origin": _origin_of_path(root)},
        "external": {"value": root.external, "origin": _origin_of_path(root) if root.external else DEFAULT},
    }
    shown |= {name: _entry(value, root.origins, name) for name, value in plain.items()}
    shown["schedule"] = {
        job: _entry(text, root.origins, f"schedule.{job}") for job, text in root.policy.schedule.items()
    }
    shown["limits"] = {
        file: _entry("off" if limit is None else to_builtins(limit), root.origins, f"limits.{file}")
        for file, limit in root.policy.limits.items()
    }
    return shown


def _origin_of_path(root: RootConfig) -> str:
    """Return the origin of the key that names the directory."""
    written = (root.origins.get(key) for key in ("external_path", "path", "memory_path", "project"))
    return next(filter(None, written), root.origin)


def _entry(value: object, origins: Mapping[str, str], name: str) -> dict[str, object]:
    plain = list(value) if isinstance(value, tuple) else value
    return {"value": plain, "origin": origins.get(name, DEFAULT)}
