"""No column of the catalogue but the id holds a secret: not the kind, not the facts, not a finding's message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memoryd.core.findings import Finding
from memoryd.core.index import FileRow
from memoryd.core.records import Document, Record
from memoryd.core.secrets import redact
from memoryd.core.spans import Fingerprint, Span
from memoryd.index.sqlite import SqliteIndex
from memoryd.index.texts import CleanRecord, clean, clean_files, redacted, text_of
from tests.index.records import record
from tests.secrets.corpus import SHAPES, Shape

TOKEN = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(("said", "secret"), [(TOKEN, TOKEN), ("password=Tr0ub4dor33", "Tr0ub4dor33")])
def test_whatever_a_layout_tells_of_a_memory(tmp_path: Path, said: str, secret: str) -> None:
    facts = {"tags": [said], "n": 1, "deep": [{"x": [said, None]}], "by": {said: 1}}
    record = Record(Span(0, 5), 1, "id", said, said, None, None, (said,), False, {}, facts)
    document = Document("a.json", (record,), (Finding("field-type", "a.json", f"no {said}", 1),))
    catalogue = SqliteIndex(str(tmp_path / "c.sqlite"))
    catalogue.replace(FileRow("a.json", "source", Fingerprint(1, 1, 1, 1, 1), "", facts={"h1": said}), document)
    [entry] = catalogue.entries(["a.json"])
    catalogue.close()
    assert [path.name for path in tmp_path.iterdir() if secret.encode() in path.read_bytes()] == []
    assert "[redacted:" in entry.type
    assert "[redacted:" in entry.facts["deep"][0]["x"][0]
    assert entry.facts["n"] == 1


def test_facts_without_secrets_are_unchanged() -> None:
    facts = {"tags": ["a", "monkey"], "at": "2026-01-01T00:00:00Z", "meaning": "0123456789abcdef" * 4, "n": None}
    assert clean(facts) is facts


def test_facts_that_are_no_utf8_are_written_all_the_same() -> None:
    assert clean({"a": ["\ud800", TOKEN]}) == {"a": ["?", "[redacted:github-token]"]}


@pytest.mark.parametrize("sign", ["\ud800", "\0"])
def test_a_text_remembered_as_without_secrets_may_still_hold_what_no_index_can(sign: str) -> None:
    text = f"{'It is so. ' * 30}{sign}"
    assert redact(text) is text  # and remembers it
    made = record(0, title="Words", text=text)
    _, cleaned = clean_files([({}, [made])], together=True)
    assert sign not in cleaned[0].text.body


@pytest.mark.parametrize("place", ["title", "text", "type", "tags", "labels", "facts"])
def test_one_check_of_a_whole_record_overlooks_nothing_that_a_check_of_its_parts_finds(place: str) -> None:
    def agrees(shape: Shape) -> bool:
        value = {"tags": (shape.text,), "labels": (shape.text,), "facts": {"x": [shape.text]}}.get(place, shape.text)
        fields: dict[str, Any] = {"title": "Words", "text": "It is so", "labels": ("one",), "facts": {"y": "z"}}
        made = record(0, **{**fields, place: value})
        clear = record(1, title="Words", text="It is so")
        _, cleaned = clean_files([({}, [clear, made]), ({}, [clear])], together=True)
        return cleaned == [_by_parts(clear), _by_parts(made), _by_parts(clear)]

    assert SHAPES
    assert [shape.name for shape in SHAPES if not agrees(shape)] == []


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("place", ["text", "facts", "file", "nowhere"])
def test_one_check_of_many_files_overlooks_nothing(place: str, together: bool) -> None:
    def agrees(shape: Shape) -> bool:
        made = record(
            0, text=shape.text if place == "text" else "It is so", facts={place: {"facts": shape.text}.get(place)}
        )
        of_file = {"digest": "0123456789abcdef" * 4, "x": shape.text if place == "file" else "z"}
        facts, cleaned = clean_files([({"x": "y"}, []), (of_file, [made, made])], together=together)
        return facts == [{"x": "y"}, clean(of_file)] and cleaned == [_by_parts(made)] * 2

    assert [shape.name for shape in SHAPES if not agrees(shape)] == []


def _by_parts(made: Record) -> CleanRecord:
    return CleanRecord(text_of(made), redacted(made.type), clean(made.facts))
