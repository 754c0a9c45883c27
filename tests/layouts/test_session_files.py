"""Session files: the five laws, every oddity of a session, what is said twice, and the archive of the months."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.core.dates import iso, parse_stamp
from memoryd.core.defaults import Policy
from memoryd.core.lock_owner import parse_owner
from memoryd.core.lock_staleness import Evidence, State, judge
from memoryd.core.plan import Kind, Plan
from memoryd.core.records import Document, FileStats, Record, Role
from memoryd.core.spans import sha256, splice
from memoryd.layouts.codes import CODES
from memoryd.layouts.protocol import Layout, LoadedFile, LockRule, UpkeepView
from memoryd.layouts.session_files import SESSION_FILES
from memoryd.layouts.session_files.names import aggregate_path
from memoryd.layouts.session_files.names import path_for_id as belongs
from memoryd.layouts.session_files.writer import merge_memory, new_session
from memoryd.operations.check import all_findings
from memoryd.operations.locks import sweep_locks
from memoryd.operations.refresh import refresh
from memoryd.operations.repair import repair
from memoryd.operations.undo import undo
from memoryd.operations.upkeep import archive, dedupe
from memoryd.store import Store
from tests.layouts.contract import (
    NOW,
    OLD,
    PARSED,
    PLANNED,
    Files,
    LayoutContract,
    carried_out,
    carry_out,
    document,
    index_of,
    on_disk,
    stores_on_disk,
    upkeep_view,
)
from tests.layouts.session_samples import TWENTY, memory, path_of, session, text

STORE = SESSION_FILES
ON = Policy(archive_sessions=True)
DAY = 86_400
ONE = "2026-01-30/14-30-00-fix-bug.json"
OLDEST = "2025-10-01-09-00-00-first-look"

LONG = f"We chose the pool because {TWENTY}"
TWICE = session(
    memory("Pool", LONG, confidence_score=60),
    memory("Pool", f"{LONG} indeed", confidence_score=90),
    memory("Pool", "Something else entirely: measure before tuning.", confidence_score=70),
    memory("東京 é", "数据库设置 は 東京 😀"),
    name="2026-01-29-08-00-00-pool",
)

TENDED: Files = {
    ONE: text(session(memory(), memory("Another", "thing"))),
    path_of(TWICE["session_id"]): text(TWICE),
    path_of(OLDEST): text(session(memory("Old", LONG), memory("Older"), name=OLDEST)),
    path_of("2025-10-02-10-00-00-second"): text(session(memory("Old", LONG), name="2025-10-02-10-00-00-second")),
    path_of("2025-11-02-10-00-00-empty"): text(session(name="2025-11-02-10-00-00-empty")),
    "archive/2025-09/2025-09-01-10-00-00-gone.json": text(session(memory("Gone"), name="2025-09-01-10-00-00-gone")),
}

DAMAGED: Files = {
    "2025-09-03/10:00:00-colons.json": text(
        session(memory(), "no object", memory("Two"), 3, name="2025-09-03-10-00-00-x")
    ),
    "2025-09-04/10-00-00-bom.json": b"\xef\xbb\xbf"
    + text(session(memory(), memory(), memory(), name="2025-09-04-10-00-00-bom")),
    "2025-09-05/10-00-00-torn.json": text(session(memory(), name="2025-09-05-10-00-00-torn")) + b"se\n}\n",
    "2025-09-06/10-00-00-cut.json": text(session(memory(), name="2025-09-06-10-00-00-cut"))[:-40],
    "2025-09-07/10-00-00-list.json": b"[]\n",
    "2025-09-08/10-00-00-nan.json": text(
        session(memory(confidence_score=float("nan")), name="2025-09-08-10-00-00-nan")
    ),
    "2025-09-09/10-00-00-bare.json": b'{"memories":[{},{"title":"a"},{"title":"a"}]}',
}


def nothing(path: str) -> bytes | None:
    """An empty archive."""
    del path
    return None


def archive_of(files: Files, ids: set[str] | None = None, policy: Policy = ON, now: float = NOW) -> Plan:
    return STORE.upkeep.archive(upkeep_view(STORE, files, policy, now), ids)


def dedupe_of(files: Files, threshold: float | None = None) -> Plan:
    return STORE.upkeep.dedupe(upkeep_view(STORE, files, Policy()), threshold)


class TestContract(LayoutContract):
    layout: ClassVar[Layout] = STORE
    samples: ClassVar[Sequence[Mapping[str, bytes]]] = (TENDED, DAMAGED)

    def gap_bytes(self, data: bytes) -> bytes:
        return re.sub(rb"[\s,]", b"", data)  # the comma goes with its element

    def same_memory(self, live: bytes, archived: bytes) -> bool:
        return live == archived

    def archived_texts(self, path: str, archive: bytes) -> list[bytes]:
        return [record.span.of(archive) for record in document(STORE, path, archive).records]

    def _archive_plan(self, files: Files) -> Plan:
        return archive_of(files)

    def _draw_plan(self, data: st.DataObject) -> tuple[Callable[[Files], Plan], Files]:
        files = self._draw_store(data)
        if data.draw(st.booleans()):
            return lambda now: archive_of(now), files
        known = [each.id for each in self._live(files)] or ["none"]
        ids = data.draw(st.sets(st.sampled_from(known)))
        return lambda now: archive_of(now, ids), files

    @PARSED
    @given(data=st.data())
    def test_tiling_a_span_alone_reads_as_its_record(self, data: st.DataObject) -> None:
        """A memory alone in its session parses to the same record, except for the suffix of a duplicate id."""
        path, source = self._draw_file(data)
        found = document(STORE, path, source)
        for record in found.records:
            header = json.dumps({"session_id": record.facts["session"]})[:-1].encode()
            (again,) = document(STORE, path, header + b',"memories":[' + record.span.of(source) + b"]}").records
            assert re.sub(r"(~[0-9a-f]{6})?(\.\d+)?$", "", record.id) == again.id
            assert (again.type, again.title, again.tags, again.facts) == (
                record.type,
                record.title,
                record.tags,
                record.facts,
            )

    @PLANNED
    @given(data=st.data())
    def test_surgery_only_what_is_moved_changes(self, data: st.DataObject) -> None:
        decide, files = self._draw_plan(data)
        plan = decide(files)
        after = carried_out(files, plan)
        for action in plan.actions:
            if action.kind is Kind.CREATE or action.copy:
                assert STORE.reader.role(action.path) in (Role.ARCHIVE, Role.INDEX)
                continue
            before = document(STORE, action.path, files[action.path])
            if action.kind is Kind.REMOVE:
                assert list(action.ids) == [each.id for each in before.records]
                assert action.path not in after
                continue
            now = document(STORE, action.path, after[action.path])
            stay = [each.span.of(files[action.path]) for each in before.records if each.id not in action.ids]
            assert [each.span.of(after[action.path]) for each in now.records] == stay
            assert self._gaps(now, after[action.path]) == self._gaps(before, files[action.path])
        assert {path for path in after if after[path] != files.get(path)} <= {each.path for each in plan.actions}

    @PLANNED
    @given(data=st.data())
    def test_dedupe_keeps_a_version_of_everything_and_is_done_at_once(self, data: st.DataObject) -> None:
        """Surgery, fixpoint, conservation: duplicates go to quarantine, other memories keep their bytes."""
        files = self._draw_store(data)
        plan = dedupe_of(files)
        after = carried_out(files, plan)
        assert not dedupe_of(after)
        for action in plan.actions:
            before = document(STORE, action.path, files[action.path])
            now = document(STORE, action.path, after[action.path])
            aside = [span.of(files[action.path]) for span in action.quarantine]
            kept = [each.span.of(after[action.path]) for each in now.records]
            assert sorted([*aside, *kept]) == sorted(each.span.of(files[action.path]) for each in before.records)
            assert self._gaps(now, after[action.path]) == self._gaps(before, files[action.path])
            assert len(action.ids) == len(aside) == len(action.reasons)


def read(native: Any, path: str = ONE, **when: float) -> Document:
    return document(STORE, path, native if isinstance(native, bytes) else text(native), **when)


def codes(found: Document) -> list[str]:
    return [finding.code for finding in found.findings]


def ids(found: Document) -> list[str]:
    return [record.id for record in found.records]


# --- paths and roles


class TestRoles:
    @pytest.mark.parametrize(
        ("path", "role"),
        [
            (ONE, Role.SOURCE),
            ("2026-01-30/14:30:00-fix-bug.json", Role.SOURCE),
            ("2026-01-30/14-30-00-東京 x.json", Role.SOURCE),
            ("2026-01-30/notes.json", Role.FOREIGN),
            ("2026-01-30/14-30-00.json", Role.FOREIGN),
            ("2026-01/14-30-00-x.json", Role.FOREIGN),
            ("14-30-00-x.json", Role.FOREIGN),
            ("deeper/2026-01-30/14-30-00-x.json", Role.FOREIGN),
            ("archive/2026-01/2026-01-30-14-30-00-fix-bug.json", Role.ARCHIVE),
            ("archive/2026-01-30/14-30-00-fix-bug.json", Role.ARCHIVE),
            ("archive/aggregate/2026-01.json", Role.INDEX),
            (".quarantine/14-30-00-x.json", Role.FOREIGN),
            ("archive.log", Role.FOREIGN),
            (".archive.lock", Role.LOCK),
            ("2026-01-30/14-30-00-fix-bug.json.tmp", Role.TEMP),
            ("archive/aggregate/2026-01.json.tmp", Role.TEMP),
        ],
    )
    def test_only_date_directories_hold_sessions(self, path: str, role: Role) -> None:
        assert STORE.reader.role(path) is role

    def test_the_jobs_and_the_lock_of_the_archiver(self) -> None:
        assert STORE.jobs == ("dedupe", "archive", "backup", "locks", "verify", "rescan")
        assert STORE.files.locks == (LockRule(".archive.lock", "soft"),)
        assert (STORE.files.lock, STORE.files.backup_dir, STORE.index.paths) == (None, None, ())

    def test_the_path_of_a_session_id(self) -> None:
        """Date and time are the first characters of the session's start."""
        assert belongs("2026-01-30-14-30-00-fix-bug") == ONE
        assert belongs("fix-bug") is None


# --- reading


class TestReading:
    def test_a_session_as_the_seed_shows_it_is_sound(self) -> None:
        found = read(session(memory(), memory("Another", type="gap", category="code")))
        assert found.findings == ()
        assert (found.units, found.broken, found.pending) == (2, 0, False)
        assert ids(found) == [
            "2026-01-30-14-30-00-fix-bug#decision:use-msgspec",
            "2026-01-30-14-30-00-fix-bug#gap:another",
        ]
        record = found.records[0]
        assert (record.type, record.title, record.archived) == ("decision", "Use msgspec", False)
        assert record.tags == ("pytest", "memoryd")
        assert record.created == parse_stamp("2026-01-30T14:30:00Z").seconds  # type: ignore[union-attr]  # a stamp
        assert record.line == 7
        assert json.loads(record.span.of(text(session(memory(), memory("Another"))))) == memory()

    def test_spans_hold_each_memory_verbatim(self) -> None:
        source = b'{"session_id" :"s", "memories":[ {"type":"gap", "title":"\\u0041" } ,{"title":"]}"}]}'
        assert [each.span.of(source) for each in read(source).records] == [
            b'{"type":"gap", "title":"\\u0041" }',
            b'{"title":"]}"}',
        ]

    def test_equal_titles_get_different_ids_by_their_bytes(self) -> None:
        first, second = memory(content="a"), memory(content="b")
        found = ids(read(session(first, second, second)))
        base = "2026-01-30-14-30-00-fix-bug#decision:use-msgspec~"
        assert all(re.fullmatch(re.escape(base) + r"[0-9a-f]{6}(\.2)?", each) for each in found)
        assert found[2] == f"{found[1]}.2"
        assert len(set(found)) == 3
        assert ids(read(session(second, first)))[1] == found[0]  # its position means nothing

    def test_an_unparsable_fresh_file_is_waited_for(self) -> None:
        for cut in (b"", b"{", text(session(memory()))[:-30]):
            found = read(cut, mtime=NOW - 1)
            assert (found.pending, found.findings, found.records) == (True, (), ())

    @pytest.mark.parametrize("data", [b"", b"  \n", b"{", b"\0" * 100, b"\xff\xfe", text(session(memory()))[:-30]])
    def test_an_unparsable_still_file_is_reported(self, data: bytes) -> None:
        found = read(data)
        assert codes(found) == ["broken-session"]
        assert (found.pending, found.units, found.broken) == (False, 1, 1)

    @pytest.mark.parametrize("data", [b"[]", b"{}", b'{"memories": {}}', b'"text"', b"3", b"null"])
    def test_valid_json_of_the_wrong_shape_is_reported_and_left(self, data: bytes) -> None:
        found = read(data)
        assert codes(found) in (["wrong-shape"], ["broken-session"])
        assert codes(found) == ["wrong-shape"] or not data.startswith((b"[", b"{"))
        files = {ONE: data}
        assert not archive_of(files, now=NOW + 400 * DAY)

    def test_the_end_of_an_older_text_does_not_hide_the_session(self) -> None:
        found = read(text(session(memory())) + b"se\n}\n")
        assert codes(found) == ["torn-file"]
        assert len(found.records) == 1
        assert codes(read(text(session(memory())) + text(session(memory("B"))))) == ["second-object"]
        assert read(text(session(memory())) + b"se\n}\n", mtime=NOW - 1).pending

    def test_what_only_pythons_parser_reads_is_read(self) -> None:
        found = read(b'{"memories":[{"type":"gap","title":"\\ud800","content":"x","confidence_score":NaN}]}')
        assert len(found.records) == 1
        json.dumps(found.records[0].id).encode()
        assert found.records[0].facts["confidence"] == 0.0

    def test_of_two_lists_the_last_counts(self) -> None:
        found = read(b'{"memories":[{"title":"a"}],"memories":[{"title":"b"}]}')
        assert [each.title for each in found.records] == ["b"]
        assert "duplicate-key" in codes(found)

    def test_a_byte_order_mark_is_reported(self) -> None:
        found = read(b"\xef\xbb\xbf" + text(session(memory())))
        assert codes(found) == ["byte-order-mark"]
        assert len(found.records) == 1


class TestFindings:
    def one(self, found: Document) -> tuple[str, str, str]:
        (finding,) = found.findings
        return finding.code, str(CODES[finding.code].severity), finding.message

    @pytest.mark.parametrize(("score", "bad"), [(50, False), (100, False), (49, True), (101, True), (49.5, True)])
    def test_confidence_is_50_to_100(self, score: float, bad: bool) -> None:
        found = read(session(memory(confidence_score=score)))
        assert codes(found) == (["schema-bound"] if bad else [])
        assert len(found.records) == 1  # never deleted

    def test_a_title_has_100_characters(self) -> None:
        assert read(session(memory("x" * 100))).findings == ()
        found = read(session(memory("é" * 101)))
        assert self.one(found)[:2] == ("schema-bound", "warning")
        assert found.records[0].title == "é" * 101  # never cut

    @pytest.mark.parametrize(
        "fields", [{"type": "hunch"}, {"category": "cooking"}, {"related_entities": [{"type": "planet", "raw": "x"}]}]
    )
    def test_the_lists_are_open(self, fields: dict[str, Any]) -> None:
        """The seed's dots: a value outside is worth knowing, and no error."""
        assert self.one(read(session(memory(**fields))))[:2] == ("unknown-value", "info")

    @pytest.mark.parametrize(
        "fields",
        [
            {"title": 3},
            {"content": None},
            {"source_chunk": ["x"]},
            {"reasoning": 3},
            {"tools_mentioned": "x"},
            {"urls_mentioned": [3]},
            {"alternatives": [{"option": "x"}]},
            {"related_entities": [{"type": "person", "raw": "x", "slug": 3}]},
            {"related_entities": "x"},
            {"confidence_score": "high"},
            {"confidence_score": True},
        ],
    )
    def test_a_field_of_another_kind_is_reported_and_the_memory_preserved(self, fields: dict[str, Any]) -> None:
        found = read(session(memory(**fields)))
        assert codes(found) == ["field-type"]
        assert len(found.records) == 1

    def test_an_element_that_is_not_an_object_is_skipped_and_preserved(self) -> None:
        found = read(session(memory(), "x", memory("B")))
        assert codes(found) == ["invalid-schema"]
        assert (found.units, found.broken, len(found.records)) == (3, 1, 2)

    def test_colons_in_a_name_are_read_and_reported(self) -> None:
        found = read(session(memory()), "2026-01-30/14:30:00-fix-bug.json")
        assert self.one(found)[:2] == ("colon-name", "warning")
        assert ids(found) == ["2026-01-30-14-30-00-fix-bug#decision:use-msgspec"]

    def test_both_forms_of_a_stamp_are_read(self) -> None:
        found = read(session(memory(), timestamp="2026-01-30-14-30-00"))
        assert found.findings == ()
        assert found.records[0].created == parse_stamp("2026-01-30T14:30:00Z").seconds  # type: ignore[union-attr]  # a stamp

    def test_other_digits_than_the_path_are_a_warning_only(self) -> None:
        assert self.one(read(session(memory(), timestamp="2026-01-30T13:30:00Z")))[:2] == ("stamp-differs", "warning")
        assert self.one(read(session(memory(), session_id="2026-01-30-14-30-01-fix-bug")))[0] == "stamp-differs"

    @pytest.mark.parametrize("fields", [{"timestamp": None}, {"last_updated": "soon"}])
    def test_absent_dates_are_reported(self, fields: dict[str, Any]) -> None:
        assert self.one(read(session(memory(), **fields)))[:2] == ("missing-date", "warning")

    def test_a_stamp_in_the_future_is_reported(self) -> None:
        assert self.one(read(session(memory(), last_updated="2027-01-01T00:00:00Z")))[0] == "future-stamp"

    @pytest.mark.parametrize("fields", [{"session_id": None}, {"extraction_count": "1"}, {"suggestions": {}}])
    def test_the_sessions_own_fields(self, fields: dict[str, Any]) -> None:
        found = read(session(memory(), **fields))
        assert self.one(found)[0] == "field-type"
        assert found.records[0].id.startswith("2026-01-30-14-30-00-fix-bug#")

    def test_a_duplicate_memory_is_reported(self) -> None:
        found = read(TWICE, path_of(TWICE["session_id"]))
        assert codes(found) == ["duplicate-memory"]

    def test_no_message_holds_what_a_memory_says(self) -> None:
        secret = "hunter2"
        native = memory(secret * 30, secret, type=secret, category=secret, confidence_score=secret, alternatives=secret)
        found = read(session(native, native, secret, timestamp=secret, suggestions=secret))
        assert len(found.findings) > 8
        assert not any(secret in finding.message for finding in found.findings)

    def test_an_archived_session_is_history(self) -> None:
        found = read(session(memory("x" * 200)), "archive/2026-01/2026-01-30-14-30-00-fix-bug.json")
        assert found.findings == ()
        assert [each.archived for each in found.records] == [True]

    def test_the_same_session_in_two_files(self) -> None:
        again = "2026-01-30/14:30:00-fix-bug.json"
        result = index_of(STORE, {ONE: text(session(memory())), again: text(session(memory()))})
        assert [(each.code, each.path) for each in result.findings] == [("duplicate-session", again)]

    def test_the_counts_of_a_directory(self) -> None:
        """Archived sessions count apart; the aggregate, which repeats them, counts nowhere."""
        files = {**TENDED, "archive/aggregate/2025-09.json": text({"sessions": [session(memory())]})}
        result = index_of(STORE, files)
        assert (result.memories, result.archived, dict(result.by_type)) == (9, 1, {"decision": 9})
        assert dict(result.files) == {}


# --- merging what is said twice


def merged(*memories: dict[str, Any], threshold: float | None = None) -> tuple[list[Any], Plan]:
    files = {ONE: text(session(*memories))}
    plan = dedupe_of(files, threshold)
    return json.loads(carried_out(files, plan)[ONE])["memories"], plan


def pair(shared: int, together: int) -> tuple[str, str]:
    """Two texts of which one holds the other, so that they share `shared` of `together` words."""
    words = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(together)]
    return " ".join(words), " ".join(words[:shared])


class TestDedupe:
    def test_both_conditions_must_hold(self) -> None:
        """Type and title, and more than 0.85 of the words: 17 of 20 is not more, 18 of 21 is."""
        a, b = pair(18, 21)
        assert len(merged(memory("T", a), memory("T", b))[0]) == 1
        assert len(merged(memory("T", a), memory("U", b))[0]) == 2
        assert len(merged(memory("T", a), memory("T", b, type="gap"))[0]) == 2
        a, b = pair(17, 20)
        assert len(merged(memory("T", a), memory("T", b))[0]) == 2

    def test_a_changed_number_is_not_a_duplicate(self) -> None:
        assert len(merged(memory("T", f"{LONG} 10"), memory("T", f"{LONG} 40"))[0]) == 2

    def test_the_higher_confidence_is_kept_whole_in_the_earlier_place(self) -> None:
        first = memory("T", LONG, confidence_score=60, reasoning="only here")
        between = memory("B")
        second = memory("T", f"{LONG} too", confidence_score=61)
        kept, plan = merged(first, between, second)
        assert kept == [second, between]
        (action,) = plan.actions
        source = text(session(first, between, second))
        assert [json.loads(span.of(source)) for span in action.quarantine] == [first]
        assert action.reasons[0].endswith("(confidence 60 against 61)")

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (80, 80),
            (80, 70),
            (0, "high"),
            (95, "90"),
            ("95", "95"),
            (0, "nan"),
            (80, None),
            (None, None),
            (-1, -5),
            (0.5, True),
        ],
    )
    def test_a_tie_keeps_the_earlier_one(self, first: object, second: object) -> None:
        """What is missing or no number counts as 0."""
        a, b = memory("T", LONG, confidence_score=first), memory("T", f"{LONG} too", confidence_score=second)
        assert merged(a, b)[0] == [a]

    def test_a_number_in_a_string_is_a_number(self) -> None:
        a, b = memory("T", LONG, confidence_score=50), memory("T", f"{LONG} too", confidence_score="90")
        assert merged(a, b)[0] == [b]

    def test_others_with_the_same_title_stay(self) -> None:
        """The published command removes every memory of that title."""
        a, b, c = memory("T", LONG), memory("T", "quite another thing"), memory("T", f"{LONG} too", confidence_score=99)
        assert merged(a, b, c)[0] == [c, b]

    def test_it_goes_to_the_most_similar_one(self) -> None:
        words = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)]
        far, near, new = (" ".join(words[n : n + 40]) for n in (0, 4, 3))
        plan = merged(memory("T", far), memory("T", near), memory("T", new, confidence_score=50))[1]
        ids_ = ids(read(session(memory("T", far), memory("T", near), memory("T", new, confidence_score=50))))
        assert plan.actions[0].ids == (ids_[2],)
        assert plan.actions[0].reasons[0].startswith(f"duplicate of {ids_[1]} ")

    def test_no_memory_goes_for_one_that_goes_too(self) -> None:
        """The middle one is like both ends, the ends are not like each other."""
        words = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)]
        first, middle, last = (memory("T", " ".join(words[n : n + 40]), confidence_score=60 + n) for n in (0, 3, 6))
        assert merged(first, middle, last)[0] == [first, last]

    def test_texts_without_words_must_be_equal(self) -> None:
        assert len(merged(memory("T", "!!!"), memory("T", "!!!"))[0]) == 1
        assert len(merged(memory("T", "!!!"), memory("T", "???"))[0]) == 2

    def test_everything_else_in_the_file_stays_to_the_byte(self) -> None:
        source = (
            b'{ "session_id":"s",\n\t"x": 1.50, "memories" : [ {"type":"a","title":"t","content":"one two"} ,\n'
            b'   {"type":"a","title":"u","content":"\\u00e9"},{"type":"a","title":"t","content":"two one","n":1e2}  ]'
            b',"extraction_count":7, "last_updated":"never", "suggestions":[{"a":1}]}'
        )
        files = {ONE: source}
        assert carried_out(files, dedupe_of(files))[ONE] == (
            b'{ "session_id":"s",\n\t"x": 1.50, "memories" : [ {"type":"a","title":"t","content":"one two"} ,\n'
            b'   {"type":"a","title":"u","content":"\\u00e9"}  ]'
            b',"extraction_count":7, "last_updated":"never", "suggestions":[{"a":1}]}'
        )

    def test_the_style_is_kept(self) -> None:
        """Two spaces, a final newline, nothing escaped, keys in order; count and date of extraction untouched."""
        kept = TWICE["memories"][1]
        files = {ONE: text(TWICE)}
        after = carried_out(files, dedupe_of(files))[ONE]
        assert after == text({**TWICE, "memories": [kept, *TWICE["memories"][2:]]})

    def test_the_bound_is_a_setting(self) -> None:
        a, b = pair(17, 20)
        assert len(merged(memory("T", a), memory("T", b), threshold=0.8)[0]) == 1
        a, b = pair(18, 21)
        assert len(merged(memory("T", a), memory("T", b), threshold=0.9)[0]) == 2

    def test_a_damaged_file_is_left_alone(self) -> None:
        assert not dedupe_of({ONE: text(TWICE) + b"se\n}"})

    def test_no_schedule_merges_again_what_an_undo_brought_back(self) -> None:
        data = text(TWICE)
        found = read(data)
        held = frozenset({sha256(found.records[0].span.of(data))})
        live = {ONE: LoadedFile(data, found, OLD)}
        assert not STORE.upkeep.dedupe(UpkeepView(live, nothing, Policy(), NOW, held, unattended=True), None)
        assert STORE.upkeep.dedupe(UpkeepView(live, nothing, Policy(), NOW, held), None)


# --- the archive


def created(plan: Plan) -> list[str]:
    return [action.path for action in plan.actions if action.kind is Kind.CREATE]


def removed(plan: Plan) -> list[str]:
    return [action.path for action in plan.actions if action.kind is Kind.REMOVE]


def aged(days: float, name: str = "2025-10-01-09-00-00-x", **fields: Any) -> dict[str, Any]:
    updated = NOW - days * DAY
    return session(memory(), name=name, last_updated=iso(updated), **fields)


class TestArchive:
    def test_off_unless_it_is_wanted(self) -> None:
        assert not archive_of(TENDED, policy=Policy())

    @pytest.mark.parametrize(("days", "goes"), [(59.9, False), (60, False), (60.001, True), (400, True)])
    def test_sixty_days_by_last_updated(self, days: float, goes: bool) -> None:
        native = aged(days)
        path = path_of(native["session_id"])
        assert bool(archive_of({path: text(native)})) is goes

    def test_without_last_updated_the_stamp_counts_then_the_file(self) -> None:
        path = path_of(OLDEST)
        assert archive_of({path: text(session(memory(), name=OLDEST, last_updated=None))})
        none = text(session(memory(), name=OLDEST, last_updated=None, timestamp=None))
        assert not archive_of({path: none})  # the file is an hour old
        old = LoadedFile(none, document(STORE, path, none, mtime=NOW - 61 * DAY), NOW - 61 * DAY)
        assert STORE.upkeep.archive(UpkeepView({path: old}, nothing, ON, NOW), None)

    def test_a_stamp_in_the_future_never_goes(self) -> None:
        native = session(memory(), name=OLDEST, last_updated=iso(NOW + 1000 * DAY))
        assert not archive_of({path_of(OLDEST): text(native)})

    @pytest.mark.parametrize(
        ("stamp", "month"),
        [
            ("2025-09-30T23:59:59Z", "2025-09"),
            ("2025-10-01T00:30:00+02:00", "2025-09"),
            ("2025-10-01T00:00:00Z", "2025-10"),
            ("2025-09-30-23-59-59", "2025-09"),
        ],
    )
    def test_the_month_is_that_of_the_stamp_in_utc(self, stamp: str, month: str) -> None:
        native = session(memory(), name=OLDEST, timestamp=stamp, last_updated="2025-11-11T00:00:00Z")
        plan = archive_of({path_of(OLDEST): text(native)})
        assert created(plan) == [f"archive/{month}/{OLDEST}.json", f"archive/aggregate/{month}.json"]

    @pytest.mark.parametrize("letter", ["x", "é", "\udcff"])
    def test_a_name_that_the_date_makes_too_long_is_cut(self, letter: str) -> None:
        """Else the system refuses the copy, and with it every archive of the root."""
        bare = "2025-10-01-09-00-00-"
        longest = bare + (letter * 241)[: 241 // len(os.fsencode(letter))]
        files = {path_of(longest): text(session(memory(), name=bare + "long", last_updated=f"{bare[:10]}T00:00:00Z"))}
        assert len(os.fsencode(path_of(longest).rpartition("/")[2])) in (254, 255)
        copy, aggregate = created(archive_of(files))
        assert aggregate == "archive/aggregate/2025-10.json"
        assert copy.startswith(f"archive/2025-10/{bare}{letter}")
        assert len(os.fsencode(copy.rpartition("/")[2])) <= 250
        other = {**files, copy: b"another"}
        assert len(os.fsencode(created(archive_of(other))[0].rpartition("/")[2])) <= 255

    def test_copies_then_the_aggregate_then_the_file_goes(self) -> None:
        plan = archive_of(TENDED)
        kinds = [(str(action.kind), action.path) for action in plan.actions]
        assert kinds == [
            ("create", "archive/2025-10/2025-10-01-09-00-00-first-look.json"),
            ("create", "archive/2025-10/2025-10-02-10-00-00-second.json"),
            ("create", "archive/aggregate/2025-10.json"),
            ("remove", "2025-10-01/09-00-00-first-look.json"),
            ("remove", "2025-10-02/10-00-00-second.json"),
            ("create", "archive/2025-11/2025-11-02-10-00-00-empty.json"),
            ("create", "archive/aggregate/2025-11.json"),
            ("remove", "2025-11-02/10-00-00-empty.json"),
        ]
        after = carried_out(TENDED, plan)
        assert after["archive/2025-10/2025-10-01-09-00-00-first-look.json"] == TENDED[path_of(OLDEST)]

    def test_the_aggregate_is_the_archivers_own_to_the_byte(self) -> None:
        after = carried_out(TENDED, archive_of(TENDED))
        wanted = {
            "month": "2025-10",
            "generated_at": "2026-01-31T10:00:00.000Z",
            "retention_days": 60,
            "sessions": [json.loads(TENDED[path_of(name)]) for name in (OLDEST, "2025-10-02-10-00-00-second")],
            "deduped_memories": [
                {
                    "type": "decision",
                    "category": "technical",
                    "title": title,
                    "content": content,
                    "confidence_score": 80,
                    "source_session_ids": sources,
                }
                for title, content, sources in (
                    ("Old", LONG, [OLDEST, "2025-10-02-10-00-00-second"]),
                    ("Older", "It is fast.", [OLDEST]),
                )
            ],
            "stats": {"session_count": 2, "memory_count": 3, "deduped_count": 2},
        }
        assert after["archive/aggregate/2025-10.json"] == text(wanted)

    def test_an_aggregate_is_added_to_and_keeps_what_it_has(self) -> None:
        known = session(memory("Before", "1.50 is no float here"), name="2025-10-09-10-00-00-known")
        held = {"month": "2025-10", "extra": 1.5, "sessions": [known], "stats": {}}
        files = {**TENDED, "archive/aggregate/2025-10.json": text(held)}
        after = carried_out(files, archive_of(files))["archive/aggregate/2025-10.json"]
        found = json.loads(after)
        assert [each["session_id"] for each in found["sessions"]] == [
            "2025-10-09-10-00-00-known",
            OLDEST,
            "2025-10-02-10-00-00-second",
        ]
        assert after.startswith(text(held).partition(b'    "session_id"')[0])
        assert (found["extra"], found["stats"]["session_count"]) == (1.5, 3)

    @pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"{}", b'{"sessions": {}}', text({"sessions": []}) + b"x"])
    def test_an_aggregate_that_cannot_be_read_is_never_replaced(self, broken: bytes) -> None:
        """The archiver puts an empty one in its place; here the month waits, the other months go on."""
        files = {**TENDED, "archive/aggregate/2025-10.json": broken}
        plan = archive_of(files)
        assert removed(plan) == ["2025-11-02/10-00-00-empty.json"]
        assert [note.path for note in plan.notes] == ["archive/aggregate/2025-10.json"]
        assert carried_out(files, plan)["archive/aggregate/2025-10.json"] == broken

    def test_a_crash_at_any_moment_ends_the_same(self) -> None:
        plan = archive_of(TENDED)
        done = carried_out(TENDED, plan)
        for left in carry_out(TENDED, plan):
            assert carried_out(left, archive_of(left)) == done

    def test_a_taken_name_gets_a_number(self) -> None:
        target = f"archive/2025-10/{OLDEST}.json"
        files = {**TENDED, target: b"another", f"archive/2025-10/{OLDEST}-1.json": b"one more"}
        assert f"archive/2025-10/{OLDEST}-2.json" in created(archive_of(files))
        files[target] = files[path_of(OLDEST)]
        assert not any(OLDEST in path for path in created(archive_of(files)))
        assert path_of(OLDEST) in removed(archive_of(files))

    def test_at_most_200_leave_the_oldest_first(self) -> None:
        names = [f"2025-06-{1 + n // 24:02}-{n % 24:02}-00-00-s" for n in range(230)]
        files = {path_of(name): text(session(name=name)) for name in reversed(names)}
        gone = removed(archive_of(files))
        assert sorted(gone) == sorted(path_of(name) for name in names[:200])

    def test_what_only_pythons_parser_reads_stays_out_of_the_aggregate(self) -> None:
        """Its owner could read nothing of the month any more."""
        name = "2025-09-08-10-00-00-nan"
        files = {path_of(name): text(session(memory(confidence_score=float("nan")), name=name))}
        assert created(archive_of(files)) == [f"archive/2025-09/{name}.json"]

    def test_a_damaged_session_stays(self) -> None:
        assert not archive_of({path_of(OLDEST): TENDED[path_of(OLDEST)] + b"se\n}\n"})

    def test_no_schedule_archives_again_what_an_undo_brought_back(self) -> None:
        path, data = path_of(OLDEST), TENDED[path_of(OLDEST)]
        live = {path: LoadedFile(data, read(data, path), OLD)}
        held = frozenset({sha256(data)})
        assert not STORE.upkeep.archive(UpkeepView(live, nothing, ON, NOW, held, unattended=True), None)
        assert STORE.upkeep.archive(UpkeepView(live, nothing, ON, NOW, held), None)

    def test_one_memory_by_name_takes_the_session_apart(self) -> None:
        files = {ONE: text(session(memory(), memory("B"), memory("C")))}
        (wanted,) = [each for each in ids(read(files[ONE])) if each.endswith(":b")]
        plan = archive_of(files, {wanted}, Policy())
        after = carried_out(files, plan)
        assert after[ONE] == text(session(memory(), memory("C")))
        target = "archive/2026-01/2026-01-30-14-30-00-fix-bug.json"
        assert after[target] == text(session(memory("B")))
        assert ids(read(after[target], target)) == [wanted]
        rest = set(ids(read(after[ONE])))
        later = carried_out(after, archive_of(after, rest, Policy()))
        assert ONE not in later
        assert later[target.replace(".json", "-1.json")] == after[ONE]
        (known,) = json.loads(later[aggregate_path("2026-01")])["sessions"]
        assert [each["title"] for each in known["memories"]] == ["B", "Use msgspec", "C"]

    def test_upkeep_reads_what_may_be_due_and_no_more(self) -> None:
        def summary(number: int, twins: int) -> FileStats:
            path = path_of(f"2026-01-{1 + number // 24:02}-{number % 24:02}-00-00-s")
            return FileStats(path, Role.SOURCE, 9, 2, 0, 2, {"basis": float(number), "twins": twins})

        files = {each.path: each for each in (summary(n, n % 100 == 99) for n in range(600))}
        found = STORE.upkeep.paths(files)
        assert len(found) == 402
        assert STORE.upkeep.paths({"x": FileStats("x", Role.ARCHIVE, 9, 2, 0, 2, {})}) == ()


# --- storing


class TestStoring:
    def merge(self, source: dict[str, Any], new: dict[str, Any]) -> tuple[dict[str, Any], str, int]:
        data = text(source)
        done = merge_memory(data, new, NOW)
        assert done is not None
        after = splice(data, done.edits)
        assert after == text(json.loads(after))  # its own style
        return json.loads(after), done.outcome, done.position

    def test_a_new_memory_is_added_and_counted(self) -> None:
        after, outcome, place = self.merge(session(memory()), memory("é B", "ünï"))
        assert (outcome, place) == ("added", 1)
        assert after == session(memory(), memory("é B", "ünï"), last_updated="2026-01-31T10:00:00Z", extraction_count=2)

    def test_into_an_empty_session(self) -> None:
        assert self.merge(session(), memory())[0]["memories"] == [memory()]

    def test_the_same_with_more_confidence_replaces_it(self) -> None:
        new = memory("T", f"{LONG} too", confidence_score=90)
        after, outcome, place = self.merge(session(memory("T", "else"), memory("T", LONG)), new)
        assert (outcome, place, after["memories"]) == ("replaced", 1, [memory("T", "else"), new])

    @pytest.mark.parametrize("score", [80, 79, None])
    def test_the_same_with_no_more_confidence_is_still_an_extraction(self, score: int | None) -> None:
        after, outcome, _ = self.merge(session(memory("T", LONG)), memory("T", LONG, confidence_score=score))
        assert outcome == "kept"
        assert after == session(memory("T", LONG), last_updated="2026-01-31T10:00:00Z", extraction_count=2)

    def test_a_memory_with_the_same_title_and_other_content_is_added(self) -> None:
        assert self.merge(session(memory("T", LONG)), memory("T", "else"))[1] == "added"

    def test_a_session_without_a_count_gets_one(self) -> None:
        after, _, _ = self.merge(session(memory(), extraction_count=None, last_updated=None), memory("B"))
        assert (after["extraction_count"], after["last_updated"]) == (1, "2026-01-31T10:00:00Z")

    @pytest.mark.parametrize("data", [b"", b"[]", b"{", text(session(memory())) + b"x"])
    def test_what_is_not_a_session_is_not_written_to(self, data: bytes) -> None:
        assert merge_memory(data, memory(), NOW) is None

    def test_a_new_file_has_the_seeds_shape(self) -> None:
        name = "2026-01-30-14-30-00-fix-bug"
        made = new_session(name, memory("é"), NOW)
        assert made == text(session(memory("é"), last_updated="2026-01-31T10:00:00Z"))
        assert read(made).findings == ()


# --- healing


class TestRepair:
    def fixes(self, data: bytes, mtime: float = OLD) -> list[tuple[str, bool]]:
        found = STORE.repair.fixes(ONE, LoadedFile(data, read(data, mtime=mtime), OLD), NOW)
        return [(fix.code, fix.remove) for fix in found]

    def test_the_end_of_an_older_text_goes(self) -> None:
        data = text(session(memory())) + b"se\n}\n"
        (fix,) = STORE.repair.fixes(ONE, LoadedFile(data, read(data), OLD), NOW)
        assert splice(data, fix.edits) == text(session(memory()))

    def test_a_second_session_in_the_file_is_left_to_a_person(self) -> None:
        assert self.fixes(text(session(memory())) + text(session(memory()))) == []

    def test_only_what_is_broken_and_still_goes_to_quarantine(self) -> None:
        assert self.fixes(b"{") == [("broken-session", True)]
        (fix,) = STORE.repair.fixes(ONE, LoadedFile(b"{", read(b"{", mtime=OLD), OLD), NOW)
        assert not fix.safe, "a file leaves the folder only where that is asked for"
        assert self.fixes(b"{", mtime=NOW - 1) == []
        assert self.fixes(b"[]") == []
        assert self.fixes(text(session("x", memory()))) == []

    def test_a_good_backup_can_take_its_place(self) -> None:
        good, bad = text(session(memory())), b"{"
        fix = STORE.repair.recover(ONE, LoadedFile(bad, read(bad), OLD), good, frozenset(), NOW)
        assert fix is not None
        assert (splice(bad, fix.edits), fix.safe) == (good, False)
        assert STORE.repair.recover(ONE, LoadedFile(good, read(good), OLD), good, frozenset(), NOW) is None


# --- the archiver's lock


class TestLock:
    """The archiver never breaks a lock: after one crash every later run is skipped."""

    def judge(
        self, age: float, alive: str, content: bytes = b'{"pid":4242,"started_at":"2026-01-31T09:00:00.000Z"}'
    ) -> Any:
        (rule,) = STORE.files.locks
        evidence = Evidence(age, alive, flock_free=True, open_elsewhere="no")  # type: ignore[arg-type]  # one of three words
        owner = parse_owner(content)
        return judge(owner, evidence, kind=rule.kind, stale_after=30, unreadable_after=300, lock_time=NOW - age)

    def test_a_dead_one_is_cleared_with_the_evidence_reported(self) -> None:
        verdict = self.judge(31, "dead")
        assert verdict.state is State.STALE
        assert "4242" in verdict.evidence
        assert self.judge(29, "dead").state is State.HELD
        assert self.judge(3100, "alive").state is State.HELD

    def test_an_unreadable_one_is_never_cleared_by_schedule(self) -> None:
        assert self.judge(4000, "unknown", b"??").state is State.UNPROVABLE
        assert self.judge(4000, "unknown", b"").state is State.UNPROVABLE


# --- on a real disk


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """A store of session files."""
    with stores_on_disk(STORE, tmp_path, ON) as make:
        yield make


class TestOnDisk:
    def test_merging_quarantines_duplicates_and_can_be_undone(self, folder: Callable[..., Store]) -> None:
        store = folder(TENDED)
        done = dedupe(store, NOW, by="schedule")
        assert done.receipt
        path = path_of(TWICE["session_id"])
        assert on_disk(store) == carried_out(TENDED, dedupe_of(TENDED))
        (kept,) = store.journal.quarantine.entries()
        assert json.loads(store.blobs.get(kept.blob)) == TWICE["memories"][0]
        refresh(store, None, NOW)
        assert not dedupe(store, NOW, by="schedule").plan
        undo(store, done.receipt, NOW)
        assert on_disk(store) == TENDED
        refresh(store, None, NOW)
        assert not dedupe(store, NOW, by="schedule").plan  # a user restored it
        assert [each.path for each in dedupe(store, NOW, by="command", dry_run=True).plan.actions] == [path]

    def test_archiving_and_its_undo(self, folder: Callable[..., Store]) -> None:
        store = folder(TENDED)
        done = archive(store, NOW, by="schedule")
        assert done.receipt
        assert on_disk(store) == carried_out(TENDED, archive_of(TENDED))
        refresh(store, None, NOW)
        assert not archive(store, NOW, by="schedule").plan
        undo(store, done.receipt, NOW)
        assert on_disk(store) == TENDED
        refresh(store, None, NOW)
        assert not archive(store, NOW, by="schedule").plan
        assert archive(store, NOW, by="command", dry_run=True).plan

    def test_a_command_gets_a_note_that_the_rule_is_off(self, folder: Callable[..., Store]) -> None:
        store = folder(TENDED, Policy())
        plan = archive(store, NOW, by="command").plan
        assert (plan.actions, "archive_sessions = true" in plan.notes[0].why) == ((), True)
        assert archive(store, NOW, by="schedule").plan.notes == ()

    def test_one_memory_by_command(self, folder: Callable[..., Store]) -> None:
        store = folder(TENDED, Policy())
        wanted = "2026-01-30-14-30-00-fix-bug#decision:another"
        archive(store, NOW, by="command", ids=[wanted])
        assert on_disk(store)[ONE] == text(session(memory()))

    def test_repair_moves_what_is_broken_to_quarantine(self, folder: Callable[..., Store]) -> None:
        broken = "2025-09-06/10-00-00-cut.json"
        store = folder(DAMAGED)
        assert {each.code for each in all_findings(store) if each.path == broken} == {"broken-session"}
        safe = repair(store, NOW)
        assert safe.receipt
        assert broken in on_disk(store)
        done = repair(store, NOW, codes=["broken-session"])
        assert done.receipt
        after = on_disk(store)
        assert broken not in after
        assert after["2025-09-05/10-00-00-torn.json"] == DAMAGED["2025-09-05/10-00-00-torn.json"].removesuffix(
            b"se\n}\n"
        )
        kept = {each.file: store.blobs.get(each.blob) for each in store.journal.quarantine.entries()}
        assert kept[broken] == DAMAGED[broken]
        refresh(store, None, NOW)
        assert not repair(store, NOW).plan
        undo(store, done.receipt, NOW)
        undo(store, safe.receipt, NOW)
        assert on_disk(store) == DAMAGED

    def test_a_second_look_writes_nothing(self, folder: Callable[..., Store]) -> None:
        store = folder({**TENDED, **DAMAGED})
        before = {path: store.tree.stat(path) for path in on_disk(store)}
        assert refresh(store, None, NOW).changed == ()
        assert {path: store.tree.stat(path) for path in on_disk(store)} == before


def test_a_record_tells_what_later_floors_need() -> None:
    (record, *_) = read(session(memory())).records
    assert isinstance(record, Record)
    assert record.facts == {"session": "2026-01-30-14-30-00-fix-bug", "category": "technical", "confidence": 80.0}


class TestVectorTwelve:
    def dead_pid(self) -> int:
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        return ended.pid

    def lock(self, store: Store, content: bytes, age: float) -> Path:
        place = Path(store.path) / ".archive.lock"
        place.write_bytes(content)
        os.utime(place, (NOW - age, NOW - age))
        return place

    def test_a_dead_archive_lock_is_cleared_and_the_evidence_preserved(self, folder: Callable[..., Store]) -> None:
        store = folder(TENDED)
        pid = self.dead_pid()
        stamp = iso(NOW - 31)
        place = self.lock(store, b'{"pid":%d,"started_at":"%s"}' % (pid, stamp.encode()), 31)
        (report,) = sweep_locks(store, NOW)
        assert (report.path, report.action) == (".archive.lock", "removed")
        assert str(pid) in report.evidence
        assert not place.exists()
        assert str(pid) in store.journal.entries(1)[0].summary

    @pytest.mark.parametrize(("content", "age"), [(b'{"pid":1000000,"started_at":"x"}', 29), (b"", 4000), (b"?", 4000)])
    def test_a_young_or_unprovable_one_stays(self, folder: Callable[..., Store], content: bytes, age: float) -> None:
        store = folder(TENDED)
        place = self.lock(store, content, age)
        assert sweep_locks(store, NOW) == []
        assert place.exists()

    def test_a_living_one_stays(self, folder: Callable[..., Store]) -> None:
        store = folder(TENDED)
        place = self.lock(store, b'{"pid":%d}' % os.getpid(), 4000)
        os.utime(place)  # the lock is younger than this process
        assert sweep_locks(store, time.time() + 4000) == []
        assert place.exists()
