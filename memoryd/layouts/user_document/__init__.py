"""User documents: all memories of one user in one JSON file with their embeddings (seed 002, "ADR-001: Memory Storage
Format"), `{user_bucket}/__long-memories/data.json` at any depth.

The seed says that no locking is needed, and that concurrent writes are not protected. The agents keep each document in
memory and never read it again, so nothing is written unattended: scheduled runs only report, suggest and back up. Users
are isolated: no record, duplicate or backup crosses from one path to another.
"""

from __future__ import annotations

from memoryd.core.defaults import MB
from memoryd.core.findings import WARNING, Code
from memoryd.core.ignore import is_temp
from memoryd.core.records import Document, DocumentChange, NativeMemory, ParseOffset, Pieces, Role
from memoryd.core.retention import Quality
from memoryd.layouts.directory import Directory
from memoryd.layouts.exchange import Exchange
from memoryd.layouts.json_document import recover_whole, torn_file_fixes
from memoryd.layouts.protocol import FileRules, Layout, Reader, Repair, Upkeep, Writer
from memoryd.layouts.user_document import changes, duplicates, parser, schema, writer
from memoryd.layouts.user_document.parser import recognise, shrink_alarm
from memoryd.layouts.user_document.split import parse_sound_document


class UserDocumentReader(Reader):
    """Reader of one JSON document per user."""

    separates_users = True

    def recognise(self, directory: Directory) -> str | None:
        """Return the evidence of user documents, or None."""
        return recognise(directory)

    def role(self, path: str) -> Role:
        """Return the role of a path: only `__long-memories/data.json` is a source."""
        if is_temp(path):
            return Role.TEMP
        return Role.SOURCE if f"/{path}".endswith(f"/{parser.FILE}") else Role.FOREIGN

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        """Parse a user's document. Never raises."""
        del base  # one document, always parsed whole
        return parser.parse(path, data, now=now, mtime=mtime)

    def pieces(self, data: bytes, document: Document) -> Pieces | None:
        """Return the pieces of a document that was parsed whole; None where a change cannot be taken by itself."""
        return changes.split_pieces(data, document)

    def parse_change(self, path: str, data: bytes, before: Pieces) -> DocumentChange | None:
        """Return what changed in a document; None where it must be parsed whole."""
        return changes.parse_change(path, data, before)

    def quality(self, path: str, data: bytes, *, now: float) -> Quality:
        """Return how much of a document is readable; the memories of a valid document are counted, not parsed."""
        parsed = parse_sound_document(data)
        if parsed is None:
            return parser.parse(path, data, now=now, mtime=0.0).quality
        return Quality(len(parsed.items), len(parsed.items) - len(parsed.reasons))

    def native(self, path: str, text: bytes) -> NativeMemory:
        """Return the `data` of a memory."""
        del path
        return writer.native(text)


USER_DOCUMENT = Layout(
    name="user-document",
    summary="One JSON document per user, with embeddings.",
    reader=UserDocumentReader(),
    # 256 MB: the seed expects up to 10,000 memories of 6 to 8 KB.
    files=FileRules(agent_caches_file=True, max_bytes=256 * MB),
    # No archive: forgotten memories are saved in the journal. Only documents with two or more memories are compared.
    upkeep=Upkeep(
        ("dedupe",),
        paths=lambda files: tuple(sorted(path for path, each in files.items() if each.records > 1)),
        dedupe=duplicates.dedupe,
    ),
    repair=Repair(
        fixes=lambda _path, loaded, _now: torn_file_fixes(loaded),
        recover=lambda _path, loaded, backup, _archived, _now: recover_whole(loaded, backup),
        alarms=lambda before, after: () if (alarm := shrink_alarm(before, after)) is None else (alarm,),
    ),
    # No `count_reads`: the format has no access statistics.
    writer=Writer(
        add=writer.add,
        update=writer.update,
        forget=writer.forget,
        unarchive=lambda _view, located: writer.unarchive(located),
        restore=writer.restore,
    ),
    fields=schema.FIELD_SPECS,
    exchange=Exchange(schema.export, schema.outside, schema.draft, precision_s=1, independent=True),
    findings={
        "embedding-size": Code(
            WARNING, "an embedding is missing or differs in length from the others; excluded from vector search"
        ),
        "embedding-not-finite": Code(
            WARNING, "an embedding holds non-finite numbers, or only zeros; excluded from vector search"
        ),
        "many-memories": Code(
            WARNING, "a user's document holds more memories than the format is meant for (1,000; 10,000)"
        ),
    },
    location=("user",),
)
