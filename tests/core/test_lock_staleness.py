"""Reading lock records in every known form, and the whole table of when a lock is stale."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.lock_owner import MAX_PID, MAX_RECORD, LockOwner, encode_owner, parse_owner
from memoryd.core.lock_staleness import Evidence, Kind, State, is_reused, judge, lock_time

NOW = 1_760_000_000.0
ISO = "2025-10-09T08:53:20Z"
NAMED = LockOwner(pid=4711, form="json")
NOBODY = parse_owner(b"rubbish")
NO_TEXT = parse_owner(b"")


def state(owner: LockOwner, age: float, kind: Kind = ".lock", *, taken: float = NOW, **facts: Any) -> State:
    evidence = Evidence(**{"age_s": age, "flock_free": True, "open_elsewhere": "no", **facts})
    verdict = judge(owner, evidence, kind=kind, stale_after=30, unreadable_after=300, lock_time=taken)
    assert verdict.evidence
    return verdict.state


DEAD = {"pid_alive": "dead"}
ALIVE = {"pid_alive": "alive", "process_started": NOW - 3600}
REUSED = {"pid_alive": "alive", "process_started": NOW + 2.5}
EPERM = {"pid_alive": "alive", "process_started": None}


@pytest.mark.parametrize(
    ("owner", "age", "facts", "kind", "expected"),
    [
        # the table as published
        (NAMED, 31, DEAD, ".lock", "stale"),
        (NAMED, 31, {**DEAD, "flock_free": False}, ".lock", "held"),
        (NAMED, 29, DEAD, ".lock", "held"),
        (NAMED, 31, ALIVE, ".lock", "held"),
        (NAMED, 31, REUSED, ".lock", "stale"),
        (NOBODY, 400, {}, ".lock", "stale"),
        (NOBODY, 400, {}, "soft", "unprovable"),
        (NO_TEXT, 31, {}, ".lock", "unprovable"),
        (NAMED, 31, EPERM, ".lock", "held"),
        (NAMED, 31, {**DEAD, "same_host": False}, ".lock", "unprovable"),
        # the bounds are strict
        (NAMED, 30, DEAD, ".lock", "held"),
        (NAMED, 30.001, DEAD, ".lock", "stale"),
        (NO_TEXT, 300, {}, ".lock", "unprovable"),
        (NO_TEXT, 300.001, {}, ".lock", "stale"),
        (NAMED, 31, {"pid_alive": "alive", "process_started": NOW + 2}, ".lock", "held"),
        # a clock that went back, or a stamp from the future
        (NAMED, -5000, DEAD, ".lock", "held"),
        # a flock that is held wins over everything
        (NOBODY, 4000, {"flock_free": False}, ".lock", "held"),
        (NAMED, 4000, {**REUSED, "flock_free": False}, "soft", "held"),
        # another machine
        (NAMED, 400, {**DEAD, "same_host": False}, ".lock", "stale"),
        (NAMED, 400, {**ALIVE, "same_host": False}, ".lock", "stale"),
        (NAMED, 400, {**DEAD, "same_host": False}, "soft", "unprovable"),
        (NAMED, 31, {**DEAD, "same_host": True}, ".lock", "stale"),
        (NAMED, 400, {**DEAD, "network_fs": True}, ".lock", "unprovable"),
        (NAMED, 400, {**ALIVE, "network_fs": True}, ".lock", "held"),
        (NOBODY, 400, {"network_fs": True}, ".lock", "unprovable"),
        # no process could be proved dead, watched on the caller's own clock
        (NOBODY, 400, {"watched_s": 5.0}, ".lock", "unprovable"),
        (NOBODY, 400, {"watched_s": 30.0}, ".lock", "stale"),
        (NAMED, 31, {**DEAD, "watched_s": 0.0}, ".lock", "stale"),
        # a system that does not tell
        (NAMED, 400, {"pid_alive": "unknown"}, ".lock", "unprovable"),
        # soft locks: the file's existence is the lock
        (NAMED, 31, DEAD, "soft", "stale"),
        (NAMED, 31, REUSED, "soft", "stale"),
        (NAMED, 29, DEAD, "soft", "held"),
        (NAMED, 31, ALIVE, "soft", "held"),
        (NAMED, 31, {**DEAD, "open_elsewhere": "yes"}, "soft", "held"),
        (NAMED, 31, {**DEAD, "open_elsewhere": "unknown"}, "soft", "unprovable"),
        (NAMED, 31, {**DEAD, "namesake": 99}, "soft", "unprovable"),
        (NAMED, 31, {**DEAD, "open_elsewhere": "yes"}, ".lock", "stale"),
        (NO_TEXT, 31, {}, "soft", "unprovable"),
    ],
)
def test_the_lock_table(owner: LockOwner, age: float, facts: dict[str, Any], kind: Kind, expected: str) -> None:
    assert state(owner, age, kind, **facts) == expected


def test_the_evidence_names_age_holder_reason_and_what_could_not_be_seen() -> None:
    evidence = Evidence(31.4, "dead", flock_free=True, open_elsewhere="no", skipped=7)
    found = judge(NAMED, evidence, kind="soft", stale_after=30, unreadable_after=300, lock_time=NOW)
    assert found.evidence == (
        "31 s old, names process 4711; no process holds its flock; process 4711 is gone, "
        "no process has the file open (7 processes could not be examined)"
    )


@pytest.mark.parametrize(
    ("content", "pid", "stamp", "host"),
    [
        (f'{{"pid":4711,"timestamp":"{ISO}"}}', 4711, NOW, None),
        (f'{{"pid": 4711, "started_at": "{ISO}"}}\n', 4711, NOW, None),
        ('{"pid":4711,"created_at":1760000000}', 4711, NOW, None),
        ('{"pid":4711,"created_at":1760000000000}', 4711, NOW, None),
        ('{"pid":4711,"time":1760000000.5}', 4711, NOW + 0.5, None),
        ('{"pid":"4711","time":"1760000000"}', 4711, NOW, None),
        ('{"pid":4711,"timestamp":"2025-10-09T10:53:20+02:00"}', 4711, NOW, None),
        ('{"pid":4711,"timestamp":"2025-10-09T08:53:20"}', 4711, None, None),
        ('{"pid":4711,"timestamp":"2025-10-09T08:53:20","time":1760000000}', 4711, NOW, None),
        ('{"pid":4711,"timestamp":12}', 4711, None, None),
        ('{"pid":4711,"timestamp":true,"host":"ada"}', 4711, None, "ada"),
        ('{"pid":4711,"hostname":"ada"}', 4711, None, "ada"),
        ('{"pid":4711,"host":"\\ud800"}', 4711, None, "\\ud800"),
        (f'{{"pid":4711,"timestamp":{"9" * 3000}}}', 4711, None, None),
        ("4711 1760000000", 4711, NOW, None),
        ("4711 1760000000.25\n", 4711, NOW + 0.25, None),
        (f"4711 {ISO}", 4711, NOW, None),
        ("4711 2025-10-09 08:53:20", 4711, None, None),
        ("4711:1760000000", 4711, NOW, None),
        (f"4711: {ISO}", 4711, NOW, None),
        ("4711\n1760000000\n", 4711, NOW, None),
        (f"4711\r\n{ISO}\r\n", 4711, NOW, None),
        ("4711\nada\n", 4711, None, "ada"),
        ("4711\nada\n79228162514264337593543950336\n", 4711, None, "ada"),
        ("4711\nada?pidns-4026531836\n1\n", 4711, None, "ada?pidns-4026531836"),
        ("4711", 4711, None, None),
        ("  4711\n", 4711, None, None),
        ("2", 2, None, None),
        (str(MAX_PID), MAX_PID, None, None),
        (f"4711, {ISO}", 4711, NOW, None),
        ("4711;1760000000", 4711, NOW, None),
        ("pid=4711 timestamp=1760000000", 4711, NOW, None),
        (f"PID: 4711\nTimestamp: {ISO}\n", 4711, NOW, None),
        (f"pid:4711,started_at={ISO}", 4711, NOW, None),
        (f"\ufeff4711\r\n{ISO}\r\n", 4711, NOW, None),
    ],
)
def test_every_known_form_is_read(content: str, pid: int, stamp: float | None, host: str | None) -> None:
    owner = parse_owner(content.encode())
    assert (owner.pid, owner.stamp, owner.host) == (pid, stamp, host)


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"rubbish",
            b"4711 rubbish",
            b"4711:",
            b"-4711",
            b"0",
            b"+4711",
            b"47.11",
            b"0x1f",
            b"4711,",
            b"time=4711",
            b"ppid=4711 time=1760000000",
            b"pid=ada",
            b"pid=4711 host=ada time=1760000000",
        ),
        *(b"1099511627776", str(MAX_PID + 1).encode(), "٤٧١١".encode(), b"\xff\xfe4711", b"4711\0"),
        *(
            b"{",
            b"[4711]",
            b"{}",
            b'{"pid":null}',
            b'{"pid":true}',
            b'{"pid":-1}',
            b'{"pid":1.5}',
            b'{"pid":[]}',
        ),
        *(b"4711\nada\nnot-a-token\n", b"4711\nada\n1\nmore\n", b"4711\nwhat is this\n", b"ada\n4711\n"),
        *(b"4711" + b" " * MAX_RECORD, b"[" * MAX_RECORD, b'{"pid":' * 500, b'{"pid":' + b"9" * 4000 + b"}"),
    ],
)
def test_anything_else_names_nobody(content: bytes) -> None:
    assert parse_owner(content) == LockOwner(form="unreadable")


@pytest.mark.parametrize("content", [b"", b"\n", b"  \r\n"])
def test_an_empty_file_is_no_rubbish(content: bytes) -> None:
    assert parse_owner(content) == LockOwner(form="empty")


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
_KEYS = st.sampled_from(["pid", "timestamp", "started_at", "created_at", "time", "host", "hostname"])
_WORDS = st.sampled_from(["4711", " ", ":", "\n", "-", ISO, "1760000000", "ada", "٣", "\r", "\x85", "9" * 5000])


@given(
    st.binary()
    | st.text().map(lambda text: text.encode("utf-8", "replace"))
    | st.lists(_WORDS).map(lambda words: "".join(words).encode())
    | st.dictionaries(_KEYS, _VALUES).map(lambda found: json.dumps(found).encode())
)
def test_reading_never_raises_and_never_names_init_or_a_group(content: bytes) -> None:
    owner = parse_owner(content)
    assert owner.pid is None or 1 <= owner.pid <= MAX_PID
    (owner.host or "").encode("ascii")
    assert owner.stamp is None or owner.stamp > 0


@given(st.integers(2, MAX_PID), st.floats(1e9, 4e9))
def test_our_own_record_is_read_back(pid: int, stamp: float) -> None:
    record = encode_owner(pid, stamp, "ada")
    owner = parse_owner(record)
    assert (owner.pid, owner.host, owner.form) == (pid, "ada", "json")
    assert owner.stamp == pytest.approx(stamp, abs=0.0011)
    assert json.loads(record)["owner"] == "memoryd"


def test_our_record_has_exactly_these_keys() -> None:
    assert encode_owner(4711, NOW, "ada") == (
        b'{"pid":4711,"timestamp":"2025-10-09T08:53:20.000Z","host":"ada","owner":"memoryd"}'
    )


def test_the_time_of_a_lock_is_the_later_one() -> None:
    assert lock_time(LockOwner(pid=5, stamp=10.0), 20.0) == 20.0
    assert lock_time(LockOwner(pid=5, stamp=30.0), 20.0) == 30.0
    assert lock_time(LockOwner(pid=5), 20.0) == 20.0


def test_reuse_needs_a_living_process_with_a_known_later_start() -> None:
    assert is_reused("alive", 12.5, 10.0)
    assert not is_reused("alive", 12.0, 10.0)
    assert not is_reused("alive", None, 10.0)
    assert not is_reused("dead", 99.0, 10.0)
