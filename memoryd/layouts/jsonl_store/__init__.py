"""The JSONL store: core memories, learnings and tasks, one JSON object per line, with `index.json`, `.lock`, `.backup/`
and a quarterly archive (seed 004, "Storage Format Specification - Agent Memory Server").

Where the seed contradicts itself: memoryd ends files with a newline, which the seed's own append needs, and accepts
files without one; archives are named as in the seed's tree (`learnings_2025_Q4.jsonl`), and both forms are read; KB and
MB are 1,024-based. The `<agent-id>.json` files of the real server are read and never written.
"""

from __future__ import annotations

from collections.abc import Collection

from memoryd.core.defaults import MB, Limit, LimitKind
from memoryd.core.findings import ERROR, INFO, WARNING, Code
from memoryd.core.ignore import is_temp
from memoryd.core.records import Document, NativeMemory, ParseOffset, Role
from memoryd.layouts.directory import Directory
from memoryd.layouts.exchange import Exchange
from memoryd.layouts.jsonl_store import agent_json, archive, index, parser, repair, schema, writer
from memoryd.layouts.jsonl_store.agent_json import is_agent_file
from memoryd.layouts.jsonl_store.parser import recognise
from memoryd.layouts.jsonl_store.schema import FILE_TYPES, INDEX
from memoryd.layouts.protocol import (
    FileRules,
    IndexRenderer,
    Layout,
    LockRule,
    Reader,
    Repair,
    Upkeep,
    Writer,
)

_LOCK, _BACKUP = ".lock", ".backup"


class JsonlReader(Reader):
    """Reader of the three JSONL files, their quarterly archives, and the `<agent-id>.json` files of the real server."""

    parses_fragments = True

    def recognise(self, directory: Directory) -> str | None:
        """Return the evidence of a JSONL store, or None."""
        return recognise(directory)

    def role(self, path: str) -> Role:
        """Return the role of a path in the store."""
        if path == _LOCK:
            return Role.LOCK
        if path.startswith(f"{_BACKUP}/"):
            return Role.BACKUP
        if is_temp(path):
            return Role.TEMP
        if path in FILE_TYPES or is_agent_file(path):
            return Role.SOURCE
        if path == INDEX:
            return Role.INDEX
        return Role.ARCHIVE if archive.is_archive(path) else Role.FOREIGN

    def source_paths(self, present: Collection[str]) -> tuple[str, ...]:
        """Return the three files, present or not."""
        del present
        return tuple(FILE_TYPES)

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        """Parse a JSONL file, an archive, or an `<agent-id>.json` file. Never raises."""
        if is_agent_file(path):
            return agent_json.parse(path, data, now=now, mtime=mtime)
        counted = path in FILE_TYPES
        kind = FILE_TYPES[path] if counted else archive.archived_type(path)
        return parser.parse_lines(path, data, kind, now=now, mtime=mtime, base=base, counted=counted)

    def native(self, path: str, text: bytes) -> NativeMemory:
        """Return the JSON object of a line."""
        del path
        return writer.native(text)


JSONL_STORE = Layout(
    name="jsonl-store",
    summary="Core memories, learnings and tasks, one JSON object per line; `.lock`, `.backup/`, quarterly archive.",
    reader=JsonlReader(),
    files=FileRules(
        lock=_LOCK,
        locks=(LockRule(_LOCK, ".lock"),),
        backup_dir=_BACKUP,
        append_only=True,
        owner_only=True,
        limits={
            "core_memories.jsonl": Limit(LimitKind.HARD, 10 * MB, 1000),
            "learnings.jsonl": Limit(LimitKind.SOFT, 5 * MB, 500),
            "tasks.jsonl": Limit(LimitKind.SOFT, 2 * MB, 200),
        },
    ),
    # No migrations: 1.0.0 is the first version.
    index=IndexRenderer(
        (INDEX,),
        index.render,
        is_managed=lambda _path, content: index.is_ours(content),
        version=index.version_of,
    ),
    upkeep=Upkeep(
        ("archive", "limits"),
        paths=lambda _: tuple(FILE_TYPES),
        archive=archive.archive,
        enforce=archive.enforce,
        dedupe=lambda view, _threshold: repair.dedupe(view),  # only access statistics may differ
    ),
    repair=Repair(repair.fixes, repair.recover, lost_files=repair.lost_files, rebuild=repair.rebuild),
    writer=Writer(
        writer.add,
        writer.update,
        writer.forget,
        writer.unarchive,
        writer.restore,
        count_reads=writer.count_reads,
        stores_id=True,
    ),
    fields=schema.FIELD_SPECS,
    exchange=Exchange(schema.export, draft=schema.draft),
    types=tuple(sorted(schema.TYPES)),
    sentence={"type": "learning", "content": "{}"},
    findings={
        "invalid-json": Code(ERROR, "a line is not JSON; skipped and kept"),
        "torn-tail": Code(ERROR, "the last line is incomplete and no program is writing it"),
        "joined-lines": Code(WARNING, "two memories on one line; both are read", fixable=True),
        "corrected-schema": Code(
            WARNING, "a field is missing or invalid; corrected in the index, unchanged in the file", fixable=True
        ),
        "task-metadata": Code(WARNING, "invalid task metadata; the task is kept and never archived by age"),
        "wrong-type-for-file": Code(WARNING, "a memory is in the file of another type; indexed by its own type"),
        "missing-id": Code(ERROR, "a memory has no id and cannot be indexed; repair assigns one", fixable=True),
        "id-not-uuid": Code(WARNING, "the id is not a version 4 UUID; accepted"),
        "line-too-long": Code(WARNING, "a line longer than 10,240 bytes; kept and indexed"),
        "completed-without-date": Code(WARNING, "a completed task without completed_at; updated_at is used"),
        "shipped-form": Code(INFO, "an <agent-id>.json file in the legacy format; read only"),
        "foreign-file": Code(INFO, "a file that does not belong to the layout"),
        "index-newer": Code(
            WARNING, "the index has a newer version than memoryd knows; the directory is left unchanged"
        ),
    },
)
