"""Every finding code is produced by a real store, names its location, and never quotes a memory."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memoryd.config.settings import SearchConfig
from memoryd.core.defaults import DAY, MB, Limit, LimitKind, Policy
from memoryd.core.findings import Finding
from memoryd.disk import syscalls
from memoryd.disk.locks.trace import HONOUR_S
from memoryd.errors import GuardError
from memoryd.layouts.codes import CODES
from memoryd.operations.backup import create_backups
from memoryd.operations.check import check
from memoryd.operations.check import finding_row as shown
from memoryd.operations.file_versions import save_versions
from memoryd.operations.locks import list_locks
from memoryd.operations.recognition import layout_mismatch
from memoryd.operations.repair import MAX_TRIES, repair
from memoryd.operations.upkeep import archive, dedupe, enforce_limits
from memoryd.service.search_models import search_findings
from memoryd.service.state_files import STATE_TOPIC, StateFiles
from memoryd.store import Store
from memoryd.store.late_writes import MIN_AGE_S
from tests.layouts import json_samples, session_samples
from tests.layouts.json_samples import identity, name, pretty
from tests.layouts.samples import learning, line, lines, memory, task
from tests.operations.world import CORE, LEARNINGS, Q3, TASKS, World

CANARY = "canaryquartz"
SAID = f"the {CANARY} sings"
SECRET = "ghp_" + "a1B2" * 9
AGREED = b'{"content": "the canaryquartz'  # the beginning of a memory, cut off

GOOD = learning(1, content=SAID, category=CANARY, tags=[CANARY])
SESSION = "2026-01-30/14-30-00-fix-bug.json"
DOCUMENT = "files/alice/__long-memories/data.json"
TOPIC = "a/b.md"


class Site(World):
    """One store of a layout, what a case changes in the program, and what it holds open."""

    def __init__(self, base: Path, layout: str, policy: Policy, patch: pytest.MonkeyPatch) -> None:
        super().__init__(base, policy, layout)
        self.patch = patch
        self.handles = ExitStack()

    def has(self, text: bytes) -> bool:
        return any(text in path.read_bytes() for path in self.root.rglob("*") if path.is_file())


class Place(NamedTuple):
    path: str
    line: int | None = None


class Case(NamedTuple):
    layout: str
    plant: Callable[[Site], Place]
    policy: Policy = Policy()


def _file(path: str, content: bytes, line: int | None = None, age: float = 3600.0) -> Callable[[Site], Place]:
    def plant(site: Site) -> Place:
        site.write(path, content, age)
        return Place(path, line)

    return plant


def _jsonl(content: bytes, line: int | None = None, path: str = LEARNINGS, policy: Policy | None = None) -> Case:
    return Case("jsonl-store", _file(path, content, line), policy or Policy())


def _limited(kind: LimitKind, count: int) -> Policy:
    return Policy(limits={LEARNINGS: None, CORE: None, TASKS: Limit(kind, None, count)})


def _bad(**fields: Any) -> bytes:
    return lines(GOOD, {**GOOD, "id": learning(2)["id"], **fields})


# --- findings that belong to no single line


def _emptied(site: Site) -> Place:
    site.write(LEARNINGS, lines(GOOD))
    site.sync()
    create_backups(site.store, site.now)
    site.write(LEARNINGS, b"")
    return Place(LEARNINGS)


def _failing_backups(site: Site) -> Place:
    site.write(LEARNINGS, lines(GOOD))
    site.sync()
    site.store.journal.jobs.record_start("backup", site.now)
    site.store.journal.jobs.record_end("backup", "ok", site.now)
    site.now += 2 * DAY + 1
    site.store.journal.jobs.record_end("backup", "failed", site.now, "the disk refuses")
    return Place("")


def _held_lock(site: Site) -> Place:
    """Hold the lock as the parent of this process, which started before it."""
    site.store.lock_watch.monotonic = lambda: site.now
    site.now = float(int(time.time()))
    site.write(".lock", json.dumps({"pid": os.getppid(), "agent": SAID}).encode(), age=-5)
    list_locks(site.store, site.now)
    site.now += HONOUR_S
    return Place(".lock")


def _late_writer(site: Site) -> Place:
    """Write in place through a handle that was opened before memoryd replaced the file."""
    site.write(LEARNINGS, lines(learning(1, "2020-01-01T00:00:00Z", content=SAID), GOOD))
    site.sync()
    handle = site.handles.enter_context((site.root / LEARNINGS).open("r+b"))
    assert archive(site.store, site.now, by="schedule").receipt is not None
    handle.write(b" ")
    handle.flush()
    site.now += MIN_AGE_S
    site.store.merge_late_writes(site.now)
    [late] = site.store.late_writes.waiting
    return Place(late.replaced.temp or LEARNINGS)


def _link(site: Site) -> Place:
    site.write("elsewhere", lines(GOOD))
    (site.root / TASKS).symlink_to("elsewhere")
    return Place(TASKS)


def _failing_disk(site: Site) -> Place:
    site.write(LEARNINGS, lines(GOOD))
    genuine = syscalls.open_regular

    def open_regular(directory: int, file: str, path: str, *more: Any) -> int:
        if path == LEARNINGS:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return genuine(directory, file, path, *more)

    def open_found(directory: int, file: str) -> int:
        return open_regular(directory, file, file)

    site.patch.setattr("memoryd.disk.tree.open_regular", open_regular)
    site.patch.setattr("memoryd.disk.tree.open_found", open_found)
    return Place(LEARNINGS)


def _too_large(site: Site) -> Place:
    site.write(LEARNINGS, lines(GOOD))
    os.truncate(site.root / LEARNINGS, 65 * MB)
    return Place(LEARNINGS)


def _open_to_all(site: Site) -> Place:
    site.write(LEARNINGS, lines(GOOD))
    (site.root / LEARNINGS).chmod(0o644)
    return Place(LEARNINGS)


def _full(site: Site) -> Place:
    site.write(TASKS, lines(*(task(n, "in-progress", content=SAID) for n in range(2))))
    site.sync()
    enforce_limits(site.store, site.now, by="schedule")
    return Place(TASKS)


def _jumped(site: Site) -> Place:
    site.write(LEARNINGS, lines(learning(1, "2020-01-01T00:00:00Z", content=SAID)))
    site.sync()
    site.store.clock_jump_s = 86_400.0
    with pytest.raises(GuardError):
        archive(site.store, site.now, by="schedule")
    return Place("")


def _lock(content: bytes) -> Callable[[Site], Place]:
    def plant(site: Site) -> Place:
        site.write(LEARNINGS, lines(GOOD))
        site.write(".lock", content, age=60)
        return Place(".lock")

    return plant


def _repaired_again(site: Site) -> Place:
    torn = json_samples.file(1, content=SAID) + b"se\n}"
    for _ in range(MAX_TRIES + 1):
        site.write(name(1), torn)
        site.sync()
        repair(site.store, site.now)
    return Place(name(1))


def _alike(site: Site) -> Place:
    for number in (1, 2):
        site.write(name(number), json_samples.file(number, content=f"{SAID} in the early morning light"))
    site.sync()
    dedupe(site.store, site.now, by="command")
    return Place(name(2))


def _overwritten(site: Site) -> Place:
    site.write(name(1), json_samples.file(1, content=SAID))
    site.write("_index.json", pretty({"fileIndex": {identity(7): name(1)}}))
    return Place("_index.json")


def _document(*contents: str, **fields: Any) -> bytes:
    items: list[dict[str, Any]] = [
        {"data": {"id": n, "content": each, **fields}, "embedding": [1.0, n + 0.5]} for n, each in enumerate(contents)
    ]
    whole = {"memories": items, "updated_at": "2026-01-30T12:00:00Z", "last_deduplicated_at": None}
    return json.dumps(whole, separators=(",", ":")).encode()


def _shrunk(site: Site) -> Place:
    site.write(DOCUMENT, _document(SAID, "b", "c"))
    site.sync()
    site.write(DOCUMENT, _document(SAID))
    return Place(DOCUMENT)


def _undone(site: Site) -> Place:
    site.write(DOCUMENT, _document(SAID, SAID))
    site.sync()
    dedupe(site.store, site.now, by="command")
    site.sync()
    site.write(DOCUMENT, _document(SAID, SAID, "new"))
    return Place(DOCUMENT)


def _embedding(vector: Any) -> Case:
    whole = json.loads(_document(SAID, "b", "c"))
    whole["memories"][1]["embedding"] = vector
    return Case("user-document", _file(DOCUMENT, json.dumps(whole).encode(), 1))


def _two_sessions(site: Site) -> Place:
    content = session_samples.text(session_samples.session(session_samples.memory(CANARY, SAID)))
    site.write(SESSION, content)
    site.write("2026-01-30/15-00-00-other.json", content)
    return Place("2026-01-30/15-00-00-other.json")


def _session(*memories: Any, path: str = SESSION, line: int | None = None, **fields: Any) -> Case:
    told = memories or (session_samples.memory(CANARY, SAID),)
    native = session_samples.session(*told, **fields)
    return Case("session-files", _file(path, session_samples.text(native), line))


def _topic(*entries: str, head: str = "", path: str = TOPIC, line: int | None = None, **policy: Any) -> Case:
    return Case("markdown-topics", _file(path, (head + "".join(entries)).encode(), line), Policy(**policy))


def _entry(day: str, said: str = SAID) -> str:
    return f"## {day}: {CANARY}\n**Context:** c\n**Problem:** p\n**Solution:** {said}\n---\n"


def _unmanaged(site: Site) -> Place:
    site.write(TOPIC, _entry("2026-01-01").encode())
    site.write("index.md", b"# Memory Index\n\n```\n")
    return Place("index.md")


def _no_model(site: Site) -> Place:
    site.write(LEARNINGS, lines(GOOD))
    site.patch.setattr("memoryd.service.search_models.missing_package", lambda: "onnxruntime")
    site.store.root_findings["search"] = search_findings(SearchConfig(rerank="minilm"))
    return Place("")


def _no_journal(site: Site) -> Place:
    site.write(LEARNINGS, lines(GOOD))
    journal, files = site.root.parent / "lost-state" / "journal.sqlite", StateFiles()
    journal.parent.mkdir(exist_ok=True)
    journal.write_bytes(b"a journal")
    files.note("m", str(journal.parent))
    journal.unlink()
    assert files.take_lost(lambda topic, event: None) == ("m",)
    site.store.root_findings[STATE_TOPIC] = files.note("m", str(journal.parent))
    return Place("")


TWICE = line(GOOD).replace(b'"importance":"high"', b'"content":"the canaryquartz","importance":"high"')


def _of_another_program(site: Site) -> Place:
    site.write("memory.jsonl", f'{{"name": "{CANARY}", "entityType": "{CANARY}", "observations": []}}\n'.encode())
    found = layout_mismatch(site.store)
    assert found is not None
    site.store.root_findings["fit"] = (Finding("layout-misfit", "", found.why),)
    return Place("")


def _refused_versions(site: Site) -> Place:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    site.write(TOPIC, _entry("2026-01-01").encode())
    site.sync()
    site.patch.setattr(site.store.vault, "add_versions", refuse)
    save_versions(site.store, site.now)
    return Place("")


def _archived_as_well(site: Site) -> Place:
    site.write(LEARNINGS, lines(learning(2), GOOD))
    site.write(Q3, lines(GOOD | {"archived": True}))
    return Place(LEARNINGS, 2)


def _only_recognised(site: Site) -> Place:
    site.write(LEARNINGS, lines(GOOD))
    site.store.guess("jsonl-store", f"{LEARNINGS}:1 holds a memory")
    return Place("")


CASES: dict[str, Case] = {
    "invalid-json": _jsonl(lines(GOOD) + AGREED + b"\n" + lines(learning(2)), 2),
    "invalid-encoding": _jsonl(lines(GOOD, learning(2)) + b'{"content": "canaryquartz \xff"}\n', 3),
    "nul-bytes": _jsonl(lines(GOOD) + b"\0" * 64 + b"\n", 2),
    "torn-tail": _jsonl(lines(GOOD) + AGREED, 2),
    "joined-lines": _jsonl(line(GOOD) + line(learning(2)) + b"\n", 1),
    "invalid-schema": _jsonl(_bad(content=SAID * 400), 2),
    "corrected-schema": _jsonl(_bad(importance=CANARY), 2),
    "task-metadata": _jsonl(lines(task(1, CANARY, content=SAID)), 1, TASKS),
    "schema-bound": _jsonl(_bad(tags=[CANARY * 5]), 2),
    "wrong-type-for-file": _jsonl(lines(memory(1, content=SAID)), 1),
    "missing-id": _jsonl(lines(GOOD, {**GOOD, "id": 7}), 2),
    "id-not-uuid": _jsonl(_bad(id=CANARY), 2),
    "line-too-long": _jsonl(_bad(content=CANARY + "東" * 4000), 2),
    "duplicate-id": _jsonl(lines(GOOD, GOOD), 2),
    "duplicate-key": _jsonl(lines(learning(2)) + TWICE + b"\n", 2),
    "byte-order-mark": _jsonl(b"\xef\xbb\xbf" + lines(GOOD), 1),
    "crlf-newlines": _jsonl(lines(GOOD).replace(b"\n", b"\r\n"), 1),
    "future-stamp": _jsonl(_bad(created_at="2036-01-01T00:00:00Z"), 2),
    "completed-without-date": _jsonl(lines(task(1, "completed", content=SAID)), 1, TASKS),
    "corrupt-file": _jsonl(lines(GOOD) + (AGREED + b"\n") * 2),
    "emptied-file": Case("jsonl-store", _emptied),
    "shipped-form": _jsonl(json.dumps({"core_memories": [GOOD]}).encode(), path="agent.json"),
    "foreign-file": _jsonl(json.dumps({"name": SAID}).encode(), path="package.json"),
    "not-a-regular-file": Case("jsonl-store", _link),
    "unreadable": Case("jsonl-store", _failing_disk),
    "too-large": Case("jsonl-store", _too_large),
    "wide-permissions": Case("jsonl-store", _open_to_all),
    "layout-unconfirmed": Case("jsonl-store", _only_recognised),
    "refused-by-guard": Case("jsonl-store", _jumped),
    "layout-misfit": Case("jsonl-store", _of_another_program),
    "index-newer": _jsonl(json.dumps({"version": "2.0.0", "mine": SAID}).encode(), path="index.json"),
    "hard-limit": Case("jsonl-store", _full, _limited(LimitKind.HARD, 2)),
    "soft-limit": Case("jsonl-store", _full, _limited(LimitKind.SOFT, 1)),
    "near-limit": Case("jsonl-store", _full, _limited(LimitKind.SOFT, 2)),
    "stale-lock": Case("jsonl-store", _lock(b'{"pid": 4194303}')),
    "also-archived": Case("jsonl-store", _archived_as_well),
    "versions-unsaved": Case("markdown-topics", _refused_versions),
    "backups-behind": Case("jsonl-store", _failing_backups),
    "held-lock": Case("jsonl-store", _held_lock),
    "late-writes": Case("jsonl-store", _late_writer),
    "unprovable-lock": Case("jsonl-store", _lock(b"mine")),
    "repair-given-up": Case("json-files", _repaired_again),
    "possible-duplicate": Case("json-files", _alike),
    "torn-file": Case("json-files", _file(name(1), json_samples.file(1, content=SAID) + b"se\n}")),
    "second-object": Case("json-files", _file(name(1), json_samples.file(1) + json_samples.file(2, content=SAID))),
    "field-type": Case("json-files", _file(name(1), json_samples.file(1, tags=CANARY))),
    "id-form": Case("json-files", _file(name(1), json_samples.file(1, id=CANARY))),
    "lost-to-name-collision": Case("json-files", _overwritten),
    "legacy-file": Case("json-files", _file("global_memories.json", pretty([SAID]))),
    "wrong-shape": Case("session-files", _file(SESSION, pretty([SAID]))),
    "broken-session": Case("session-files", _file(SESSION, AGREED)),
    "unknown-value": _session(session_samples.memory(CANARY, SAID, type=CANARY), line=7),
    "colon-name": _session(path="2026-01-30/14:30:00-fix-bug.json"),
    "missing-date": _session(timestamp=CANARY),
    "stamp-differs": _session(session_id=CANARY),
    "duplicate-session": Case("session-files", _two_sessions),
    "duplicate-memory": _session(*[session_samples.memory(CANARY, SAID)] * 2),
    "embedding-size": _embedding([1.0]),
    "embedding-not-finite": _embedding([0.0, 0.0]),
    "shrunk": Case("user-document", _shrunk),
    "many-memories": Case("user-document", _file(DOCUMENT, _document(*[SAID] * 1000))),
    "change-was-undone": Case("user-document", _undone),
    "not-newest-first": _topic(_entry("2025-01-01"), _entry("2026-01-01"), line=6),
    "missing-labels": _topic(f"## 2026-01-01: {CANARY}\n{SAID}\n", line=1),
    "invalid-date": _topic(_entry("2026-02-31"), line=1),
    "glued-heading": _topic("---" + _entry("2026-01-01"), line=1),
    "unclosed-fence": _topic(_entry("2026-01-01"), f"```\n{SAID}\n", line=6),
    "oversize": _topic(_entry("2026-01-01", SAID * 300)),
    "secret-shape": _topic(_entry("2026-01-01", f"{SAID} {SECRET}"), line=4),
    "sensitive-word": _topic(_entry("2026-01-01", f"the password {SAID}"), line=4, sensitive_words=True),
    "state-lost": Case("jsonl-store", _no_journal),
    "package-missing": Case("jsonl-store", _no_model),
    "index-unmanaged": Case("markdown-topics", _unmanaged),
    "unlistable-name": _topic(_entry("2026-01-01"), path="a/`b`.md"),
}


@pytest.fixture
def make_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Case], Site]]:
    made: list[Site] = []

    def make(case: Case) -> Site:
        made.append(Site(tmp_path, case.layout, case.policy, monkeypatch))
        return made[-1]

    yield make
    for site in made:
        site.handles.close()
        site.store.close()


def only_code(findings: list[Finding]) -> None:
    for each in findings:
        assert CANARY not in each.message, f"{each.code} tells what a memory says: {each.message}"
        assert SECRET not in repr(shown("m", each))


def test_every_code_has_a_case() -> None:
    assert sorted(CASES) == sorted(CODES)


@pytest.mark.parametrize("code", sorted(CASES))
def test_is_reported_with_its_location_and_without_content(code: str, make_site: Callable[[Case], Site]) -> None:
    case = CASES[code]
    site = make_site(case)
    place = case.plant(site)
    site.sync()
    assert site.has(CANARY.encode())
    findings = check(site.store, site.now)
    found = [Place(each.path, each.line) for each in findings if each.code == code]
    assert found, f"{code} is not among {sorted({each.code for each in findings})}"
    assert place.path in {each.path for each in found}
    assert place.line is None or place in found
    only_code(findings)
    for each in findings:
        assert each.message


@pytest.mark.parametrize("text", [SAID, SECRET])
def test_canary_a_message_with_content_would_be_noticed(text: str) -> None:
    with pytest.raises(AssertionError):
        only_code([Finding("invalid-json", LEARNINGS, f"cannot read {text}")])


def test_sensitive_words_are_reported_in_indexed_files_once_enabled(make_site: Callable[[Case], Site]) -> None:
    """The setting changes how files are read, so what was read by the other one is read anew."""
    case = CASES["sensitive-word"]
    site = make_site(case._replace(policy=Policy()))
    place = case.plant(site)
    site.sync()
    assert check(site.store, site.now) == []
    for policy, found in ((case.policy, ["sensitive-word"]), (Policy(), [])):
        site.store.close()
        site.store = Store("m", str(site.root), case.layout, policy, site.store.state_dir)
        site.store.attach()
        site.sync()
        findings = check(site.store, site.now)
        assert [each.code for each in findings] == found
        assert {each.path for each in findings} <= {place.path}
