"""Findings: problems and remarks about memory files, as values.

`CODES` lists every code that memoryd reports, with its severity, its meaning and whether `repair` can fix it.
`memoryd help findings` prints this table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding; `check` exits with 1 for errors and warnings."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Code:
    """A finding code: its severity, its meaning, and whether `repair` can fix it."""

    severity: Severity
    meaning: str
    fixable: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or remark. `path` is relative to the root; `line` is 1-based; `message` never quotes a memory."""

    code: str
    path: str
    message: str
    line: int | None = None
    id: str | None = None
    level: Severity | None = None  # overrides the severity of the code

    @property
    def severity(self) -> Severity:
        """The severity of this finding."""
        return self.level or CODES[self.code].severity

    @property
    def fixable(self) -> bool:
        """True if `repair` can fix it."""
        return CODES[self.code].fixable


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

CODES: Mapping[str, Code] = {
    "invalid-json": Code(_E, "a line is not JSON; skipped and kept"),
    "invalid-encoding": Code(_E, "a line is not UTF-8; skipped and kept"),
    "nul-bytes": Code(_E, "a block of NUL bytes, as a power cut leaves behind", fixable=True),
    "torn-tail": Code(_E, "the last line is incomplete and no program is writing it"),
    "joined-lines": Code(_W, "two memories on one line; both are read", fixable=True),
    "invalid-schema": Code(_E, "a memory violates the schema beyond correction; skipped and kept"),
    "corrected-schema": Code(
        _W, "a field is missing or invalid; corrected in the index, unchanged in the file", fixable=True
    ),
    "task-metadata": Code(_W, "invalid task metadata; the task is kept and never archived by age"),
    "schema-bound": Code(_W, "a field exceeds a limit of the schema; kept and indexed"),
    "wrong-type-for-file": Code(_W, "a memory is in the file of another type; indexed by its own type"),
    "missing-id": Code(_E, "a memory has no id and cannot be indexed; repair assigns one", fixable=True),
    "id-not-uuid": Code(_W, "the id is not a version 4 UUID; accepted"),
    "line-too-long": Code(_W, "a line longer than 10,240 bytes; kept and indexed"),
    "duplicate-id": Code(
        _W, "duplicate id; only one memory is used (the first, or the one in the index), none is removed"
    ),
    "duplicate-key": Code(_W, "duplicate key in an object; the last value is used"),
    "byte-order-mark": Code(_I, "the file starts with a byte order mark"),
    "crlf-newlines": Code(_I, "lines end in CRLF; kept as they are"),
    "future-stamp": Code(_W, "a timestamp in the future; the memory is never archived"),
    "completed-without-date": Code(_W, "a completed task without completed_at; updated_at is used"),
    "corrupt-file": Code(_E, "most of the file is unreadable"),
    "emptied-file": Code(_E, "the file is empty but its newest backup is not; confirm or restore"),
    "shipped-form": Code(_I, "an <agent-id>.json file in the legacy format; read only"),
    "foreign-file": Code(_I, "a file that does not belong to the layout"),
    "not-a-regular-file": Code(_W, "a link, pipe, socket or device in place of a file; not opened"),
    "unreadable": Code(_E, "the file cannot be read"),
    "too-large": Code(_W, "the file is larger than 64 MB (user-document: 256 MB); not read"),
    "wide-permissions": Code(_W, "a file or directory is accessible to other users", fixable=True),
    "layout-unconfirmed": Code(
        _I,
        "the layout is detected but not confirmed; nothing is written; see `memoryd plan`, then `memoryd root confirm`",
    ),
    "layout-misfit": Code(_W, "nothing in the directory matches the configured layout"),
    "index-newer": Code(_W, "the index has a newer version than memoryd knows; the directory is left unchanged"),
    "refused-by-guard": Code(
        _W,
        "the clock cannot be trusted, so the scheduled archive moved nothing; see `memoryd plan`, then run it by hand",
    ),
    "hard-limit": Code(_E, "a file has reached its hard limit; archive or forget memories"),
    "soft-limit": Code(_W, "a file exceeds its soft limit and nothing more can be archived"),
    "near-limit": Code(_I, "a file has reached 85 % of a limit"),
    "stale-lock": Code(_W, "a lock was left behind by a dead process", fixable=True),
    "unprovable-lock": Code(_W, "a lock whose holder cannot be proved dead; left in place"),
    "held-lock": Code(_W, "a lock unchanged for 10 minutes whose process is alive"),
    "backups-behind": Code(_E, "every backup attempt of the last two intervals failed; see `memoryd jobs`"),
    "repair-given-up": Code(_W, "the same repair was made three times on the same bytes; not repeated"),
    "possible-duplicate": Code(_I, "two similar memories; merge them with `dedupe` or by hand"),
    "oversize": Code(_W, "a file exceeds its size limit and no entry can be archived"),
    "torn-file": Code(_E, "the file was overwritten with shorter content; trailing bytes remain", fixable=True),
    "second-object": Code(_E, "data follows the memory in its file, possibly a second memory"),
    "field-type": Code(_W, "a field has an unexpected type or format; kept, read as missing"),
    "id-form": Code(_I, "the id does not have the usual form of the layout; accepted"),
    "lost-to-name-collision": Code(
        _W, "memories listed in the index were overwritten by others with the same file name"
    ),
    "wrong-shape": Code(_E, "a JSON file without the structure of its layout; no memory is read from it"),
    "broken-session": Code(
        _E,
        "an unreadable session file that no program is writing; `repair --code broken-session` moves it to quarantine",
        fixable=True,
    ),
    "unknown-value": Code(_I, "a value outside the known values of an open list; accepted"),
    "colon-name": Code(_W, "a session file name with colons instead of dashes in its time; read anyway"),
    "missing-date": Code(_W, "a session without a readable date; the age of the file is used"),
    "stamp-differs": Code(_W, "the id, timestamp and path of a session disagree"),
    "duplicate-session": Code(_W, "two files hold the same session"),
    "duplicate-memory": Code(_I, "a session repeats a memory; `dedupe` merges them"),
    "embedding-size": Code(
        _W, "an embedding is missing or differs in length from the others; excluded from vector search"
    ),
    "embedding-not-finite": Code(
        _W, "an embedding holds non-finite numbers, or only zeros; excluded from vector search"
    ),
    "shrunk": Code(_E, "a user's document lost more than half of its memories at once; see `memoryd backup list`"),
    "many-memories": Code(_W, "a user's document holds more memories than the format is meant for (1,000; 10,000)"),
    "change-was-undone": Code(_W, "the agent overwrote a change of memoryd with an older state (it caches the file)"),
    "not-newest-first": Code(_W, "an entry is newer than the one above it; files are not reordered"),
    "missing-labels": Code(_W, "an entry without a Context, Problem or Solution line"),
    "invalid-date": Code(_W, "a heading with an impossible date does not start an entry"),
    "glued-heading": Code(_W, "a heading without a line break before it is not read as an entry", fixable=True),
    "unclosed-fence": Code(_W, "an unclosed code fence; the rest of the file is not read as entries"),
    "secret-shape": Code(_E, "a file contains what looks like a secret; remove and revoke it"),
    "sensitive-word": Code(_I, "a word that often appears beside secrets (off by default)"),
    "index-unmanaged": Code(
        _W, "the index belongs to another program, or cannot be kept current in its form; left unchanged"
    ),
    "unlistable-name": Code(_W, "a file name that the index cannot hold"),
    "legacy-file": Code(_I, "a file of an older version of the program that owns the directory"),
}


NEWS_SINGLE = 20  # findings reported one by one; above, they are counted per file and code
NEWS_GROUPS = 100  # pairs of file and code; above, findings are counted per code


@dataclass(frozen=True, slots=True)
class FindingNews:
    """One new finding, or the first of `count` similar ones."""

    finding: Finding
    count: int = 1


class NewFindings:
    """New findings that are not reported yet, that is, findings a file did not have when it was last read.

    Bounded: a file with 100,000 bad lines is one report.
    """

    def __init__(self) -> None:
        self._single: list[Finding] = []
        self._groups: dict[tuple[str, str], FindingNews] = {}
        self._number = 0

    def note(self, findings: Iterable[Finding], known: Mapping[tuple[str, str | None], int]) -> None:
        """Add the findings that are new.

        `known`: how often each (code, id) was found before in the same part of the file, so that a moved line is not
        reported again.
        """
        left = Counter(known)
        for finding in findings:
            if finding.severity is Severity.INFO:
                continue
            key = (finding.code, finding.id)
            if left[key] > 0:
                left[key] -= 1
            else:
                self._add(finding)

    def _add(self, finding: Finding) -> None:
        self._number += 1
        if self._number <= NEWS_SINGLE:
            self._single.append(finding)
        group = (finding.code, finding.path)
        if group not in self._groups and len(self._groups) >= NEWS_GROUPS:
            group = (finding.code, "")
        known = self._groups.get(group)
        self._groups[group] = FindingNews(known.finding, known.count + 1) if known else FindingNews(finding)

    def take(self) -> list[FindingNews]:
        """Return the findings to report, and forget them."""
        few = self._number <= NEWS_SINGLE
        news = [FindingNews(each) for each in self._single] if few else list(self._groups.values())
        self._single, self._groups, self._number = [], {}, 0
        return news
