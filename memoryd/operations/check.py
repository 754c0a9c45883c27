"""Every finding of a store: what its files say, and what lies in no single file."""

from __future__ import annotations

from typing import Any

from memoryd.core.findings import CODES, Finding, Severity
from memoryd.operations.limits import note_limits
from memoryd.operations.locks import list_locks
from memoryd.operations.permissions import note_permissions
from memoryd.store import Store


def check(store: Store, now: float) -> list[Finding]:
    """The store must be refreshed before; what costs a look at the disk is looked at here."""
    list_locks(store, now)
    note_permissions(store)
    note_limits(store)
    return all_findings(store)


def all_findings(store: Store) -> list[Finding]:
    noted = [finding for findings in store.noted.values() for finding in findings]
    return [*store.catalogue.findings(), *noted]


def finding_counts(store: Store) -> dict[str, int]:
    """By severity, cheaply: what `status` shows."""
    counts = {str(severity): 0 for severity in Severity}
    for code, number in store.catalogue.finding_counts().items():
        counts[CODES[code].severity] += number
    for findings in store.noted.values():
        for finding in findings:
            counts[finding.severity] += 1
    return counts


def public(root: str, finding: Finding) -> dict[str, Any]:
    """What the control protocol shows."""
    shown: dict[str, Any] = {
        "root": root,
        "code": finding.code,
        "severity": str(finding.severity),
        "path": finding.path,
        "message": finding.message,
        "fixable": finding.fixable,
    }
    if finding.line is not None:
        shown["line"] = finding.line
    if finding.id is not None:
        shown["id"] = finding.id
    return shown
