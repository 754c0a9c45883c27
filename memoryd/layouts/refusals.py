"""How a memory that does not fit its layout is refused: each field with the rule it breaks, never with its content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memoryd.core.secrets import redact
from memoryd.errors import InvalidMemoryError

_LONGEST_NAME = 60  # characters of a field's name that are shown


class Broken(NamedTuple):
    """A field and the rule it breaks: "title", "must not be empty"."""

    field: str
    rule: str


def refused(broken: Sequence[Broken], *, hint: str | None = None) -> InvalidMemoryError:
    """All that is wrong, at once; the message names the first."""
    findings = [{"field": redact(each.field)[:_LONGEST_NAME], "rule": each.rule} for each in broken]
    message = f"{findings[0]['field']}: {findings[0]['rule']}"
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return InvalidMemoryError(message + more, hint=hint, data={"findings": findings})
