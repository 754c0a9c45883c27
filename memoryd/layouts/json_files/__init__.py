"""One JSON file per memory, with `_index.json` and `_stats.json` (seed 000, "Memory Storage System").

The root is the directory `memories` itself. The real server writes memories and indices without lock, temporary name or
rename, names files by the second and overwrites existing ones; reading a memory rewrites its file. So memoryd reads
patiently, compares by meaning, and writes the two index files only when they are wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memoryd.core.findings import INFO, WARNING, Code, Finding
from memoryd.core.ignore import is_temp
from memoryd.core.records import Document, FileStats, NativeMemory, ParseOffset, Role
from memoryd.layouts.directory import Directory, is_other_json
from memoryd.layouts.exchange import Exchange
from memoryd.layouts.json_files import duplicates, index, names, parser, schema, upkeep, writer
from memoryd.layouts.json_files.parser import recognise
from memoryd.layouts.protocol import (
    IndexRenderer,
    Layout,
    Option,
    Ranking,
    Reader,
    Repair,
    Upkeep,
    Writer,
)

_INDEX_PATHS = (names.INDEX, names.STATS)


class JsonFilesReader(Reader):
    """Reader of one memory per file. Leftovers of older server versions are sources without memories, so that they are
    reported."""

    def recognise(self, directory: Directory) -> str | None:
        """Return the evidence of a directory of memory files, or None."""
        return recognise(directory)

    def role(self, path: str) -> Role:
        """Return the role of a path: memory files and leftovers are sources."""
        if names.is_memory(path):  # first: nearly every file of a large root
            return Role.SOURCE
        if path in _INDEX_PATHS:
            return Role.INDEX
        if is_temp(path):
            return Role.TEMP
        return Role.SOURCE if names.is_legacy(path) else Role.FOREIGN

    def source_paths(self, present: Collection[str]) -> tuple[str, ...]:
        """Return the memory files, by the time and counter in their names."""
        return tuple(names.ordered(filter(names.is_memory, present)))

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        """Parse one memory file. Never raises."""
        del base  # these files never grow by appends
        if names.is_memory(path):
            return parser.parse(path, data, now=now, mtime=mtime)
        if path.startswith(f"{names.LEGACY_DIR}/"):
            return Document(path, (), facts={"legacy": True})  # the index reports them all with one finding
        message = "a collection in an older format; not indexed and left alone"
        return Document(path, (), (Finding("legacy-file", path, message),))

    def native(self, path: str, text: bytes) -> NativeMemory:
        """Return the JSON object of a memory file."""
        del path
        return writer.native(text)


_READER = JsonFilesReader()


def _upkeep_paths(files: Mapping[str, FileStats]) -> tuple[str, ...]:
    return _READER.source_paths([path for path, each in files.items() if each.facts.get("idle")])


def _is_managed(path: str, content: bytes) -> bool:
    return not is_other_json(content, index.STATS_KEYS if path == names.STATS else index.KEYS)


JSON_FILES = Layout(
    name="json-files",
    summary="One JSON file per memory.",
    reader=_READER,
    index=IndexRenderer(
        _INDEX_PATHS, index.render, _is_managed, acceptances={"lost-to-name-collision": index.accept_lost}
    ),
    upkeep=Upkeep(("archive",), _upkeep_paths, archive=upkeep.archive, dedupe=duplicates.suggest),
    repair=Repair(
        fixes=lambda path, loaded, _now: upkeep.fixes(path, loaded),
        # The archive flag moves nothing, so archived ids need no check.
        recover=lambda _path, loaded, backup, _archived, _now: upkeep.recover(loaded, backup),
    ),
    writer=Writer(
        add=writer.add,
        update=writer.update,
        forget=lambda _view, located: writer.forget(located),
        unarchive=lambda _view, located: writer.unarchive(located),
        restore=writer.restore,
        count_reads=lambda _path, loaded, reads: writer.count_reads(loaded, reads),
        stores_id=True,
    ),
    fields=schema.FIELD_SPECS,
    exchange=Exchange(schema.export, draft=schema.draft),
    types=tuple(sorted(schema.TYPES)),
    findings={
        "id-form": Code(INFO, "the id does not have the usual form of the layout; accepted"),
        "lost-to-name-collision": Code(
            WARNING,
            "memories listed in the index were overwritten by others with the same file name; stays until accepted with"
            " `repair --code lost-to-name-collision`",
        ),
        "legacy-file": Code(INFO, "a file of an older version of the program that owns the directory"),
    },
    options={"archive_flag": Option("flag", "set archived on memories that are old, irrelevant and rarely used")},
    ranking=Ranking(substrings=True),  # like the real server, which matches any part of a word
)
