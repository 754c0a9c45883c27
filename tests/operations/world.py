"""One store on a real disk with its own clock, for the tests of operations; a JSONL store unless a subclass differs."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from memoryd.core.defaults import Policy
from memoryd.core.records import Role
from memoryd.disk.temps import is_our_temp
from memoryd.disk.tree import Tree
from memoryd.operations.index_files import IndexUpdate, update_index
from memoryd.operations.refresh import RefreshResult, refresh
from memoryd.store import Store
from memoryd.store.recovery import recover
from tests.layouts.contract import NOW, index_of
from tests.layouts.samples import line

CORE, LEARNINGS, TASKS = "core_memories.jsonl", "learnings.jsonl", "tasks.jsonl"
LIVE = (CORE, LEARNINGS, TASKS)
Q3 = "archive/2025/learnings_2025_Q3.jsonl"


def whole_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of the files all of whose bytes are read from here on, each once until the list is cleared."""
    paths: list[str] = []

    def spy_on(name: str) -> None:
        real = getattr(Tree, name)

        def spy(tree: Tree, path: str, *args: Any, **how: Any) -> Any:
            if path not in paths:
                paths.append(path)
            return real(tree, path, *args, **how)

        monkeypatch.setattr(Tree, name, spy)

    spy_on("read")
    spy_on("read_grown")
    return paths


def kill(store: Store) -> None:
    """Do what the kernel does when the process dies: close descriptors, leave files unchanged."""
    for late in store.late_writes.waiting:
        late.replaced.detach()
    store.late_writes.waiting.clear()
    store.detach()
    store.catalogue.close()
    store.journal.close()
    store.vault.close()
    store.blobs.close()


class World:
    """A store and its directory. `now` is its wall clock, which also dates the files of agents."""

    kind = "jsonl-store"

    def __init__(self, base: Path, policy: Policy | None = None, kind: str | None = None) -> None:
        self.kind = kind or self.kind
        self.root = base / "root"
        self.state = base / "state"
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.policy = policy or Policy()
        self.now = NOW
        self.store = self.open()

    # --- the daemon

    def open(self) -> Store:
        store = Store("agents", str(self.root), self.kind, self.policy, str(self.state))
        store.attach()
        return store

    def restart(self) -> list[str]:
        """Stop in an orderly way and start again; return the messages of the recovery."""
        self.store.close()
        return self.rise()

    def kill(self) -> None:
        kill(self.store)

    def rise(self) -> list[str]:
        self.store = self.open()
        return recover(self.store, self.now)

    def look(self, touched: Iterable[str] | None = None, **how: Any) -> RefreshResult:
        """Index what changed, as an event or a scan would."""
        return refresh(self.store, touched, self.now, **how)

    def sync(self) -> IndexUpdate:
        self.look()
        return update_index(self.store, self.now, force=True)

    def settle(self) -> None:
        """Let time pass until no process can have a replaced file open."""
        self.now += 3.0
        self.store.late_writes.merge(self.store.tree, self.now)

    # --- agents

    def path(self, name: str) -> Path:
        return self.root / name

    def write(self, name: str, content: bytes, age: float = 3600.0) -> None:
        """Truncate and write, as careless programs do."""
        path = self.path(name)
        for folder in reversed(path.parents):
            folder.mkdir(mode=0o700, exist_ok=True)
        known = path.exists()
        path.write_bytes(content)
        if not known:
            path.chmod(0o600)
        self.age(name, age)

    def replace(self, name: str, content: bytes, age: float = 3600.0) -> None:
        """The published way: a new file and a rename."""
        temp = self.path(name + ".tmp")
        temp.write_bytes(content)
        temp.chmod(0o600)
        temp.rename(self.path(name))
        self.age(name, age)

    def append(self, name: str, native: dict[str, Any], age: float = 3600.0) -> None:
        """The published way: `json.dumps` and a newline, on an open file."""
        with self.path(name).open("ab") as file:
            file.write(line(native) + b"\n")
        self.age(name, age)

    def age(self, name: str, seconds: float) -> None:
        at = int((self.now - seconds) * 1e9)
        os.utime(self.path(name), ns=(at, at))

    # --- observing

    def read(self, name: str) -> bytes:
        return self.path(name).read_bytes()

    def index(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.read("index.json"))
        return body

    def rebuilt(self) -> dict[str, Any]:
        """Return the expected index, computed from the files alone."""
        files = {name: self.read(name) for name in self.names() if name != "index.json"}
        rendered = index_of(self.layout, {CORE: b"", **files}, self.now)  # without any of its files there is no index
        body: dict[str, Any] = json.loads(rendered.files["index.json"])
        return body

    @property
    def layout(self) -> Any:
        return self.store.layout

    def names(self) -> list[str]:
        found = (Path(folder, name) for folder, _, names in os.walk(self.root) for name in names)
        return sorted(str(path.relative_to(self.root)) for path in found)

    def memories(self) -> dict[str, tuple[bytes, int]]:
        """Return content and mode of every live and archive file."""
        kept = [name for name in self.names() if self.store.role(name) in (Role.SOURCE, Role.ARCHIVE)]
        return {name: (self.read(name), stat.S_IMODE(self.path(name).stat().st_mode)) for name in kept}

    def everything(self) -> dict[str, tuple[bytes, int, int]]:
        """Return content, mode and modification time of every file, and the modes of directories."""
        seen: dict[str, tuple[bytes, int, int]] = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder, name)
                found = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                seen[str(path.relative_to(self.root))] = (content, found.st_mode, found.st_mtime_ns)
            found = Path(folder).stat()
            seen[str(Path(folder).relative_to(self.root))] = (b"", found.st_mode, found.st_mtime_ns)
        return seen

    def temps(self) -> list[str]:
        return [name for name in self.names() if is_our_temp(name)]

    def backups(self, file: str = "") -> list[str]:
        return [name.removeprefix(".backup/") for name in self.names() if name.startswith(f".backup/{file}")]


def same_meaning(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if equal except for the time of writing and keys of other programs."""
    keys = ("version", "statistics", "tags_index", "category_index", "importance_index")
    return [one[key] for key in keys] == [other[key] for key in keys]
