"""The log of memoryd's changes to one root: what was planned, what was done, and how to undo it.

A change is recorded before it is made (`begin`), after each step (`mark_applied`) and at the end (`finish`). After a
crash its entry is in state "begun"; the next start gets it from `unfinished`. Content needed for an undo is in the
blob store; the journal only names it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from memoryd.disk.journal.backups import BACKUP_TABLES, BackupTable, QuarantineTable
from memoryd.disk.journal.database import FACT_TABLES, Database, Facts, JournalError, printable, unreferenced
from memoryd.disk.journal.entries import (
    CAUSES,
    Entry,
    EntryState,
    Step,
    columns_of,
    entry_of,
    receipts,
    step_of,
)
from memoryd.disk.journal.jobs import JOB_TABLES, JobTable
from memoryd.disk.journal.trash import PIN_TABLES, TRASH_TABLES, AccessTable, PinTable, TrashTable
from memoryd.errors import BusyError, NotFoundError
from memoryd.log import get_logger

log = get_logger(__name__)

_TABLES = (
    """CREATE TABLE entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, receipt TEXT NOT NULL UNIQUE, at REAL NOT NULL,
        operation TEXT NOT NULL, "by" TEXT NOT NULL, summary TEXT NOT NULL, state TEXT NOT NULL,
        undone_by TEXT, error TEXT)""",
    """CREATE TABLE steps (
        entry INTEGER NOT NULL REFERENCES entries (seq) ON DELETE CASCADE, position INTEGER NOT NULL,
        group_no INTEGER NOT NULL, kind TEXT NOT NULL, path BLOB NOT NULL,
        before_sha TEXT, before_size INTEGER, after_sha TEXT, after_size INTEGER, base_size INTEGER,
        blob TEXT, mode INTEGER, note TEXT, applied INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (entry, position)) WITHOUT ROWID""",
    "CREATE INDEX steps_blob ON steps (blob) WHERE blob IS NOT NULL",
)
# By version. Since version 2 small content is stored in the journal itself.
_SCHEMA = (
    (*_TABLES, *JOB_TABLES, *FACT_TABLES, *BACKUP_TABLES, *PIN_TABLES),
    ("ALTER TABLE steps ADD COLUMN content BLOB",),
    TRASH_TABLES,
)


class Journal:
    """The journal of one root: one file in the state directory, thread-safe. Other state of the root, such as job
    times, pins and the trash, is in separate tables."""

    def __init__(self, path: str) -> None:
        """Open or create the file. Raises JournalError if it is damaged, or of a newer memoryd or another program."""
        self.path = path
        self._unrecorded: set[str] = set()  # receipts of changes that are done, which the disk refused to record
        self.database = Database(path, _SCHEMA)
        self.facts = Facts(self.database)
        self.backups = BackupTable(self.database)
        self.quarantine = QuarantineTable(self.database)
        self.trash = TrashTable(self.database)
        self.pins = PinTable(self.database)
        self.access = AccessTable(self.database)
        try:
            self.jobs = JobTable(self.database)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files; a second call does nothing. Later use raises JournalError."""
        self.database.close()

    def begin(
        self, operation: str, by: str, summary: str, steps: Sequence[Step], now: float, *, durable: bool = True
    ) -> str:
        """Record a change before it is made, and return its receipt (`20260131-k2f7xqa`), which sorts by time and
        differs between roots. `durable=False` saves a sync, for steps that only append: their state can be read
        from the files after a power cut."""
        if by not in CAUSES:
            raise ValueError(f"unknown cause {by!r}")
        done = list(self._unrecorded)
        with self.database.writing(durable=durable) as db:
            db.executemany(
                "UPDATE entries SET state = 'done' WHERE receipt = ? AND state = 'begun'", [(each,) for each in done]
            )
            receipt = next(each for each in receipts(self.path, now) if _find(db, each) is None)
            query = 'INSERT INTO entries (receipt, at, operation, "by", summary, state) VALUES (?, ?, ?, ?, ?, ?)'
            made = db.execute(query, (receipt, now, operation, by, printable(summary), "begun"))
            db.executemany(
                "INSERT INTO steps (entry, position, group_no, kind, path, before_sha, before_size, after_sha, "
                "after_size, base_size, blob, mode, note, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(made.lastrowid, position, *columns_of(step)) for position, step in enumerate(steps)],
            )
        self._unrecorded.difference_update(done)
        return receipt

    def record(self, operation: str, by: str, summary: str, now: float, steps: Sequence[Step] = ()) -> str:
        """Record what has been done; return its receipt. Without steps there is nothing to undo."""
        receipt = self.begin(operation, by, summary, steps, now)
        self.finish_done(receipt)
        return receipt

    def mark_applied(self, receipt: str, position: int) -> None:
        """Note that the step at `position` (0-based) was applied."""
        self.amend(receipt, position, applied=1)

    def amend(self, receipt: str, position: int, **columns: str | int) -> None:
        """Correct columns of the record of a step."""
        assignments = ", ".join(f"{name} = :{name}" for name in columns)
        with self.database.writing() as db:
            changed = db.execute(
                f"UPDATE steps SET {assignments} WHERE entry = :_entry AND position = :_position",  # noqa: S608 - columns
                {**columns, "_entry": _seq_of(db, receipt), "_position": position},
            )
            if changed.rowcount != 1:
                raise NotFoundError(f"the change {receipt} has no step {position}")

    def finish(
        self, receipt: str, state: EntryState, *, error: str | None = None, undone_by: str | None = None
    ) -> None:
        """Close an entry, or mark a closed one as undone by the receipt `undone_by`."""
        with self.database.writing(durable=state != "done") as db:
            db.execute(
                "UPDATE entries SET state = ?, error = coalesce(?, error), "
                "undone_by = coalesce(?, undone_by) WHERE seq = ?",
                (state, None if error is None else printable(error), undone_by, _seq_of(db, receipt)),
            )

    def finish_done(self, receipt: str) -> None:
        """Close an entry whose change is done. If that cannot be recorded, the next change records it, since an error
        would have the change made twice. Not synced: after a power cut recovery reads it from the files."""
        try:
            self.finish(receipt, "done")
        except (OSError, BusyError, JournalError) as error:
            self._unrecorded.add(receipt)
            log.warning("a change is not recorded as done", path=self.path, receipt=receipt, reason=str(error))

    def entry(self, receipt: str) -> Entry:
        """Return the entry with this receipt. Raises NotFoundError."""
        found = self._entries("SELECT * FROM entries WHERE receipt = ?", printable(receipt))
        if not found:
            raise _unknown(receipt)
        return found[0]

    def entries(self, limit: int = 50) -> list[Entry]:
        """Return the newest entries, newest first."""
        return self._entries("SELECT * FROM entries ORDER BY seq DESC LIMIT ?", limit)

    def unfinished(self) -> list[Entry]:
        """Return the entries that a crash left unfinished, oldest first."""
        begun = self._entries("SELECT * FROM entries WHERE state = 'begun' ORDER BY seq")
        return [each for each in begun if each.state == "begun"]

    def prune(self, keep: int) -> list[str]:
        """Delete all but the newest `keep` entries, never an unfinished one; return the blobs no longer referenced, to
        be deleted. A crash before that leaves orphans, which are not in `blobs_in_use`."""
        with self.database.writing() as db:
            old = (
                "SELECT seq FROM entries WHERE state <> 'begun' AND seq NOT IN "
                "(SELECT seq FROM entries ORDER BY seq DESC LIMIT ?)"
            )
            numbers = [(row["seq"],) for row in db.execute(old, (keep,))]
            query = "SELECT blob FROM steps WHERE entry = ? AND blob IS NOT NULL"
            freed = [str(row["blob"]) for number in numbers for row in db.execute(query, number)]
            db.executemany("DELETE FROM entries WHERE seq = ?", numbers)
            return unreferenced(db, freed)

    def blobs_in_use(self) -> frozenset[str]:
        """Return every blob that an entry, the quarantine or a forgotten memory references."""
        query = (
            "SELECT blob FROM steps WHERE blob IS NOT NULL UNION SELECT blob FROM quarantine "
            "UNION SELECT blob FROM forgotten WHERE blob IS NOT NULL"
        )
        return frozenset(str(row["blob"]) for row in self.database.rows(query))

    def steps_of(self, path: str, limit: int = 50) -> Iterator[tuple[Entry, Step]]:
        """Yield the steps that changed a file, newest first, each with its entry: of the newest `limit` entries."""
        for entry in self.entries(limit):
            for step in reversed(entry.steps):
                if step.path == path:
                    yield entry, step

    def _entries(self, query: str, *values: Any) -> list[Entry]:
        steps = "SELECT * FROM steps WHERE entry = ? ORDER BY position"
        with self.database.lock:
            found = [
                entry_of(row, tuple(map(step_of, self.database.rows(steps, row["seq"]))))
                for row in self.database.rows(query, *values)
            ]
        return [replace(each, state="done") if self._is_unrecorded(each) else each for each in found]

    def _is_unrecorded(self, entry: Entry) -> bool:
        return entry.state == "begun" and entry.receipt in self._unrecorded


def _unknown(receipt: str) -> NotFoundError:
    return NotFoundError(f"no change has the receipt {printable(receipt)}", hint="`memoryd history` lists the receipts")


def _find(db: sqlite3.Connection, receipt: str) -> int | None:
    row = db.execute("SELECT seq FROM entries WHERE receipt = ?", (printable(receipt),)).fetchone()
    return None if row is None else int(row["seq"])


def _seq_of(db: sqlite3.Connection, receipt: str) -> int:
    seq = _find(db, receipt)
    if seq is None:
        raise _unknown(receipt)
    return seq
