"""One watched root: layout, policy, catalogue, journal, blobs and the open tree.

A store has one writer, the worker of its root. Nothing here knows the clock: times are arguments.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from memoryd.core.findings import Finding
from memoryd.core.ignore import is_ignored
from memoryd.core.plan import Fingerprint
from memoryd.core.policy import Limit, Mode, Policy
from memoryd.core.records import ParseOffset, Role
from memoryd.core.retention import Quality
from memoryd.disk import modes
from memoryd.disk.backups import HashCache
from memoryd.disk.blobs import Blobs
from memoryd.disk.daemon_lock import lock_directory
from memoryd.disk.git_state import blocked_by_git, paths_in_git_dir
from memoryd.disk.journal import Journal
from memoryd.disk.nofollow import NotBeneathError, NotRegularError, TooLargeError
from memoryd.disk.processes import network_file_system
from memoryd.disk.snapshots import Vault
from memoryd.disk.tree import Scan, Tree
from memoryd.errors import BusyError, MemorydError, RootMissingError
from memoryd.index.sqlite import open_index
from memoryd.layouts.codes import QUIET
from memoryd.layouts.protocol import MAX_BYTES, FileStats, IndexResult, Layout, LoadedFile, embed_nothing
from memoryd.layouts.registry import LAYOUTS
from memoryd.log import get_logger
from memoryd.store.late_writes import LateWrites
from memoryd.store.line_files import PendingChanges, partial_parse
from memoryd.store.locks import StoreLock
from memoryd.store.recent_adds import Recent, Watched, from_json, to_json

log = get_logger(__name__)

_ROLES = {str(role): role for role in Role}
WATCHED = "watched"  # in the journal: what was stored a moment ago, over a restart
DELETION_QUIET_S, MAX_DELETION_S = 1.0, 10.0
LATE_WAIT_S = 0.2  # for the lock
CONFIRMED = "confirmed_layout"  # in the journal: the layout that the user has confirmed


def state_place(state_dir: str, path: str) -> str:
    """Return the state directory of a root: named by the root's path, so that renaming the root keeps its
    history."""
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    return os.path.join(state_dir, "roots", f"{os.path.basename(path) or 'root'}-{digest}")


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was just read."""

    loaded: LoadedFile
    fingerprint: Fingerprint


@dataclass(slots=True)
class IndexState:
    """The last known and written state of each index file. `dirty`: something was indexed since; `noticed`: a version
    that another program wrote, and when it was first seen; `vanishing`: when files were first and last seen to go,
    without a pause between; `deletion_event`: when an event last told of a deleted source file, which any thread may
    set: the file may still wait to be indexed."""

    dirty: bool = True
    seen: dict[str, Fingerprint | None] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    written_at: dict[str, float] = field(default_factory=dict)
    overturned: dict[str, int] = field(default_factory=dict)
    noticed: dict[str, tuple[Fingerprint, float]] = field(default_factory=dict)
    result: IndexResult = field(default_factory=IndexResult)
    vanishing: tuple[float, float] | None = None
    deletion_event: float = 0.0

    def note_deletion(self, now: float) -> None:
        """Note that a source file is gone; `now` in seconds since the epoch."""
        first = self.vanishing[0] if self.vanishing and self.deleted_until(now) is not None else now
        self.vanishing = (first, now)

    def deleted_until(self, now: float) -> float | None:
        """Return until when no index is written because the whole directory may be in the process of being removed;
        None if one may be written. A new file would prevent the removal."""
        if self.vanishing is None:
            return None
        first, last = self.vanishing
        last = max(last, min(self.deletion_event, now))
        until = min(last + DELETION_QUIET_S, first + MAX_DELETION_S)
        return until if last <= now < until else None


class Store(StoreLock):
    """A root with its state, which is open from the start, and its directory, which `attach` opens; that may fail and
    be retried."""

    def __init__(self, name: str, path: str, layout: str | None, policy: Policy, state_dir: str) -> None:
        super().__init__()
        self._tree: Tree | None = None
        self.name = name
        self.path = path
        self.policy = policy
        self.state_dir = state_dir
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        self.catalogue = open_index(os.path.join(state_dir, "catalogue.sqlite"), quiet=QUIET)
        self.journal = Journal(os.path.join(state_dir, "journal.sqlite"))
        self.vault = Vault(os.path.join(state_dir, "snapshots.sqlite"))
        self.blobs = Blobs(os.path.join(state_dir, "blobs"))
        self.layout = LAYOUTS.get(layout or self.journal.facts.get(CONFIRMED, ""))
        # Evidence for a layout that the user has neither configured nor confirmed: nothing is written in the root then.
        self.guessed_by: str | None = None
        self.foreign: str | None = None  # the program that owns the store, if it is another one
        self.too_wide: str | None = None  # why no layout is looked for: "is your home directory"
        if self.journal.facts.get("sensitive_words", False) != policy.sensitive_words:
            self.catalogue.clear()  # memories indexed under the other setting are indexed again
            self.journal.facts.set("sensitive_words", policy.sensitive_words)
        self.late_writes = LateWrites(self.journal, self.blobs)
        self.index = IndexState()
        self.pending_changes = PendingChanges()
        # Findings that lie in no single file: duplicates, limits, locks, modes, odd files.
        self.noted: dict[str, tuple[Finding, ...]] = {}
        self.embed: Callable[[str, int], Sequence[float] | None] = embed_nothing  # until an embedder is set
        self.uses = self.journal.access.counts()  # of memories whose layout has no place to count them, by path and id
        self.network_fs: str | None = None
        self.backups_seen: HashCache = {}
        # Recent additions by path and id; those that an agent undid; the findings about them, with their times.
        self.recent: Watched = from_json(self.journal.facts.get(WATCHED, []))
        self.undone: list[tuple[str, str, Recent]] = []
        self.undone_told: list[tuple[float, Finding]] = []
        self.jumped_s = 0.0  # the jump of the wall clock against the boot clock while memoryd ran
        self.attachments = 0  # how often the directory was opened: when it changes, all watches are void
        self.owner = os.geteuid()
        self._owned: ExitStack = ExitStack()

    @property
    def layout(self) -> Layout | None:
        """The layout; None until exactly one was recognised."""
        return self._layout

    @layout.setter
    def layout(self, layout: Layout | None) -> None:
        """Use this layout with the policy of the root."""
        self._layout = layout.configured(self.policy) if layout else None
        if self._tree is not None:
            self._tree.max_bytes = self.most_bytes

    @property
    def most_bytes(self) -> int:
        """Files above this size are not read, and none is made larger."""
        return self._layout.files.max_bytes if self._layout else MAX_BYTES

    @property
    def observes(self) -> bool:
        """True if nothing is written unattended."""
        return self.policy.mode is Mode.OBSERVE or self.guessed_by is not None or self.foreign is not None

    def guess(self, name: str, why: str) -> None:
        """Use a recognised layout that the user has not confirmed yet."""
        if self.journal.facts.get("layout") not in (None, name):
            self.catalogue.clear()  # memories indexed with another layout are indexed again
        self.journal.facts.set("layout", name)
        self.layout, self.guessed_by = LAYOUTS[name], why
        told = f"looks like {name} because {why}; nothing is written here until it is confirmed"
        self.noted["layout"] = (Finding("layout-unconfirmed", "", told),)

    def confirm(self) -> None:
        """Confirm the recognised layout for good."""
        if self.layout is not None:
            self.journal.facts.set(CONFIRMED, self.layout.name)
            self.guessed_by = None
            self.noted.pop("layout", None)

    # --- attaching

    @property
    def tree(self) -> Tree:
        """The open directory; RootMissingError when there is none."""
        if self._tree is None:
            raise RootMissingError(
                f"root {self.name}: {self.path} does not exist",
                hint="mount or create the directory; memoryd resumes by itself",
            )
        return self._tree

    @property
    def attached(self) -> bool:
        """Is the directory open?"""
        return self._tree is not None

    def attach(self) -> Tree:
        """Open the directory and own it; OSError when it cannot be opened, AlreadyRunningError when another
        daemon tends it."""
        self.detach()
        tree = Tree(os.path.realpath(self.path))
        try:
            self._owned.enter_context(lock_directory(tree.fd, tree.path))
        except BaseException:
            tree.close()
            raise
        self.network_fs = network_file_system(tree.path)
        tree.max_bytes = self.most_bytes
        self._tree = tree
        self.attachments += 1
        return tree

    def is_in_place(self) -> bool:
        """True if the path refers to the directory that is open. One stat, for right before each command."""
        if self._tree is None:
            return False
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._tree.identity

    def leads_here(self) -> bool:
        """True if the path still resolves to the open directory. A symlink on the way may have changed."""
        return os.path.realpath(self.path) == self.tree.path

    def look_only(self) -> Tree:
        """Open the directory without owning it: for read-only checks while a daemon is running."""
        self._tree = Tree(os.path.realpath(self.path))
        self._tree.max_bytes = self.most_bytes
        return self._tree

    def detach(self) -> None:
        """Close the lock and the directory."""
        self.forget_lock()
        self._owned.close()
        if self._tree is not None:
            self._tree.close()
            self._tree = None

    def close(self) -> None:
        """Close everything; recent additions are remembered over a restart."""
        self.late_writes.close()
        self._keep_watch()
        self.detach()
        self.catalogue.close()
        self.journal.close()
        self.vault.close()
        self.blobs.close()

    def _keep_watch(self) -> None:
        """Save recent additions: an agent may overwrite them after our restart, too. If the disk fails, watching ends
        here."""
        try:
            if self.recent or self.journal.facts.get(WATCHED, []):
                self.journal.facts.set(WATCHED, to_json(self.recent))
        except (OSError, MemorydError, TypeError, ValueError) as error:
            log.warning("stopped watching recent additions", root=self.name, reason=str(error))

    def merge_late_writes(self, now: float) -> int:
        """Append to the live files what was written to replaced inodes. Returns the count of bytes; while others keep
        the lock the bytes stay where they are."""
        if not self.late_writes.has_new():
            return self.late_writes.merge(self.tree, now)
        try:
            with self.locked(LATE_WAIT_S, honour_soft=False):
                return self.late_writes.merge(self.tree, now)
        except BusyError:
            return 0

    # --- reading

    @property
    def limits(self) -> Mapping[str, Limit]:
        """The limits of the layout and the configuration over them, by path; lifted ones are left out."""
        own = self.layout.files.limits if self.layout else {}
        merged = {**own, **self.policy.limits}
        return {path: limit for path, limit in merged.items() if limit is not None}

    def role(self, path: str) -> Role:
        """Return the role of a path in the layout; ignored ones are foreign."""
        return Role.FOREIGN if self.layout is None or self.is_ignored(path) else self.layout.reader.role(path)

    def is_ignored(self, path: str) -> bool:
        """True if this path is ignored. A directory's path ends in a slash."""
        return is_ignored(path, self.policy.ignore)

    def scan(self) -> Scan:
        """Scan everything that is not ignored."""
        return self.tree.scan(lambda directory: self.is_ignored(f"{directory}/"))

    def load(self, path: str, now: float, ids: Collection[str] | None = None) -> Source | None:
        """Read one file again, to be parsed when its document is needed. None if it is missing or must not be opened (a
        finding reports that): one such file must not block the upkeep of the others. With `ids` the document need
        only contain these memories."""
        assert self.layout is not None
        try:
            data, fingerprint = self.tree.read(path)
        except (FileNotFoundError, NotADirectoryError, NotBeneathError, NotRegularError, TooLargeError):
            return None
        mtime = fingerprint.mtime_ns / 1e9
        parse = partial(self.layout.reader.parse, path, data, now=now, mtime=mtime, base=ParseOffset())
        loaded = LoadedFile(data, parse, mtime)
        part = partial_parse(self.layout, self.catalogue, path, loaded, ids, now) if ids is not None else None
        return Source(loaded.with_document(part) if part is not None else loaded, fingerprint)

    def quality(self, path: str, content: bytes, now: float) -> Quality:
        """Return how much of `content` is readable as that file."""
        assert self.layout is not None
        return self.layout.reader.quality(path, content, now=now)

    def files(self) -> dict[str, FileStats]:
        """Return what the catalogue knows of each source and archive file, by path."""
        return {
            path: FileStats(path, _ROLES[role], size, units, broken, records, facts)
            for path, role, size, units, broken, records, facts in self.catalogue.summaries()
        }

    def pinned(self) -> frozenset[str]:
        """Return the digests of memories that an undo or `unarchive` brought back: no upkeep moves them as they are."""
        return self.journal.pins.digests()

    def mode_for(self, path: str) -> int:
        """Return the mode of a new file whose directory exists."""
        return modes.shared_file_mode(self.tree, path) if self._shared() else modes.PRIVATE_FILE

    def mode_for_folder(self, path: str) -> int:
        """Return the mode of a new directory whose parent exists."""
        return modes.shared_directory_mode(self.tree, path) if self._shared() else modes.PRIVATE_DIRECTORY

    def _shared(self) -> bool:
        return self.layout is not None and not self.layout.files.owner_only

    def blocked(self) -> str | None:
        """Return why nothing may be written now although the disk would accept it (a git operation), or None."""
        if self.layout is None or not self.layout.files.waits_for_git:
            return None
        return blocked_by_git(paths_in_git_dir(self.tree.path))
