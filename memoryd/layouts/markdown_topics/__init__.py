"""Topic markdown: dated entries in `<topic>/<subtopic>.md`, `index.md`, and a yearly archive of each topic (seed 001,
"Memory Operations").

The directory is part of a user's repository: files stay plain text, diffs stay small, and nothing else is written
there. Where the pruning rules of the seed disagree, ten entries stay, fewer only to reduce the size, and never fewer
than five. Files without dated entries are read and listed unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from memoryd.core.defaults import DAY, Policy
from memoryd.core.findings import ERROR, INFO, WARNING, Code
from memoryd.core.ignore import is_temp
from memoryd.core.records import Document, FileStats, ParseOffset, Role
from memoryd.layouts.directory import Directory
from memoryd.layouts.exchange import Exchange
from memoryd.layouts.markdown_topics import archive, fields, index, writer
from memoryd.layouts.markdown_topics.names import ARCHIVE, INDEX, SUFFIX
from memoryd.layouts.markdown_topics.parser import read_document, recognise
from memoryd.layouts.protocol import (
    FileRules,
    IndexRenderer,
    Layout,
    Option,
    Ranking,
    Reader,
    Repair,
    Upkeep,
    Writer,
)


class MarkdownTopicsReader(Reader):
    """Reader of topic files and their archives. `sensitive_words` also reports the general words of the seed's list."""

    reads_any_text = True
    parses_fragments = True

    def __init__(self, *, sensitive_words: bool = False) -> None:
        self.sensitive_words = sensitive_words

    def configured(self, policy: Policy) -> Reader:
        """Return a reader that reports sensitive words if the policy says so."""
        return MarkdownTopicsReader(sensitive_words=policy.sensitive_words)

    def recognise(self, directory: Directory) -> str | None:
        """Return the evidence of a directory of topic files, or None."""
        return recognise(directory)

    def role(self, path: str) -> Role:
        """Return the role of a path: `.md` files are sources, except `index.md` and `archive/`."""
        if is_temp(path):
            return Role.TEMP
        if not path.endswith(SUFFIX) or any(part.startswith(".") for part in path.split("/")):
            return Role.FOREIGN
        if path == INDEX:
            return Role.INDEX
        return Role.ARCHIVE if path.startswith(ARCHIVE) else Role.SOURCE

    def whole_file(self, identity: str) -> str | None:
        """Return the topic file `topic/subtopic`, which agents load as a whole."""
        path = f"{identity.removesuffix(SUFFIX)}{SUFFIX}"
        return path if self.role(path) in (Role.SOURCE, Role.ARCHIVE) else None

    def parse(self, path: str, data: bytes, *, now: float, mtime: float, base: ParseOffset) -> Document:
        """Parse a topic or archive file whole. Never raises."""
        del base  # files grow at the top, so they are read whole
        return read_document(path, data, now=now, mtime=mtime, words=self.sensitive_words)


_READER = MarkdownTopicsReader()


def _upkeep_paths(files: Mapping[str, FileStats]) -> tuple[str, ...]:
    return tuple(path for path in _READER.source_paths(files) if archive.may_be_due(files[path]))


MARKDOWN_TOPICS = Layout(
    name="markdown-topics",
    summary="Dated entries in `TOPIC/SUBTOPIC.md`, newest first; yearly archive.",
    reader=_READER,
    files=FileRules(waits_for_git=True, keeps_versions=True),
    index=IndexRenderer((INDEX,), index.render),  # text around the generated part is preserved
    upkeep=Upkeep(("prune",), _upkeep_paths, archive=archive.archive, prune=archive.prune),
    repair=Repair(lambda path, loaded, _now: writer.fixes(path, loaded), writer.recover),
    # No `count_reads`: the repository holds no volatile data.
    writer=Writer(
        add=writer.add,
        update=lambda _view, located, changes: writer.update(located, changes),
        forget=archive.forget,
        unarchive=archive.unarchive,
        restore=archive.restore,
    ),
    fields=fields.FIELD_SPECS,
    exchange=Exchange(fields.export, fields.outside, fields.draft, precision_s=DAY, newest_first=True),
    sentence={"title": "{}"},
    findings={
        "not-newest-first": Code(WARNING, "an entry is newer than the one above it; files are not reordered"),
        "missing-labels": Code(WARNING, "an entry without a Context, Problem or Solution line"),
        "invalid-date": Code(WARNING, "a heading with an impossible date does not start an entry"),
        "glued-heading": Code(
            WARNING, "a heading without a line break before it is not read as an entry", fixable=True
        ),
        "unclosed-fence": Code(WARNING, "an unclosed code fence; the rest of the file is not read as entries"),
        "secret-shape": Code(ERROR, "a file contains what looks like a secret; remove and revoke it"),
        "sensitive-word": Code(INFO, "a word that often appears beside secrets (off by default)"),
        "unlistable-name": Code(WARNING, "a file name that the index cannot hold"),
    },
    options={
        "sensitive_words": Option("flag", "also report words that are often found next to secrets"),
        "score_keyword": Option("number", "points for each query word found"),
        "score_context": Option("number", "points for each query word in the topic's path"),
        "score_tag": Option("number", "points for each matching tag"),
        "score_recency": Option("number", "points for a memory of today"),
        "score_decay": Option("number", "daily decay rate of these points (exp(-x) per day)", high=100),
        "score_uses": Option("number", "points for every five uses"),
    },
    location=("topic", "subtopic"),
    ranking=Ranking(by_points=True),
    secrets="seed",
)
