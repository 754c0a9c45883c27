"""Findings: problems and remarks about memory files, as values.

`SHARED_CODES` lists the codes of memoryd itself and those that several layouts report. The other codes are declared by
the layout that reports them; `memoryd.layouts.codes` joins them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """The severity of a finding; `check` exits with 1 for errors and warnings."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Code(Struct, frozen=True):
    """A finding code: its severity, its meaning, and whether `repair` can fix it."""

    severity: Severity
    meaning: str
    fixable: bool = False


class Finding(Struct, frozen=True):
    """One problem or remark. `path` is relative to the root; `line` is 1-based; `message` never quotes a memory."""

    code: str
    path: str
    message: str
    line: int | None = None
    id: str | None = None
    level: Severity | None = None  # overrides the severity of the code
    fixable: bool = False  # `repair` answers it, if not every finding with its code


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

SHARED_CODES: Mapping[str, Code] = {
    "invalid-encoding": Code(ERROR, "a line is not UTF-8; skipped and kept"),
    "nul-bytes": Code(ERROR, "a block of NUL bytes, as a power cut leaves behind", fixable=True),
    "invalid-schema": Code(ERROR, "a memory violates the schema beyond correction; skipped and kept"),
    "schema-bound": Code(WARNING, "a field exceeds a limit of the schema; kept and indexed"),
    "duplicate-id": Code(
        WARNING, "duplicate id; only one memory is used (the first, or the one in the index), none is removed"
    ),
    "also-archived": Code(WARNING, "a live memory is also in the archive; archiving it again removes it here"),
    "duplicate-key": Code(WARNING, "duplicate key in an object; the last value is used"),
    "byte-order-mark": Code(INFO, "the file starts with a byte order mark"),
    "crlf-newlines": Code(INFO, "lines end in CRLF; kept as they are"),
    "future-stamp": Code(WARNING, "a timestamp in the future; the memory is never archived"),
    "corrupt-file": Code(ERROR, "most of the file is unreadable"),
    "emptied-file": Code(ERROR, "the file is empty but its newest backup is not; confirm or restore"),
    "not-a-regular-file": Code(WARNING, "a link, directory or special file in place of a file; not opened"),
    "unreadable": Code(ERROR, "the file cannot be read"),
    "too-large": Code(WARNING, "the file is larger than 64 MB (user-document: 256 MB, index files: 1 GB); not read"),
    "wide-permissions": Code(WARNING, "a file or directory is accessible to other users", fixable=True),
    "layout-unconfirmed": Code(
        INFO,
        "the layout is detected but not confirmed; nothing is written; see `memoryd plan`, then `memoryd root confirm`",
    ),
    "layout-misfit": Code(WARNING, "nothing in the directory matches the configured layout"),
    "refused-by-guard": Code(
        WARNING,
        "the clock cannot be trusted, so the scheduled archive moved nothing; see `memoryd plan`, then run it by hand",
    ),
    "hard-limit": Code(ERROR, "a file has reached its hard limit; archive or forget memories"),
    "soft-limit": Code(WARNING, "a file exceeds its soft limit and nothing more can be archived"),
    "near-limit": Code(INFO, "a file has reached 85 % of a limit"),
    "stale-lock": Code(WARNING, "a lock was left behind by a dead process", fixable=True),
    "unprovable-lock": Code(WARNING, "a lock whose holder cannot be proved dead; left in place"),
    "held-lock": Code(WARNING, "a lock unchanged for 10 minutes whose process is alive"),
    "backups-behind": Code(ERROR, "every backup attempt of the last two intervals failed; see `memoryd jobs`"),
    "versions-unsaved": Code(
        WARNING, "versions of files are not saved: refused by the disk, or too many, and no backup follows"
    ),
    "repair-given-up": Code(WARNING, "the same repair was made three times on the same bytes; not repeated"),
    "possible-duplicate": Code(INFO, "two similar memories; merge them with `dedupe` or by hand"),
    "oversize": Code(WARNING, "a file exceeds its size limit and no entry can be archived"),
    "torn-file": Code(ERROR, "the file was overwritten with shorter content; trailing bytes remain", fixable=True),
    "second-object": Code(ERROR, "data follows the memory in its file, possibly a second memory"),
    "field-type": Code(WARNING, "a field has an unexpected type or format; kept, read as missing"),
    "wrong-shape": Code(ERROR, "a JSON file without the structure of its layout; no memory is read from it"),
    "broken-session": Code(
        ERROR,
        "an unreadable session file that no program is writing; `repair --code broken-session` moves it to quarantine",
        fixable=True,
    ),
    "shrunk": Code(
        ERROR,
        "another program made a file lose more than half of its memories (ten or more; in a user's document any number)"
        " and they are nowhere else; stays until restored, written again, or accepted with `repair --code shrunk`",
    ),
    "change-was-undone": Code(
        WARNING,
        "another program overwrote a change of memoryd with an older state, as agents do that cache the file; `repair"
        " --code change-was-undone` stores a lost memory or update again",
    ),
    "late-writes": Code(
        WARNING,
        "a program still writes to the old version of a file that memoryd replaced, under a temporary name; what it"
        " appends is carried over, what it changes in place is not",
    ),
    "state-lost": Code(WARNING, "files in the state directory were deleted while memoryd ran; older history is gone"),
    "package-missing": Code(WARNING, "a package that a search needs is not installed or cannot be loaded"),
    "index-unmanaged": Code(
        WARNING, "the index belongs to another program, or cannot be kept current in its form; left unchanged"
    ),
}


NEWS_SINGLE = 20  # findings reported one by one; above, they are counted per file and code
NEWS_GROUPS = 100  # pairs of file and code; above, findings are counted per code


class FindingNews(Struct, frozen=True):
    """One new finding, or the first of `count` similar ones."""

    finding: Finding
    count: int = 1


class NewFindings:
    """New findings that are not reported yet, that is, findings a file did not have when it was last read.

    Bounded: a file with 100,000 bad lines is one report. Findings with a code in `quiet` are not reported.
    """

    def __init__(self, quiet: Collection[str] = ()) -> None:
        self.waiting = False  # any to report
        self._quiet = quiet
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
            if finding.code in self._quiet:
                continue
            key = (finding.code, finding.id)
            if left[key] > 0:
                left[key] -= 1
            else:
                self._add(finding)

    def _add(self, finding: Finding) -> None:
        self.waiting = True
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
        self.waiting = False
        return news
