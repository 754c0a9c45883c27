"""Report new findings of a root, each once: to the log and to subscribers."""

from __future__ import annotations

from memoryd.core.findings import Finding, FindingNews, NewFindings, Severity
from memoryd.core.secrets import redact
from memoryd.engine.interfaces import Tell
from memoryd.layouts.codes import severity
from memoryd.log import get_logger
from memoryd.operations.limits import note_limits
from memoryd.operations.overwrites import RetriedWrite
from memoryd.store import Store

log = get_logger(__name__)

REPORTED_BY_LIMITS = ("limits",)  # findings reported when a limit is crossed, once even over restarts


class FindingReports:
    """Reports each warning and error of one root once, to the log and to subscribers. Used by the thread that owns
    the root."""

    def __init__(self, store: Store, tell: Tell) -> None:
        self._store = store
        self._tell = tell
        self._reported: dict[str, tuple[Finding, ...]] = {}

    def report_new(self) -> None:
        """Report what is new since the last time."""
        for new in self._store.catalogue.take_new_findings():
            self._report(new)
        for name, findings in self._store.root_findings.items():
            before = self._reported.get(name, ())
            if findings == before or name in REPORTED_BY_LIMITS:
                continue
            known = {(each.code, each.path, each.id) for each in before}
            serious = (each for each in findings if severity(each) is not Severity.INFO)
            news = NewFindings()
            news.note((each for each in serious if (each.code, each.path, each.id) not in known), {})
            for new in news.take():
                self._report(new)
        self._reported = dict(self._store.root_findings)

    def report_limits(self) -> bool:
        """Report each limit newly crossed. Returns whether upkeep should make room under a soft one."""
        crossed, soft = note_limits(self._store)
        for each in crossed:
            said = "hard limit reached" if each.code == "hard-limit" else "soft limit exceeded"
            log.warning(said, root=self._store.name, file=each.path, hint=each.message)
            shown = {"code": each.code, "severity": str(severity(each)), "path": each.path, "message": each.message}
            self._tell("finding", {"root": self._store.name, **shown})
        return soft and not self._store.observes

    def report_retried(self, write: RetriedWrite) -> None:
        """Report a memory that an agent's older state had erased and that has been stored again."""
        log.warning("stored again", root=self._store.name, file=write.path, receipt=write.receipt)
        self._tell("finding", {"root": self._store.name, "code": write.code, **write._asdict()})

    def _report(self, new: FindingNews) -> None:
        """Log and publish severity, code and place; never content."""
        finding = new.finding
        shown: dict[str, object] = {"root": self._store.name, "code": finding.code, "severity": str(severity(finding))}
        if new.count > 1:
            shown |= {"path": redact(finding.path), "count": new.count, "message": f"the first: {finding.message}"}
        else:
            identity = finding.id and redact(finding.id)
            place = {"path": redact(finding.path), "line": finding.line, "id": identity}
            shown |= {key: value for key, value in place.items() if value is not None}
            shown["message"] = finding.message
        if finding.line is not None and new.count > 1:
            shown["line"] = finding.line
        level = log.error if severity(finding) is Severity.ERROR else log.warning
        level("finding", **shown)
        self._tell("finding", shown)
