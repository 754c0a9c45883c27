"""The codes of all findings, and the severity of a finding.

`memoryd help findings` prints `CODES`. Importing this module loads every layout.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memoryd.core.findings import SHARED_CODES, Code, Finding, Severity
from memoryd.errors import UsageError, nearest
from memoryd.layouts.registry import LAYOUTS

_TABLES = (SHARED_CODES, *(layout.findings for layout in LAYOUTS.values()))
CODES: Mapping[str, Code] = {name: code for table in _TABLES for name, code in table.items()}
QUIET = frozenset(name for name, code in CODES.items() if code.severity is Severity.INFO)  # not reported as events
REBUILD = "rebuild-from-archive"  # `repair` takes it as a code; no finding has it


def severity(finding: Finding) -> Severity:
    """Return the severity of a finding: its own, or that of its code."""
    return finding.level or CODES[finding.code].severity


def require_codes(codes: Collection[str]) -> None:
    """Raise UsageError for codes that `repair` does not know."""
    known = {*CODES, REBUILD}
    unknown = sorted(set(codes) - known)
    if unknown:
        near = nearest(unknown[0], known)
        hint = f"did you mean {near!r}?" if near else "`memoryd check` shows the codes"
        raise UsageError(f"{', '.join(unknown)}: no such finding code", hint=hint)
