"""Collect the findings of a store, and make those about whole files and about backups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import UNSET

from memoryd.control.methods.status import Counts, FindingRow
from memoryd.core.defaults import DAY
from memoryd.core.findings import Finding
from memoryd.core.index import FileRow
from memoryd.core.records import Document, Role
from memoryd.core.schedule import Every, Off, parse_schedule
from memoryd.core.spans import Fingerprint
from memoryd.disk.journal.jobs import JobTime
from memoryd.disk.syscalls import leads_out
from memoryd.layouts.codes import CODES, severity
from memoryd.operations.limits import note_limits
from memoryd.operations.locks import list_locks
from memoryd.operations.permissions import note_permissions
from memoryd.store import Store

ARCHIVED_TOPIC, FILES_TOPIC = "archived", "files"


def check(store: Store, now: float) -> list[Finding]:
    """Run the checks that need disk access, and return all findings. The catalogue must be current (see `refresh`)."""
    list_locks(store, now)
    note_permissions(store)
    note_limits(store)
    note_backups(store, now)
    return all_findings(store)


def all_findings(store: Store) -> list[Finding]:
    """Return all known findings of a root."""
    noted = [finding for findings in store.root_findings.values() for finding in findings]
    return [*store.catalogue.findings(), *noted]


def finding_counts(store: Store) -> Counts:
    """Count the findings of a store by severity without loading them, for `status`."""
    counts = Counter(str(severity(finding)) for findings in store.root_findings.values() for finding in findings)
    for (_, code), number in store.catalogue.finding_counts().items():
        counts[str(CODES[code].severity)] += number
    return Counts(counts["error"], counts["warning"], counts["info"])


def finding_row(root: str, finding: Finding) -> FindingRow:
    """Convert a finding to a row of the control protocol."""
    return FindingRow(
        root=root,
        code=finding.code,
        severity=str(severity(finding)),
        path=finding.path,
        message=finding.message,
        fixable=finding.fixable or CODES[finding.code].fixable,
        line=UNSET if finding.line is None else finding.line,
        id=UNSET if finding.id is None else finding.id,
    )


def count_findings(findings: Iterable[Finding]) -> Counts:
    """Count findings by severity."""
    counts = Counter(str(severity(finding)) for finding in findings)
    return Counts(counts["error"], counts["warning"], counts["info"])


STORAGE_ROLES = (Role.ARCHIVE, Role.BACKUP)
STORAGE_PATHS = (  # a sample file of each directory in which a layout stores archives or backups
    "archive/2026/learnings_2026_Q1.jsonl",
    "archive/topic/2026.md",
    "archive/2026-01/2026-01-30-14-30-00-name.json",
    ".backup/learnings.jsonl.backup.20260130_143000",
)


SOURCE_NAMES = ("x.md", "10-10-10-x.json", "data.json", "__long-memories/data.json")  # samples, for all layouts


def odd_files(store: Store, irregular: Iterable[str], unreadable: Iterable[str]) -> Iterable[Finding]:
    """Yield a finding for each path with something else in place of a file (`irregular`), or of a directory that can
    hold such files, and each unreadable path."""
    for path in irregular:
        message = _odd_file(store, path)
        if message is not None:
            yield Finding("not-a-regular-file", path, message)
    for path in unreadable:
        yield Finding("unreadable", path, "cannot stat; check its owner and mode")


def _odd_file(store: Store, path: str) -> str | None:
    role, top = store.role(path), f"{path.partition('/')[0]}/"
    if role in (Role.INDEX, Role.TEMP):
        return None  # `index_files` reports the first
    if role is not Role.FOREIGN:
        return "a link, directory or special file in place of a file; not opened: replace it with a file"
    if any(place.startswith(top) and store.role(place) in STORAGE_ROLES for place in STORAGE_PATHS):
        return "a link or special file in place of a directory; nothing is written through it"
    holds_memories = any(store.role(f"{path}/{name}") is Role.SOURCE for name in SOURCE_NAMES)
    # With a dot in its name it is rather a link to a file of another kind.
    if holds_memories and "." not in path.rpartition("/")[2] and leads_out(store.tree.fd, store.path, path):
        return "a link, or another file system, in place of a directory; not entered: memories below it are not read"
    return None


def file_findings(store: Store, row: FileRow, *, is_empty: bool) -> Iterable[Finding]:
    """Yield findings about the whole file: mostly unreadable, or empty while its newest backup is not."""
    path = row.path
    if row.role != Role.SOURCE or row.pending:
        return
    damaged = row.units - row.records
    if row.units > 1 and damaged * 2 > row.units:
        message = f"{damaged} of {row.units} lines cannot be used; compare `memoryd backup list` and restore"
        yield Finding("corrupt-file", path, message)
    elif not is_empty and _lost_all_lines(store, row):
        message = "no line can be used, but backups hold memories; compare `memoryd backup list` and restore"
        yield Finding("corrupt-file", path, message)
    backed_up = is_empty and any(row.bytes for row in store.journal.backups.rows(path)[-1:])
    if backed_up and not _shortened_by_memoryd(store, path, 0):
        message = "the file is empty while its newest backup is not; restore it, or ignore this if it was meant"
        yield Finding("emptied-file", path, message)


def _lost_all_lines(store: Store, row: FileRow) -> bool:
    """True if a file of lines is left with one unreadable line, or with NUL bytes, and a backup holds memories. A new
    file whose first line is broken has lost nothing."""
    if row.records or not store.file_rules.append_only:
        return False
    if not any(each.quality.records for each in store.journal.backups.rows(row.path)):
        return False
    return not _shortened_by_memoryd(store, row.path, row.fingerprint.size)


def _shortened_by_memoryd(store: Store, path: str, size: int) -> bool:
    """True if the newest change of memoryd to the file left this size because it moved the memories elsewhere; a repair
    only removes bytes that are in no memory."""
    steps = store.journal.steps_of(path)
    entry, step = next(((entry, step) for entry, step in steps if step.after_sha is not None), (None, None))
    return entry is not None and step is not None and entry.operation != "repair" and step.after_size == size


BACKUPS_TOPIC = "backups"
BACKUP_JOB = "backup"
MIN_RUNS = 3  # before a root without any backup is reported


def note_backups(store: Store, now: float) -> None:
    """Report a root whose last backup is older than two intervals and whose last attempt failed."""
    layout = store.layout
    scheduled = layout is not None and BACKUP_JOB in layout.jobs and not store.observes
    interval = _interval(store) if scheduled else None
    job = store.journal.jobs.times().get(BACKUP_JOB)
    why = None if interval is None or job is None else _delay_reason(job, interval, now)
    store.root_findings[BACKUPS_TOPIC] = (
        (Finding("backups-behind", "", why),) if why and store.index.result.memories else ()
    )


def _interval(store: Store) -> float | None:
    """Return the interval of the backup job in seconds; None if it is off."""
    schedule = parse_schedule(store.policy.schedule.get(BACKUP_JOB, "off"))
    if isinstance(schedule, Off):
        return None
    return schedule.seconds if isinstance(schedule, Every) else DAY


def _delay_reason(job: JobTime, interval: float, now: float) -> str | None:
    if job.last_result in (None, "ok"):
        return None
    reason = f"the last attempt ended with {job.last_result}: {job.last_error or 'unknown reason'}"
    if job.last_success is None:
        return f"no backup was ever made; {reason}" if job.runs >= MIN_RUNS else None
    age_s = now - job.last_success
    age = f"{age_s / DAY:.0f} days" if age_s >= 2 * DAY else f"{age_s / 3600:.1f} hours"
    return f"the last backup was made {age} ago; {reason}" if age_s > 2 * interval else None


def note_archived(store: Store) -> None:
    """Report memories that are live and in the archive as well, as after a crash between copy and removal, or where a
    live file was restored from a backup."""
    if store.index.archived_at == store.index.changes:
        return  # nothing was indexed since
    store.index.archived_at = store.index.changes
    message = "also in the archive; `memoryd archive ID` removes it here"
    store.root_findings[ARCHIVED_TOPIC] = tuple(
        Finding("also-archived", place.path, message, place.line, place.id) for place in store.catalogue.also_archived()
    )


def note_unread(store: Store, path: str, found: Fingerprint, finding: Finding) -> bool:
    """Record that a file cannot be read. Its old row stays in use and is reported as stale; a file that was never read
    gets an empty row: then True is returned."""
    _set_finding(store, "unread", path, finding)
    if store.catalogue.file(path) is not None:
        return False
    row = FileRow(path, str(store.role(path)), found, "", pending=True)
    store.catalogue.replace(row, Document(path, (), ()))
    return True


def clear_unread(store: Store, path: str) -> None:
    """Clear the finding about a file that can be read again, or was deleted."""
    store.unreadable_since.pop(path, None)
    _set_finding(store, "unread", path, None)


def note_kind(store: Store, path: str, *, is_irregular: bool) -> None:
    """Record whether something else is in place of a file; a scan does this for all files."""
    finding = next(iter(odd_files(store, (path,), ())), None) if is_irregular else None
    _set_finding(store, FILES_TOPIC, path, finding)


def _set_finding(store: Store, topic: str, path: str, finding: Finding | None) -> None:
    """Replace the root's finding about a path, or clear it."""
    known = store.root_findings.get(topic, ())
    if known or finding is not None:
        kept = tuple(each for each in known if each.path != path)
        store.root_findings[topic] = kept if finding is None else (*kept, finding)
