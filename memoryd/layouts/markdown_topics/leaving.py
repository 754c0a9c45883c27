"""Entries into the archive of their topic and back; whole documents out, with their bytes kept by who asks."""

from __future__ import annotations

from datetime import date

from memoryd.core.digest import sha256
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.text import Edit, Span, splice
from memoryd.errors import ConflictError, UsageError
from memoryd.layouts.base import UpkeepView
from memoryd.layouts.markdown_topics import upkeep
from memoryd.layouts.markdown_topics.blocks import Section, newline_of, outline
from memoryd.layouts.markdown_topics.naming import archive_of, topic_of_archive
from memoryd.layouts.markdown_topics.placing import check_source
from memoryd.layouts.markdown_topics.reading import DOCUMENT, id_at
from memoryd.layouts.markdown_topics.shelf import bare, sources, written_name
from memoryd.layouts.storing import Found, Stored, StoringView


def forget(view: StoringView, found: Found) -> Stored:
    path, record, data = found.path, found.record, found.loaded.data
    if record.archived:
        raise UsageError(f"{record.id} is archived already", hint="the archive is what forgotten memories are kept in")
    if record.type == DOCUMENT:
        whole = Span(0, len(data))
        action = Action(Kind.REMOVE, path, "forget a document", (record.id,), base=sha256(data), aside=(whole,))
        return Stored(Plan((action,)), record.id, path, kept=data)
    plan = upkeep.archive(UpkeepView({path: found.loaded}, view.content, view.policy, view.now), {record.id})
    if not plan:
        raise ConflictError(f"{path}: {plan.notes[0].why}", hint="mend the archive by hand, then try again")
    target = archive_of(path, date.fromisoformat(record.facts["date"]))
    shelf = view.content(target) or b""
    for action in plan.actions:
        if action.path == target:
            shelf = action.data if action.kind is Kind.CREATE else splice(shelf, action.edits)
    return Stored(plan, _shelved_id(target, shelf, path.rpartition("/")[2], record.span.of(data)), target)


def _shelved_id(target: str, shelf: bytes, source: str, text: bytes) -> str:
    """The id that the entry has in the archive: of equal texts that from the same file counts."""
    same = [each for each in outline(shelf, shelved=True).sections if bare(_text(shelf, each)) == bare(text)]
    named = [each for each in same if each.source == written_name(source)] or same
    return id_at(target, shelf, named[0].start)


def unarchive(view: StoringView, found: Found) -> Stored:
    """Above the first entry that is older, so that newest stays first; below those of its own day."""
    record, shelf = found.record, found.loaded.data
    section = next((s for s in outline(shelf, shelved=True).sections if s.start == record.span.start), None)
    if not record.archived or record.type == DOCUMENT or section is None:
        raise UsageError(f"{record.id} is no archived entry", hint="only entries of the archive can be put back")
    text = record.span.of(shelf)
    path = _home(view, found.path, section)
    before = view.content(path)
    back = _put_in(path, before, section, text)
    after = b"" if before is None else before
    if back is not None:
        after = back.data if back.kind is Kind.CREATE else splice(after, back.edits)
    same = [each for each in outline(after).sections if bare(_text(after, each)) == bare(text)]
    identity = id_at(path, after, same[0].start)
    out = _out_of(found.path, shelf, section, identity)
    return Stored(Plan((back, out) if back is not None else (out,)), identity, path)


def _home(view: StoringView, archive: str, section: Section) -> str:
    """The file that the line above an archived entry names."""
    if section.source is None:
        raise UsageError(
            f"{archive}: nothing tells which file the entry came from",
            hint="put a line `<!-- from: file.md -->` above it",
        )
    topic = topic_of_archive(archive)
    paths = ["/".join(filter(None, (topic, name))) for name in sources(section.source)]
    for path in paths:
        check_source(path, archive)
    return next((path for path in paths if view.content(path) is not None), paths[-1])


def _put_in(path: str, before: bytes | None, section: Section, text: bytes) -> Action | None:
    """None where it stands there already, as after a step that was cut off."""
    why = "put an entry back"
    if before is None:
        return Action(Kind.CREATE, path, why, data=text, copy=True)
    known = [bare(_text(before, each)) for each in outline(before).sections]
    if bare(text) in known:
        return None
    edit = _insertion(before, section, text)
    after = splice(before, [edit])
    if sorted(bare(_text(after, each)) for each in outline(after).sections) != sorted([*known, bare(text)]):
        why = "the entry could not be read there again, or another one no more, for a code fence that is never closed"
        raise ConflictError(f"{path}: {why}", hint="close the fence by hand, then try again")
    return Action(Kind.REWRITE, path, why, edits=(edit,), base=sha256(before), copy=True)


def _insertion(before: bytes, section: Section, text: bytes) -> Edit:
    """Above the first older entry. Only a newline that is missing is added, never one inside."""
    found = outline(before)
    older = [each.start for each in found.sections if each.day < section.day]
    at = older[0] if older else len(before)
    if not older and found.open_fence is not None:
        # Whatever stood below a fence that never ends would be part of it.
        at = found.sections[-1].start if found.sections else at
    newline = newline_of(before)
    lead = newline if at and not before[:at].endswith(b"\n") else b""
    tail = newline if at < len(before) and not text.endswith(b"\n") else b""
    return Edit(Span(at, at), lead + text + tail)


def _out_of(archive: str, shelf: bytes, section: Section, identity: str) -> Action:
    """With the line that named its file; an archive that held nothing else goes."""
    end = section.end
    rest = shelf[: section.block] + shelf[end:]
    why = "back among the live ones"
    if not rest.strip():
        return Action(Kind.REMOVE, archive, why, (identity,), base=sha256(shelf))
    edit = Edit(Span(section.block, end), b"")
    return Action(Kind.REWRITE, archive, why, (identity,), (edit,), base=sha256(shelf))


def put_back(view: StoringView, path: str, kept: bytes) -> Stored:
    if view.content(path) is not None:
        raise ConflictError(f"{path} is there again", hint="rename or forget what stands there now")
    identity = id_at(path, kept, 0)
    return Stored(Plan((Action(Kind.CREATE, path, "put a document back", (identity,), data=kept),)), identity, path)


def _text(data: bytes, section: Section) -> bytes:
    return data[section.start : section.end]
