"""Snapshots of stores whose layout has no backup directory: versions of files, addressed by content.

A version is the content of one file; a snapshot is the set of versions at one moment. Snapshots and the versions of
each file rotate by `core.retention`; a content is kept as long as a version references it. Damaged files are stored
too: the rotation protects the version with the most memories. Order is by number, never by clock. All of it is in one
durable SQLite file, and a snapshot is one transaction.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from memoryd.core.digest import digest_of
from memoryd.core.progress import ProgressMeter
from memoryd.core.retention import Backup, Quality, drop
from memoryd.core.spans import sha256
from memoryd.disk.journal.database import Database, from_blob, to_blob
from memoryd.errors import NotFoundError

_VERSIONS = (
    "CREATE TABLE versions (seq INTEGER PRIMARY KEY AUTOINCREMENT, file BLOB NOT NULL, "
    "sha256 TEXT NOT NULL REFERENCES contents (sha256), taken REAL NOT NULL, mode INTEGER NOT NULL, "
    "units INTEGER NOT NULL, records INTEGER NOT NULL, valid INTEGER NOT NULL DEFAULT 1, "
    "pinned INTEGER NOT NULL DEFAULT 0)"
)
_SNAPSHOTS = (
    "CREATE TABLE snapshots (seq INTEGER PRIMARY KEY AUTOINCREMENT, taken REAL NOT NULL, "
    "pinned INTEGER NOT NULL DEFAULT 0)"
)
_MEMBERS = (
    "CREATE TABLE members (snapshot INTEGER NOT NULL REFERENCES snapshots (seq) ON DELETE CASCADE, "
    "version INTEGER NOT NULL REFERENCES versions (seq), PRIMARY KEY (snapshot, version)) WITHOUT ROWID"
)
# Each memory stored in a user document of 2 MB adds a version: 17 ms instead of 97 for a sixth more bytes (measured).
_LEVEL = 1
_TABLES = (
    "CREATE TABLE contents (sha256 TEXT PRIMARY KEY, size INTEGER NOT NULL, deflated BLOB NOT NULL) WITHOUT ROWID",
    _VERSIONS,
    "CREATE INDEX versions_by_file ON versions (file, seq)",
    _SNAPSHOTS,
    _MEMBERS,
    "CREATE INDEX members_by_version ON members (version)",
)
_MEANING_COLUMN = ("ALTER TABLE versions ADD COLUMN meaning TEXT NOT NULL DEFAULT ''",)
_CONTENT_INDEX = ("CREATE INDEX versions_by_content ON versions (sha256)",)
_VERSIONS_WITH_SIZE = "SELECT v.*, c.size FROM versions v JOIN contents c ON c.sha256 = v.sha256"


class FileState(Struct, frozen=True):
    """The current state of one file, for a snapshot. `content` is None if it is already stored. `content_digest`: a
    digest of the file without access counts, "" if the layout has none; an equal one needs no new version."""

    file: str
    sha256: str
    mode: int
    quality: Quality
    content: bytes | None
    content_digest: str = ""


class UnsavedVersions:
    """Versions of files in memory, to be saved later. Of each file the newest, and the one with the most memories.

    `dropped`: how many did not fit and wait for a backup. `backup_wanted`: one is to be made for them."""

    MAX_SIZE = 32 * 1024 * 1024  # bytes; they are saved within about a second

    def __init__(self) -> None:
        self._states: dict[str, tuple[FileState, ...]] = {}
        self._size = self.dropped = 0
        self.backup_wanted = False

    def note(self, state: FileState) -> bool:
        """Add the newest version of a file. Returns False if it does not fit."""
        known = self._states.get(state.file, ())
        best = [each for each in known if each.quality.records > state.quality.records][:1]
        states = (*best, state)
        size = self._size - _size(known) + _size(states)
        if size > self.MAX_SIZE:
            return False
        self._states.pop(state.file, None)  # to the end
        self._states[state.file], self._size = states, size
        return True

    def states(self) -> list[FileState]:
        """Return them, those of each file in the order in which they were noted."""
        return [state for each in self._states.values() for state in each]

    def clear(self) -> None:
        """Forget those in memory: they are saved. What was dropped is saved by a backup alone."""
        self._states, self._size = {}, 0


def _size(states: Iterable[FileState]) -> int:
    return sum(len(each.content or b"") for each in states)


class Version(Struct, frozen=True):
    """One stored content of one file. `valid`: the verdict of the last read."""

    seq: int
    file: str
    sha256: str
    taken: float
    size: int
    mode: int
    quality: Quality
    valid: bool
    pinned: bool

    @property
    def id(self) -> str:
        """The id, such as `v12`."""
        return f"v{self.seq}"


class Snapshot(Struct, frozen=True):
    """The files of a store at one moment. `digest` covers their names and contents."""

    seq: int
    taken: float
    pinned: bool
    files: int
    size: int
    valid: bool
    digest: str

    @property
    def id(self) -> str:
        """The id, such as `s3`."""
        return f"s{self.seq}"


class Vault:
    """A database of versions and snapshots, for layouts without a backup directory."""

    def __init__(self, path: str) -> None:
        self._db = Database(path, (_TABLES, _MEANING_COLUMN, _CONTENT_INDEX))

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        self._db.close()

    # --- writing

    def has_content(self, sha256: str) -> bool:
        """True if content with this SHA-256 (hex) is stored."""
        return bool(self._db.rows("SELECT 1 FROM contents WHERE sha256 = ?", sha256))

    def take(self, files: Iterable[FileState], now: float, *, keep: int) -> Snapshot | None:
        """Take a snapshot of these files and rotate to `keep`; None if it equals the newest one."""
        with self._db.writing() as db:
            versions = {self._version_of(db, state, now) for state in files}
            newest = db.execute("SELECT max(seq) FROM snapshots").fetchone()[0]
            members = db.execute("SELECT version FROM members WHERE snapshot = ?", (newest,))
            if newest is not None and versions == {row[0] for row in members}:
                return None
            seq = db.execute("INSERT INTO snapshots (taken) VALUES (?)", (now,)).lastrowid or 0
            db.executemany("INSERT INTO members VALUES (?, ?)", [(seq, version) for version in sorted(versions)])
            _rotate(db, keep, now)
        return next(each for each in self.snapshots() if each.seq == seq)

    def add_version(self, state: FileState, now: float, *, keep: int) -> Version | None:
        """Store a version of one file, as before a change; None if its newest version has the same content or content
        digest."""
        with self._db.writing() as db:
            before = db.execute("SELECT max(seq) FROM versions WHERE file = ?", (to_blob(state.file),)).fetchone()[0]
            seq = self._version_of(db, state, now)
            if seq != before:
                _drop_versions(db, _surplus_versions(db, to_blob(state.file), keep, now))
        return None if seq == before else _version(self._db.rows(f"{_VERSIONS_WITH_SIZE} WHERE v.seq = ?", seq)[0])

    def add_versions(self, states: Sequence[FileState], now: float, *, keep: int) -> None:
        """Store versions of several files, as `add_version` does."""
        with self._db.writing() as db:
            for state in states:
                self._version_of(db, state, now)
            for file in {state.file for state in states}:
                _drop_versions(db, _surplus_versions(db, to_blob(file), keep, now))

    def _version_of(self, db: sqlite3.Connection, state: FileState, now: float) -> int:
        """Return the number of the file's newest version if it is unchanged, else add a version."""
        row = db.execute(
            "SELECT * FROM versions WHERE file = ? ORDER BY seq DESC LIMIT 1", (to_blob(state.file),)
        ).fetchone()
        if row is not None:
            same = row["sha256"] == state.sha256 or (
                state.content_digest != "" and row["meaning"] == state.content_digest
            )
            if row["valid"] and same:
                return int(row["seq"])
        if state.content is not None:
            row_values = (state.sha256, len(state.content), zlib.compress(state.content, _LEVEL))
            db.execute("INSERT OR REPLACE INTO contents VALUES (?, ?, ?)", row_values)
        quality = state.quality
        values = (
            to_blob(state.file),
            state.sha256,
            now,
            state.mode,
            quality.units,
            quality.records,
            state.content_digest,
        )
        insert = (
            "INSERT INTO versions (file, sha256, taken, mode, units, records, meaning) VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        return db.execute(insert, values).lastrowid or 0

    # --- queries

    def snapshots(self) -> list[Snapshot]:
        """List the snapshots, newest first."""
        rows = self._db.rows(
            "SELECT s.seq, s.taken, s.pinned, count(v.seq) AS files, coalesce(sum(c.size), 0) AS size,"
            " coalesce(min(v.valid), 1) AS valid FROM snapshots s LEFT JOIN members m ON m.snapshot = s.seq"
            " LEFT JOIN versions v ON v.seq = m.version LEFT JOIN contents c ON c.sha256 = v.sha256"
            " GROUP BY s.seq ORDER BY s.seq DESC"
        )
        return [
            Snapshot(
                r["seq"], r["taken"], bool(r["pinned"]), r["files"], r["size"], bool(r["valid"]), self._digest(r["seq"])
            )
            for r in rows
        ]

    def _digest(self, snapshot: int) -> str:
        digest = digest_of()
        for version in self.files(snapshot):
            digest.update(to_blob(version.file) + b"\0" + version.sha256.encode() + b"\n")
        return digest.hexdigest()

    def files(self, snapshot: int) -> list[Version]:
        """Return the versions of one snapshot, by file name."""
        query = (
            "SELECT v.*, c.size FROM members m JOIN versions v ON v.seq = m.version"
            " JOIN contents c ON c.sha256 = v.sha256 WHERE m.snapshot = ? ORDER BY v.file"
        )
        return [_version(row) for row in self._db.rows(query, snapshot)]

    def versions(self, file: str | None = None) -> list[Version]:
        """List the versions of one file or of all, newest first."""
        if file is None:
            return [_version(row) for row in self._db.rows(f"{_VERSIONS_WITH_SIZE} ORDER BY v.seq DESC")]
        return [
            _version(row)
            for row in self._db.rows(f"{_VERSIONS_WITH_SIZE} WHERE v.file = ? ORDER BY v.seq DESC", to_blob(file))
        ]

    def files_with_versions(self, files: Sequence[str]) -> frozenset[str]:
        """Return the files that have a version."""
        if not self._db.rows("SELECT 1 FROM versions LIMIT 1"):
            return frozenset()  # most first indexes
        marks = ",".join("?" * len(files))
        query = f"SELECT DISTINCT file FROM versions WHERE file IN ({marks})"  # noqa: S608 - marks only
        return frozenset(from_blob(row["file"]) for row in self._db.rows(query, *map(to_blob, files)))

    def content(self, version: Version) -> bytes:
        """Return the bytes of a version. Raises NotFoundError if they do not have its hash."""
        content = None
        for row in self._db.rows("SELECT deflated FROM contents WHERE sha256 = ?", version.sha256):
            with suppress(zlib.error):
                content = zlib.decompress(row["deflated"])
        if content is None or sha256(content) != version.sha256:
            with self._db.writing() as db:
                db.execute("UPDATE versions SET valid = 0 WHERE sha256 = ?", (version.sha256,))
            raise NotFoundError(f"version {version.id} of {version.file} is damaged", hint="choose another one")
        return content

    def verify(self, progress: ProgressMeter) -> list[Version]:
        """Read every version and return the damaged ones."""
        damaged: list[Version] = []
        for version in progress.track("verifying", self.versions(), lambda each: each.size):
            try:
                self.content(version)
            except NotFoundError:
                damaged.append(version)
        return damaged

    # --- pins

    def pin_newest(self) -> None:
        """Protect the last snapshot and the newest valid version of each file from the rotation."""
        with self._db.writing() as db:
            db.execute("UPDATE snapshots SET pinned = (seq = (SELECT max(seq) FROM snapshots))")
            db.execute(
                "UPDATE versions SET pinned = (seq IN (SELECT max(seq) FROM versions WHERE valid GROUP BY file))"
            )

    def pin_version(self, file: str, sha256: str) -> None:
        """Protect the newest version with that content from the rotation, however often the file is saved after a loss.
        If the pinned version of the file holds more memories, it stays pinned instead."""
        key = to_blob(file)
        with self._db.writing() as db:
            query = "SELECT seq, records FROM versions WHERE file = ? AND valid AND (pinned OR sha256 = ?)"
            rows = db.execute(query, (key, sha256)).fetchall()
            best = max(rows, key=lambda row: (row["records"], row["seq"]), default=None)
            if best is not None:
                db.execute("UPDATE versions SET pinned = (seq = ?) WHERE file = ?", (best["seq"], key))


def _rotate(db: sqlite3.Connection, keep: int, now: float) -> None:
    """Drop surplus snapshots, then the surplus versions that no snapshot needs."""
    counted = (
        "SELECT s.seq, s.taken, s.pinned, coalesce(sum(v.records), 0) AS records, 1 AS valid FROM snapshots s"
        " LEFT JOIN members m ON m.snapshot = s.seq LEFT JOIN versions v ON v.seq = m.version GROUP BY s.seq"
    )
    gone = drop(map(_as_backup, db.execute(counted)), keep, now)
    db.executemany("DELETE FROM snapshots WHERE seq = ?", [(int(each),) for each in gone])
    many = db.execute("SELECT file FROM versions GROUP BY file HAVING count(*) > ?", (keep,)).fetchall()
    _drop_versions(db, [each for row in many for each in _surplus_versions(db, row["file"], keep, now)])


def _surplus_versions(db: sqlite3.Connection, file: bytes, keep: int, now: float) -> list[tuple[int, str]]:
    """Return (number, hash) of surplus versions of a file that no snapshot needs."""
    query = (
        "SELECT seq, sha256, taken, pinned, records, valid,"
        " EXISTS (SELECT 1 FROM members WHERE version = seq) AS needed FROM versions WHERE file = ?"
    )
    rows = {str(row["seq"]): row for row in db.execute(query, (file,))}
    gone = drop(map(_as_backup, rows.values()), keep, now) if len(rows) > keep else []
    return [(int(each), rows[each]["sha256"]) for each in gone if not rows[each]["needed"]]


def _as_backup(row: sqlite3.Row) -> Backup:
    return Backup(
        str(row["seq"]), "", row["taken"], row["seq"], 0, None, bool(row["valid"]), bool(row["pinned"]), row["records"]
    )


def _drop_versions(db: sqlite3.Connection, gone: Sequence[tuple[int, str]]) -> None:
    db.executemany("DELETE FROM versions WHERE seq = ?", [(seq,) for seq, _ in gone])
    unused = "DELETE FROM contents WHERE sha256 = ? AND NOT EXISTS (SELECT 1 FROM versions WHERE sha256 = ?)"
    db.executemany(unused, [(sha256, sha256) for _, sha256 in gone])


def _version(row: sqlite3.Row) -> Version:
    return Version(
        row["seq"],
        from_blob(row["file"]),
        row["sha256"],
        row["taken"],
        row["size"],
        row["mode"],
        Quality(row["units"], row["records"]),
        bool(row["valid"]),
        bool(row["pinned"]),
    )
