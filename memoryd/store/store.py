"""One watched root: layout, policy, catalogue, journal, blobs and the open tree.

A store has one writer, the worker of its root. Nothing here reads the clock: times are arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial

from msgspec import Struct

from memoryd import __version__
from memoryd.core.defaults import MB, Limit, Mode, Policy
from memoryd.core.findings import Finding
from memoryd.core.ignore import is_ignored
from memoryd.core.records import FileStats, ParseOffset, Role
from memoryd.core.retention import Quality
from memoryd.core.spans import Fingerprint, sha256
from memoryd.disk import modes
from memoryd.disk.backups import HashCache
from memoryd.disk.blobs import Blobs
from memoryd.disk.daemon_lock import lock_directory
from memoryd.disk.journal import Journal
from memoryd.disk.processes import blocked_by_git, network_file_system
from memoryd.disk.scan import Scan
from memoryd.disk.snapshots import UnsavedVersions, Vault
from memoryd.disk.spare_file import SpareFile
from memoryd.disk.syscalls import NO_READABLE_FILE
from memoryd.disk.tree import PathState, Tree
from memoryd.errors import BusyError, MemorydError, RootMissingError
from memoryd.index.sqlite import open_index
from memoryd.layouts.codes import QUIET
from memoryd.layouts.protocol import Layout, LoadedFile, no_embedding
from memoryd.layouts.registry import LAYOUTS
from memoryd.log import get_logger
from memoryd.store.index_state import recall, remember
from memoryd.store.indexed_files import FileEnds, FilePieces
from memoryd.store.late_writes import LATE_WRITES_TOPIC, LateWrites
from memoryd.store.lock import StoreLock
from memoryd.store.losses import Losses
from memoryd.store.partial_parse import partial_parse
from memoryd.store.pending_changes import PendingChanges
from memoryd.store.recent_changes import RecentChanges

log = get_logger(__name__)

LATE_LOCK_WAIT_S = 0.2  # for the lock
MAX_INDEX_BYTES = 1024 * MB  # of an index file that is read: three million memories
CONFIRMED = "confirmed_layout"  # journal key: the layout that the user has confirmed


def state_place(state_dir: str, path: str) -> str:
    """Return the state directory of a root. It is named by the path, so that a renamed root keeps its history."""
    digest = sha256(os.fsencode(path))[:12]
    return os.path.join(state_dir, "roots", f"{os.path.basename(path) or 'root'}-{digest}")


class Source(Struct, frozen=True):
    """A file as just read."""

    loaded: LoadedFile
    fingerprint: Fingerprint


class Store(StoreLock):
    """A root with its state, which is open from the start, and its directory, which `attach` opens; a failed `attach`
    can be retried."""

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
        self.guess_reason: str | None = None
        self.foreign_reason: str | None = None  # why the store belongs to another program, if it does
        self.too_wide: str | None = None  # why its layout is not recognised: "is your home directory"
        if self.journal.facts.get("sensitive_words", False) != policy.sensitive_words:
            self.catalogue.clear()  # memories indexed under the other setting are indexed again
            self.journal.facts.set("sensitive_words", policy.sensitive_words)
        self.late_writes = LateWrites(self.journal, self.blobs)
        self.index = recall(self.journal.facts, self._index_rules())
        self._spare_files: dict[str, SpareFile] = {}
        self.pending_changes = PendingChanges()
        self.file_ends = FileEnds()
        self.file_pieces = FilePieces()
        # Findings by topic that the catalogue does not have: limits, locks, modes, irregular files.
        self.root_findings: dict[str, tuple[Finding, ...]] = {}
        self.embed: Callable[[str, int], Sequence[float] | None] = no_embedding  # until an embedder is set
        self.access_counts = self.journal.access.counts()  # by path and id, if the layout stores none
        self.network_fs: str | None = None
        self.backups_seen: HashCache = {}
        self.recent_changes = RecentChanges(self.journal.facts)
        self.losses = Losses()
        self.unreadable_since: dict[str, float] = {}  # by path, in epoch seconds
        self.unlisted_since: float | None = None  # the first scan of those that could not list every directory
        self.unsaved_versions = UnsavedVersions()
        self.clock_jump_s = 0.0  # of the wall clock against the boot clock, while memoryd runs
        self.attachments = 0  # how often the directory was opened; each time all watches become invalid
        self.owner = os.geteuid()
        self._ownership: ExitStack = ExitStack()

    @property
    def layout(self) -> Layout | None:
        """The layout; None until exactly one is recognised."""
        return self._layout

    @layout.setter
    def layout(self, layout: Layout | None) -> None:
        """Use this layout with the policy of the root."""
        self._layout = layout.configured(self.policy) if layout else None
        if self._tree is not None:
            self._tree.max_bytes = self.max_bytes

    @property
    def known_layout(self) -> Layout:
        """The layout of a root whose layout is known."""
        assert self._layout is not None
        return self._layout

    @property
    def max_bytes(self) -> int:
        """The size in bytes above which a file is not read, and to which none may grow."""
        return self.file_rules.max_bytes

    @property
    def observes(self) -> bool:
        """True if memoryd writes nothing on its own initiative."""
        return self.observe_reason is not None

    @property
    def observe_reason(self) -> str | None:
        """Why memoryd writes nothing on its own initiative; None if it does."""
        if self.foreign_reason is not None:
            return self.foreign_reason
        if self.guess_reason is not None:
            return "its layout is not confirmed"
        return "the root is in observe mode" if self.policy.mode is Mode.OBSERVE else None

    def guess(self, name: str, why: str) -> None:
        """Use a recognised layout that the user has not confirmed yet."""
        if self.journal.facts.get("layout") not in (None, name):
            self.catalogue.clear()  # memories indexed with another layout are indexed again
        self.journal.facts.set("layout", name)
        self.layout, self.guess_reason = LAYOUTS[name], why
        message = f"looks like {name} because {why}; nothing is written here until it is confirmed"
        self.root_findings["layout"] = (Finding("layout-unconfirmed", "", message),)

    def confirm(self) -> None:
        """Confirm the recognised layout permanently."""
        if self.layout is not None:
            self.journal.facts.set(CONFIRMED, self.layout.name)
            self.guess_reason = None
            self.root_findings.pop("layout", None)

    # --- attaching

    @property
    def tree(self) -> Tree:
        """The open directory. Raises RootMissingError if it does not exist."""
        if self._tree is None:
            raise RootMissingError(
                f"root {self.name}: {self.path} does not exist",
                hint="mount or create the directory; memoryd resumes by itself",
            )
        return self._tree

    @property
    def attached(self) -> bool:
        """True if the directory is open."""
        return self._tree is not None

    def attach(self) -> Tree:
        """Open the directory and become its owner. Raises OSError if it cannot be opened, and AlreadyRunningError if
        another daemon owns it."""
        self.detach()
        tree = Tree(os.path.realpath(self.path))
        try:
            self._ownership.enter_context(lock_directory(tree.fd, tree.path))
        except BaseException:
            tree.close()
            raise
        self.network_fs = network_file_system(tree.path)
        tree.max_bytes = self.max_bytes
        self._tree = tree
        self.attachments += 1
        return tree

    def is_in_place(self) -> bool:
        """True if the path refers to the open directory. Costs one stat, so it can run before each command."""
        if self._tree is None:
            return False
        try:
            current = os.stat(self.path)
        except OSError:
            return False
        return (current.st_dev, current.st_ino) == self._tree.identity

    def path_resolves(self) -> bool:
        """True if the path still resolves to the path of the open directory; a symlink in it may have changed."""
        return os.path.realpath(self.path) == self.tree.path

    def has_moved(self) -> bool:
        """True if the path no longer leads to the open directory, or that cannot be read. For any thread."""
        tree = self._tree
        return tree is not None and (
            tree.path_state() is not PathState.SAME or os.path.realpath(self.path) != tree.path
        )

    def attach_read_only(self) -> Tree:
        """Open the directory without becoming its owner, for read-only checks while a daemon runs."""
        self._tree = Tree(os.path.realpath(self.path))
        self._tree.max_bytes = self.max_bytes
        return self._tree

    def detach(self) -> None:
        """Release the lock and close the directory, with all that is open in it."""
        self.late_writes.close()
        self.lock_trace.close()
        self._ownership.close()
        if self._tree is not None:
            self._tree.close()
            self._tree = None

    def close(self) -> None:
        """Close everything; recent changes are saved for the next start."""
        for spare in self._spare_files.values():
            spare.discard()
        self._save_recent()
        self._save_end()
        self.detach()
        self.catalogue.close()
        self.journal.close()
        self.vault.close()
        self.blobs.close()

    def _save_recent(self) -> None:
        """Save recent changes; if that fails, they are not watched."""
        try:
            self.recent_changes.save()
        except (OSError, MemorydError, TypeError, ValueError) as error:
            log.warning("stopped watching recent additions", root=self.name, reason=str(error))

    def _save_end(self) -> None:
        """Save the state of the index files, and the runs counted in memory, which would count as missed."""
        try:
            self.journal.jobs.flush()
            remember(self.journal.facts, self.index, self._index_rules())
        except (OSError, MemorydError) as error:
            log.warning("the next start takes longer", root=self.name, reason=str(error))

    def _index_rules(self) -> str:
        """Name all that decides the content of the index files beside the memories."""
        return f"{__version__} {self.layout.name if self.layout else ''} {self.policy.newer_index}"

    def merge_late_writes(self, now: float) -> int:
        """Copy bytes appended to replaced inodes to the live files, and update the findings about them. Returns the
        number of bytes; 0 while another program holds the lock."""
        try:
            with self.locked(LATE_LOCK_WAIT_S, honour_soft=False) if self.late_writes.has_new() else nullcontext():
                return self.late_writes.merge(self.tree, now)
        except BusyError:
            return 0
        finally:
            self.root_findings[LATE_WRITES_TOPIC] = self.late_writes.findings(now)

    # --- reading

    @property
    def limits(self) -> Mapping[str, Limit]:
        """The limits of the layout, overridden by the configuration, by path; disabled ones are left out."""
        merged = {**self.file_rules.limits, **self.policy.limits}
        return {path: limit for path, limit in merged.items() if limit is not None}

    def role(self, path: str) -> Role:
        """Return the role of a path in the layout; ignored paths are foreign."""
        return Role.FOREIGN if self.layout is None or self.is_ignored(path) else self.layout.reader.role(path)

    def is_ignored(self, path: str) -> bool:
        """True if this path is ignored. The path of a directory ends with a slash."""
        return is_ignored(path, self.policy.ignore)

    def scan(self, only: Callable[[str], bool] | None = None) -> Scan:
        """Scan everything that is not ignored, or `only` files with such paths."""
        return self.tree.scan(lambda directory: self.is_ignored(f"{directory}/"), only=only)

    def load(self, path: str, now: float, ids: Collection[str] | None = None) -> Source | None:
        """Read one file; it is parsed when its document is needed. With `ids`, the document need only contain these
        memories. Returns None if the file is missing or must not be opened (a finding reports that), so that it does
        not block the upkeep of the others."""
        try:
            data, fingerprint = self.tree.read(path)
        except NO_READABLE_FILE:
            return None
        mtime = fingerprint.mtime_ns / 1e9
        parse = partial(self.known_layout.reader.parse, path, data, now=now, mtime=mtime, base=ParseOffset())
        loaded = LoadedFile(data, parse, mtime)
        part = partial_parse(self.known_layout, self.catalogue, path, loaded, ids, now) if ids is not None else None
        return Source(loaded.with_document(part) if part is not None else loaded, fingerprint)

    def read(self, path: str) -> tuple[bytes, Fingerprint]:
        """Return the content of any file and its fingerprint. Raises as `Tree.read` does."""
        return self.tree.read(path, limit=self.max_bytes_of(path))

    def max_bytes_of(self, path: str) -> int:
        """Return `max_bytes` of this file. An index file has an entry for each memory: it may be the largest file."""
        layout = self.layout
        return MAX_INDEX_BYTES if layout is not None and path in layout.index.paths else self.max_bytes

    def content(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            return self.read(path)[0]
        except (FileNotFoundError, NotADirectoryError):
            return None

    def quality(self, path: str, content: bytes, now: float) -> Quality:
        """Return how much of `content` is readable as the file at `path`."""
        return self.known_layout.reader.quality(path, content, now=now)

    def files(self) -> dict[str, FileStats]:
        """Return the statistics of each source and archive file in the catalogue, by path."""
        return {each.path: each for each in self.catalogue.summaries()}

    def pinned(self) -> frozenset[str]:
        """Return the digests of memories restored by an undo or `unarchive`: no upkeep moves them until they change."""
        return self.journal.pins.digests()

    def spare_file(self, path: str) -> SpareFile:
        """Return the spare file of an index file."""
        place = os.path.join(self.state_dir, f"{path}.spare")
        return self._spare_files.setdefault(path, SpareFile(place))

    def mode_for(self, path: str) -> int:
        """Return the mode of a new file whose directory exists."""
        return modes.shared_file_mode(self.tree, path) if self._shared() else modes.PRIVATE_FILE

    def mode_for_directory(self, path: str) -> int:
        """Return the mode of a new directory whose parent exists."""
        return modes.shared_directory_mode(self.tree, path) if self._shared() else modes.PRIVATE_DIRECTORY

    def _shared(self) -> bool:
        return self.layout is not None and not self.file_rules.owner_only

    def blocked(self) -> str | None:
        """Return why nothing may be written at the moment (a git operation is running); None if writing is allowed."""
        if not self.file_rules.waits_for_git:
            return None
        return blocked_by_git(self.tree.path)
