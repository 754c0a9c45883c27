"""Findings: one thing wrong or worth knowing, as a value.

`CODES` is the table of every code memoryd can report: its severity, what it means and whether
`repair` can heal it. The README's table is checked against it by a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Code:
    severity: Severity
    meaning: str
    fixable: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """`path` is relative to the root; `line` is 1-based. `message` never holds content of a memory."""

    code: str
    path: str
    message: str
    line: int | None = None
    id: str | None = None
    level: Severity | None = None  # where it is not that of its code

    @property
    def severity(self) -> Severity:
        return self.level or CODES[self.code].severity

    @property
    def fixable(self) -> bool:
        return CODES[self.code].fixable


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

CODES: dict[str, Code] = {
    "invalid-json": Code(_E, "a line that is no JSON; it is skipped and kept"),
    "invalid-encoding": Code(_E, "a line that is not UTF-8; it is skipped and kept"),
    "nul-bytes": Code(_E, "a block of NUL bytes, as a power cut leaves it", fixable=True),
    "torn-tail": Code(_E, "the last line is cut off and nobody is writing it any more"),
    "joined-lines": Code(_W, "two memories stand on one line; both are read", fixable=True),
    "invalid-schema": Code(_E, "a memory that breaks the schema beyond correction; it is skipped and kept"),
    "corrected-schema": Code(_W, "a field is missing or wrong and was corrected in memory only", fixable=True),
    "task-metadata": Code(_W, "the task metadata breaks the schema; the task is kept and never archived by age"),
    "schema-bound": Code(_W, "a field is longer or holds more than the schema allows; kept and indexed"),
    "wrong-type-for-file": Code(_W, "a memory lies in the file of another type; indexed by its own type"),
    "missing-id": Code(_E, "a memory has no id, so no index can name it; repair gives it one", fixable=True),
    "id-not-uuid": Code(_W, "the id is no UUID version 4; accepted"),
    "line-too-long": Code(_W, "a line of more than 10,240 bytes; kept and indexed"),
    "duplicate-id": Code(_W, "an id stands twice; one counts (the first, or the one the index names), none is removed"),
    "duplicate-key": Code(_W, "an object names one key twice; the last value counts"),
    "byte-order-mark": Code(_I, "the file begins with a byte order mark"),
    "crlf-newlines": Code(_I, "lines end in CRLF; kept as they are"),
    "future-stamp": Code(_W, "a time stamp lies in the future; such a memory is never archived"),
    "completed-without-date": Code(_W, "a completed task has no completed_at; updated_at is used"),
    "corrupt-file": Code(_E, "most of the file cannot be read"),
    "emptied-file": Code(_E, "the file is empty while its newest backup is not; confirm or restore"),
    "shipped-form": Code(_I, "an <agent-id>.json file of the shipped server; read only"),
    "foreign-file": Code(_I, "a file that is no part of the layout"),
    "not-a-regular-file": Code(_W, "a link, pipe, socket or device where a file is expected; not opened"),
    "unreadable": Code(_E, "the file cannot be read"),
    "too-large": Code(_W, "the file is larger than 64 MB and is not read"),
    "wide-permissions": Code(_W, "a file or folder is open to other users", fixable=True),
    "layout-unconfirmed": Code(
        _I, "the layout was only recognised, so nothing is written; see `memoryd plan`, then `memoryd root confirm`"
    ),
    "layout-misfit": Code(_W, "nothing in the folder has the layout that was named for it"),
    "index-newer": Code(_W, "the index is of a newer version than memoryd knows; the folder is left as it is"),
    "refused-by-guard": Code(
        _W, "the clock is in doubt, so the scheduled archive moved nothing; see `memoryd plan`, then run it by hand"
    ),
    "hard-limit": Code(_E, "a file is at its hard limit; archive or forget memories"),
    "soft-limit": Code(_W, "a file is above its soft limit and nothing more can be archived"),
    "near-limit": Code(_I, "a file is at 85 % or more of a limit"),
    "stale-lock": Code(_W, "a lock is left over from a dead process", fixable=True),
    "unprovable-lock": Code(_W, "a lock whose holder cannot be proved dead; it is left alone"),
    "repair-given-up": Code(_W, "the same repair was made three times on the same bytes; it is left alone"),
    "possible-duplicate": Code(_I, "two memories look alike; merge them with `dedupe` or by hand"),
    "oversize": Code(_W, "a file is over its size with nothing left that may leave it"),
    "torn-file": Code(
        _E, "a shorter text was written over a longer one, whose end stands after the memory", fixable=True
    ),
    "second-object": Code(_E, "a memory file goes on after its memory with what may be a second one"),
    "field-type": Code(_W, "a field has another type or form than the layout foresees; kept, read as missing"),
    "id-form": Code(_I, "the id has not the usual form of the layout; accepted"),
    "lost-to-name-collision": Code(
        _W, "memories that the index named were overwritten by others that took their file's name"
    ),
    "wrong-shape": Code(_E, "a JSON file without the shape of its layout; nothing in it is a memory"),
    "broken-session": Code(
        _E, "a session file that cannot be read and that nobody is writing; repair moves it to quarantine", fixable=True
    ),
    "unknown-value": Code(_I, "a value outside the known ones of an open list; accepted"),
    "colon-name": Code(_W, "a session file's name has colons in its time where dashes are meant; read all the same"),
    "missing-date": Code(_W, "a session has no date that can be read, so its age is that of the file"),
    "stamp-differs": Code(_W, "id, time stamp and path of a session tell different moments"),
    "duplicate-session": Code(_W, "two files hold the same session"),
    "duplicate-memory": Code(_I, "a session says the same twice; `dedupe` merges it"),
    "embedding-size": Code(_W, "an embedding is missing or not as long as the others; left out of vector search"),
    "embedding-not-finite": Code(
        _W, "an embedding holds what is no finite number, or nothing but zeros; left out of vector search"
    ),
    "shrunk": Code(_E, "more than half of a user's memories went between two versions; see `memoryd backup list`"),
    "many-memories": Code(_W, "a user's document holds more memories than it was made for (1,000; 10,000)"),
    "change-was-undone": Code(_W, "the agent wrote an older state over a change of memoryd (it keeps a cache)"),
    "not-newest-first": Code(_W, "an entry is newer than the one above it; files are not reordered unasked"),
    "missing-labels": Code(_W, "an entry lacks a Context, Problem or Solution line"),
    "invalid-date": Code(_W, "a heading with a date that does not exist begins no entry"),
    "glued-heading": Code(_W, "an entry is glued to the line above it and not seen as one", fixable=True),
    "unclosed-fence": Code(_W, "a code fence is never closed; what follows it is not seen as entries"),
    "secret-shape": Code(_E, "something shaped like a secret stands in a file; take it out and revoke it"),
    "sensitive-word": Code(_I, "a word that often stands beside secrets (off by default)"),
    "index-unmanaged": Code(
        _W, "an index is another program's, or cannot be kept current as it is written; it is left as it is"
    ),
    "unlistable-name": Code(_W, "a file name that cannot stand in the index"),
    "legacy-file": Code(_I, "a left-over of an older version of the program that owns the folder"),
}


def summary(findings: list[Finding]) -> dict[str, int]:
    """Counts by severity, always with all three keys."""
    counts = {str(s): 0 for s in Severity}
    for finding in findings:
        counts[finding.severity] += 1
    return counts
