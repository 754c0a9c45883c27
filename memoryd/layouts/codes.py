"""The codes of all findings, and the severity of a finding.

`memoryd help findings` prints `CODES`. Importing this module loads every layout.
"""

from __future__ import annotations

from collections.abc import Mapping

from memoryd.core.findings import SHARED_CODES, Code, Finding, Severity
from memoryd.layouts.registry import LAYOUTS

_TABLES = (SHARED_CODES, *(layout.findings for layout in LAYOUTS.values()))
CODES: Mapping[str, Code] = {name: code for table in _TABLES for name, code in table.items()}
QUIET = frozenset(name for name, code in CODES.items() if code.severity is Severity.INFO)  # not reported as events


def severity(finding: Finding) -> Severity:
    """Return the severity of a finding: its own, or that of its code."""
    return finding.level or CODES[finding.code].severity
