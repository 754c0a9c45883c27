"""What the tests of storing into topic files share."""

from __future__ import annotations

from typing import Any

import pytest

from memoryd.errors import InvalidMemoryError
from memoryd.layouts.markdown_topics import MARKDOWN_TOPICS
from memoryd.layouts.protocol import NewMemory, WritePlan
from tests.layouts.contract import Files, carried_out
from tests.layouts.storehouse import done, find, rules, view_of

TOPICS = MARKDOWN_TOPICS
PATH = "auth/oauth2.md"
FIRST, SECOND = "auth/oauth2#2025-08-03:first", "auth/oauth2#2025-08-02:second"
WHERE = {"topic": "auth", "subtopic": "oauth2"}
FULL = {"title": "T", "context": "c", "problem": "p", "solution": "s", "code": "x = 1"}
REAL = b"""# Title

## 2025-08-03: First
**Context:** c
**Problem:** p
**Solution:** s
more of it

and more

### Details
- **Bold:** no field
**Before:**
```markdown
## 2025-08-03: fenced
**Context:** fenced
---
```

---

*Stored: 2025-08-03*

## 2025-08-02: Second
**Context:** d
---"""


def add(files: Files, memory: dict[str, Any], where: dict[str, str] | None = None) -> WritePlan:
    return TOPICS.require_writer().add(view_of(TOPICS, files), NewMemory(memory, WHERE if where is None else where))


def added(files: Files, memory: dict[str, Any], where: dict[str, str] | None = None) -> bytes:
    stored = add(files, memory, where)
    return done(TOPICS, files, stored)[stored.path]


def updated(data: bytes, identity: str, changes: dict[str, Any]) -> bytes:
    files = {PATH: data}
    stored = TOPICS.require_writer().update(view_of(TOPICS, files), find(TOPICS, files, identity), changes)
    return done(TOPICS, files, stored)[PATH]


def forgotten(files: Files, identity: str) -> tuple[WritePlan, Files]:
    stored = TOPICS.require_writer().forget(view_of(TOPICS, files), find(TOPICS, files, identity))
    return stored, carried_out(files, stored.plan)


def back(files: Files, identity: str) -> tuple[WritePlan, Files]:
    stored = TOPICS.require_writer().unarchive(view_of(TOPICS, files), find(TOPICS, files, identity, archived=True))
    return stored, done(TOPICS, files, stored)


def refusal(files: Files, memory: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidMemoryError) as refused:
        add(files, memory)
    return rules(refused.value)
