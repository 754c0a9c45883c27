"""Session files: one JSON file per session of an agent, in one directory per day (seed 003, "Storage & Schema", Cursor
Memory).

Where the seed is open: similarity is the Jaccard index of `content`, in integers, and texts with different numbers are
never duplicates; file names have dashes, and colons are read and reported; only `YYYY-MM-DD` directories hold sessions.
`archive/`, `archive/aggregate/`, `.quarantine/`, `archive.log` and `.archive.lock` belong to the archiver that shares
the directory: its archived sessions are read, its aggregate is a derived file, and archiving by memoryd is off by
default.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from memoryd.core.findings import INFO, WARNING, Code
from memoryd.core.ignore import is_temp
from memoryd.core.records import Document, FileStats, NativeMemory, ParseOffset, Role
from memoryd.layouts.directory import Directory
from memoryd.layouts.exchange import Exchange
from memoryd.layouts.json_document import recover_whole
from memoryd.layouts.protocol import (
    FileRules,
    IndexRenderer,
    Layout,
    LockRule,
    Option,
    Reader,
    Repair,
    Upkeep,
    Writer,
)
from memoryd.layouts.session_files import archive, duplicates, names, parser, schema, writer
from memoryd.layouts.session_files.parser import recognise

_MAX_OLDEST = 2 * archive.MAX_SESSIONS  # oldest sessions read per run: more than it can move, since some may be pinned


@lru_cache(maxsize=64)  # each file is asked for several times while it is indexed
def _role(path: str) -> Role:
    if path == names.LOCK:
        return Role.LOCK
    if is_temp(path):
        return Role.TEMP
    if names.session_path(path):
        return Role.SOURCE
    if names.is_aggregate(path):
        return Role.INDEX  # derived from the archived sessions, which are counted themselves
    return Role.ARCHIVE if names.is_archived(path) else Role.FOREIGN


class SessionReader(Reader):
    """Reader of one file per session, live and archived; the archiver's aggregate is a derived file."""

    def recognise(self, directory: Directory) -> str | None:
        """Return the evidence of a directory of sessions, or None."""
        return recognise(directory)

    def role(self, path: str) -> Role:
        """Return the role of a path; the aggregate counts as an index."""
        return _role(path)

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        """Parse a live or archived session file. Never raises."""
        del base  # a session is one document, always parsed whole
        archived = self.role(path) is Role.ARCHIVE
        return parser.parse(path, data, now=now, mtime=mtime, archived=archived)

    def native(self, path: str, text: bytes) -> NativeMemory:
        """Return the JSON object of a memory."""
        del path
        return writer.native(text)


_READER = SessionReader()


def _upkeep_paths(files: Mapping[str, FileStats]) -> tuple[str, ...]:
    """Return the sessions that may contain duplicates, and the oldest, which may be due for the archive."""
    live = [each for path, each in files.items() if _READER.role(path) is Role.SOURCE and "basis" in each.facts]
    oldest = sorted(live, key=lambda each: (each.facts["basis"], each.path))[:_MAX_OLDEST]
    twins = [each for each in live if each.facts.get("twins")]
    return tuple(sorted({each.path for each in (*oldest, *twins)}))


SESSION_FILES = Layout(
    name="session-files",
    summary="One JSON file per session, in one directory per day; `.archive.lock`.",
    reader=_READER,
    files=FileRules(locks=(LockRule(names.LOCK, "soft"),), keeps_versions=True),
    index=IndexRenderer(render=duplicates.count_sessions),
    upkeep=Upkeep(("dedupe", "archive"), _upkeep_paths, archive=archive.archive, dedupe=duplicates.dedupe),
    repair=Repair(
        fixes=lambda _path, loaded, _now: writer.fixes(loaded),
        recover=lambda _path, loaded, backup, _archived, _now: recover_whole(loaded, backup),
    ),
    writer=Writer(
        add=writer.add,
        update=writer.update,
        forget=lambda _view, located: writer.forget(located),
        unarchive=writer.unarchive,
        restore=writer.restore,
    ),
    fields=schema.FIELD_SPECS,
    exchange=Exchange(schema.export, schema.outside, schema.draft, precision_s=1),
    types=tuple(sorted(schema.TYPES)),
    sentence={"type": "learning", "title": f"{{:.{schema.MAX_TITLE}}}", "content": "{}"},
    findings={
        "unknown-value": Code(INFO, "a value outside the known values of an open list; accepted"),
        "colon-name": Code(WARNING, "a session file name with colons instead of dashes in its time; read anyway"),
        "missing-date": Code(WARNING, "a session without a readable date; the age of the file is used"),
        "stamp-differs": Code(WARNING, "the id, timestamp and path of a session disagree"),
        "duplicate-session": Code(WARNING, "two files hold the same session"),
        "duplicate-memory": Code(INFO, "a session repeats a memory; `dedupe` merges them"),
    },
    options={
        "archive_sessions": Option("flag", "move whole sessions to the archive by age"),
        "archive_sessions_after_days": Option("number", "days after the last change of a session", high=36_500),
    },
    location=("session",),
)
