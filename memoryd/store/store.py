"""One watched root: layout, policy, catalogue, journal, blobs and the open tree.

A store has one writer, the worker of its root. Nothing here knows the clock: times are arguments.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from memoryd.catalogue import Catalogue
from memoryd.core.findings import Finding
from memoryd.core.plan import Fingerprint
from memoryd.core.policy import Limit, Mode, Policy
from memoryd.core.records import Base, Role
from memoryd.core.retention import Quality
from memoryd.core.skipping import skips
from memoryd.disk.copies import Looked
from memoryd.disk.journal import Journal
from memoryd.disk.ownership import own_directory
from memoryd.disk.processes import network_file_system
from memoryd.disk.scan import Scan
from memoryd.disk.snapshots import Blobs
from memoryd.disk.tree import NotBeneathError, NotRegularError, TooLargeError, Tree
from memoryd.disk.vault import Vault
from memoryd.disk.worktree import names_in_git_dir
from memoryd.errors import RootMissingError
from memoryd.layouts import LAYOUTS, WholeLayout, configured
from memoryd.layouts.base import FileSummary, Loaded, UpkeepView
from memoryd.layouts.storing import no_vector
from memoryd.store.changes import OwnChanges
from memoryd.store.index_state import IndexState
from memoryd.store.late import Late, leave_all
from memoryd.store.live import LiveFiles
from memoryd.store.lockable import Lockable
from memoryd.store.recent import Recent
from memoryd.store.their_lines import their_lines

_ROLES = {str(role): role for role in Role}
CONFIRMED = "confirmed_layout"  # in the journal: the layout that somebody let memoryd write
UNREAD_ROLES = (Role.BACKUP, Role.LOCK, Role.TEMP, Role.FOREIGN)


def state_place(state_dir: str, path: str) -> str:
    """Where memoryd keeps what it knows of a root: by its path, so that a new name keeps the history."""
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    return os.path.join(state_dir, "roots", f"{os.path.basename(path) or 'root'}-{digest}")


@dataclass(frozen=True, slots=True)
class Source:
    """A file as just read."""

    loaded: Loaded
    fingerprint: Fingerprint


class Store(Lockable):
    """Opened with its state; attached to its directory by `attach`, which may fail and be tried again."""

    def __init__(self, name: str, path: str, layout: str | None, policy: Policy, state_dir: str) -> None:
        super().__init__()
        self.name = name
        self.path = path
        self.policy = policy
        self.state_dir = state_dir
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        self.catalogue = Catalogue(os.path.join(state_dir, "catalogue.sqlite"))
        self.journal = Journal(os.path.join(state_dir, "journal.sqlite"))
        self.vault = Vault(os.path.join(state_dir, "snapshots.sqlite"))
        self.blobs = Blobs(os.path.join(state_dir, "blobs"))
        self.layout = LAYOUTS.get(layout or self.journal.get_meta(CONFIRMED, ""))
        # What a layout was recognised by that nobody has named or confirmed: then nothing is written in the root.
        self.guessed_by: str | None = None
        self.foreign: str | None = None  # whose store it is, where it is another program's
        self.too_wide: str | None = None  # why no layout is looked for: "is your home directory"
        if self.journal.get_meta("sensitive_words", False) != policy.sensitive_words:
            self.catalogue.clear()  # what was read by the other setting is read anew
            self.journal.set_meta("sensitive_words", policy.sensitive_words)
        self.late: list[Late] = []
        self.index = IndexState()
        self.own_changes = OwnChanges()
        # Findings that lie in no single file: duplicates, limits, locks, modes, odd files.
        self.noted: dict[str, tuple[Finding, ...]] = {}
        self.embed: Callable[[str, int], Sequence[float] | None] = no_vector  # until somebody knows better
        self.uses = self.journal.uses()  # of memories whose layout has no place to count them, by path and id
        # Lock files by name: as first seen (monotonic seconds) and not changed since.
        self.lock_watch: dict[str, tuple[tuple[int, int, int, int], float]] = {}
        self.network_fs: str | None = None
        self.backups_seen: Looked = {}
        # What was stored a moment ago, by path and id; what of it an agent undid; what was told of that, and when.
        self.recent: dict[str, dict[str, Recent]] = {}
        self.undone: list[tuple[str, str, Recent]] = []
        self.undone_told: list[tuple[float, Finding]] = []
        self.jumped_s = 0.0  # by how much the wall clock left the boot clock behind while memoryd ran
        self.attachments = 0  # how often the directory was opened: with another number all that is watched is void
        self.owner = os.geteuid()
        self._tree: Tree | None = None
        self._owned: ExitStack = ExitStack()

    @property
    def layout(self) -> WholeLayout | None:
        """None until exactly one layout was recognised."""
        return self._layout

    @layout.setter
    def layout(self, layout: WholeLayout | None) -> None:
        self._layout = configured(layout, self.policy)

    @property
    def observes(self) -> bool:
        """Nothing is written unattended."""
        return self.policy.mode is Mode.OBSERVE or self.guessed_by is not None or self.foreign is not None

    def guess(self, name: str, why: str) -> None:
        """The root has the shape of that layout, but nobody said that it is one."""
        if self.journal.get_meta("layout") not in (None, name):
            self.catalogue.clear()  # what was read as another layout is read anew
        self.journal.set_meta("layout", name)
        self.layout, self.guessed_by = LAYOUTS[name], why
        told = f"looks like {name} because {why}; nothing is written here until it is confirmed"
        self.noted["layout"] = (Finding("layout-unconfirmed", "", told),)

    def confirm(self) -> None:
        """Somebody said that the layout is the right one: for good."""
        if self.layout is not None:
            self.journal.set_meta(CONFIRMED, self.layout.name)
            self.guessed_by = None
            self.noted.pop("layout", None)

    # --- attaching

    @property
    def tree(self) -> Tree:
        """The open directory; RootMissingError when there is none."""
        if self._tree is None:
            raise RootMissingError(
                f"root {self.name}: {self.path} is not there",
                hint="mount or create the directory; memoryd resumes by itself",
            )
        return self._tree

    @property
    def attached(self) -> bool:
        return self._tree is not None

    def attach(self) -> Tree:
        """Open the directory and own it; OSError when it cannot be opened, AlreadyRunningError when another
        daemon tends it."""
        self.detach()
        tree = Tree(os.path.realpath(self.path))
        try:
            self._owned.enter_context(own_directory(tree.fd, tree.path))
        except BaseException:
            tree.close()
            raise
        self.network_fs = network_file_system(tree.path)
        self._tree = tree
        self.attachments += 1
        return tree

    def unmoved(self) -> bool:
        """Does the path lead to the very directory that is open? One look, for right before each command."""
        if self._tree is None:
            return False
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._tree.identity

    def leads_here(self) -> bool:
        """Does the path still lead to the open directory? A link on the way may have been changed."""
        return os.path.realpath(self.path) == self.tree.path

    def look_only(self) -> Tree:
        """Open the directory without owning it: for checks beside a running daemon, which write nothing."""
        self._tree = Tree(os.path.realpath(self.path))
        return self._tree

    def detach(self) -> None:
        self.forget_lock()
        self._owned.close()
        if self._tree is not None:
            self._tree.close()
            self._tree = None

    def close(self) -> None:
        leave_all(self)
        self.detach()
        self.catalogue.close()
        self.journal.close()
        self.vault.close()
        self.blobs.close()

    # --- reading

    @property
    def limits(self) -> Mapping[str, Limit]:
        """The layout's limits with the configuration's over them; lifted ones are left out."""
        own = self.layout.limits if self.layout else {}
        merged = {**own, **self.policy.limits}
        return {path: limit for path, limit in merged.items() if limit is not None}

    def role(self, path: str) -> Role:
        return Role.FOREIGN if self.layout is None or self.skips(path) else self.layout.role(path)

    def skips(self, path: str) -> bool:
        """Is it to be left alone? A folder's path ends in a slash."""
        return skips(path, self.policy.ignore)

    def scan(self) -> Scan:
        """One look at everything that is not to be left alone."""
        return self.tree.scan(lambda folder: self.skips(f"{folder}/"))

    def load(self, path: str, now: float, ids: Collection[str] | None = None) -> Source | None:
        """Read one file afresh, to be parsed when its document is asked for; None when it is not there, or is none
        that may be opened (which a finding tells): one such file must not keep the others from their upkeep. With `ids`
        the document need tell of no memories but these."""
        assert self.layout is not None
        try:
            data, fingerprint = self.tree.read(path)
        except (FileNotFoundError, NotADirectoryError, NotBeneathError, NotRegularError, TooLargeError):
            return None
        mtime = fingerprint.mtime_ns / 1e9
        parse = partial(self.layout.parse, path, data, now=now, mtime=mtime, base=Base())
        loaded = Loaded(data, parse, mtime)
        part = their_lines(self.layout, self.catalogue, path, loaded, ids, now) if ids is not None else None
        return Source(loaded.narrowed(part) if part is not None else loaded, fingerprint)

    def quality(self, path: str, content: bytes, now: float) -> Quality:
        """How much of a content of that file is readable."""
        assert self.layout is not None
        return self.layout.quality(path, content, now=now)

    def files(self) -> dict[str, FileSummary]:
        """What the catalogue knows of each source and archive file."""
        return {
            path: FileSummary(path, _ROLES[role], size, units, broken, records, facts)
            for path, role, size, units, broken, records, facts in self.catalogue.outlines()
        }

    def upkeep_view(
        self,
        now: float,
        *,
        unattended: bool = False,
        ids: Collection[str] | None = None,
        whole: bool = False,
        at_most: int | None = None,
    ) -> UpkeepView:
        """Everything upkeep is decided on, read afresh: only the files where something can be due, or those that
        hold the memories named, or (`whole`) every live file."""
        assert self.layout is not None
        files = self.files()
        if whole:
            paths: Sequence[str] = self.layout.live_paths([p for p, each in files.items() if each.role is Role.SOURCE])
        else:
            paths = self.layout.upkeep_paths(files) if ids is None else self._live_paths_of(ids, files)
        live = LiveFiles(paths, lambda path: source.loaded if (source := self.load(path, now, ids)) else None)
        return UpkeepView(live, self._content, self.policy, now, self.held(), unattended, at_most)

    def held(self) -> frozenset[str]:
        """Digests of memories that an undo or `unarchive` brought back: no upkeep moves them as they are."""
        return self.journal.held_lines()

    def _live_paths_of(self, ids: Collection[str], files: Mapping[str, FileSummary]) -> list[str]:
        """An id may stand in an archive as well, or in a file that is only read: neither is moved."""
        assert self.layout is not None
        named = self.catalogue.paths_of(ids)
        sources = [path for path, each in files.items() if each.role is Role.SOURCE]
        return [path for path in self.layout.live_paths(sources) if path in named]

    def _content(self, path: str) -> bytes | None:
        try:
            return self.tree.read(path)[0]
        except (FileNotFoundError, NotADirectoryError):
            return None

    def blocked(self) -> str | None:
        """Why nothing may be written just now although the disk would let us: a git operation under way."""
        return self.layout.blocked(lambda: names_in_git_dir(self.tree.path)) if self.layout else None
