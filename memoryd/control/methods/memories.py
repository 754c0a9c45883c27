"""Methods about single memories: find, read, store, change, forget, bring back."""

from __future__ import annotations

from memoryd.control.methods.shared import RECEIPT, ROOT_OPTION
from memoryd.control.methods.table import MODES, Field, Method, Param

_ID = Param("id", "str", "the memory, by the id that search and list print", cli="argument", required=True)
_IN_ROOT = Param("root", "str", "the root it is in (default: whichever has it)", cli="--root", placeholder="ROOT")
_USER = Param("user", "str", "whose memories, where a layout keeps users apart", cli="--user", placeholder="USER")
_ALLOW = Param(
    "allow_sensitive_words",
    "bool",
    "let password, token, key, secret and credential stand in a topic file; never a token itself",
    cli="--allow-sensitive-words",
)
_ROOTS = Param("roots", "list", "only these roots")
_FILTERS = (
    Param("type", "str", "only memories of this type", cli="--type", placeholder="TYPE"),
    Param("tags", "list", "only memories with this tag; repeatable, all must be there", cli="--tag", repeatable=True),
    Param("since", "str", "only what was made since: 2026-01-31, a time stamp, or 30d", cli="--since", placeholder="D"),
    Param("archived", "bool", "archived memories too", cli="--archived"),
    _USER,
)
_STORED = (
    Field("root", "str", "the root"),
    Field("id", "str", "the memory's id"),
    Field("path", "str", "the file it is in now"),
    RECEIPT,
)
_WARNINGS = Field("warnings", "list", "what was stored and yet looks like a secret; absent where nothing does")
_FRESH = Field("fresh", "object", "{NAME: {state, generation, lag_ms}}: how far the answer can be relied on")

METHODS: tuple[Method, ...] = (
    Method(
        "memory.search",
        ("search",),
        "Search the memories of all roots, or of one.",
        "Best first, with place and snippet (--json: and why it was found). Any text is a legal query. With "
        "--max-tokens: whole memories within that budget, ready to paste. Exits with 1 when nothing is found.",
        "memoryd search connection pool size --type learning --limit 5",
        (
            Param("query", "str", "what to look for", cli="argument", joined=True),
            Param("similar", "str", "in place of words: memories like this one", cli="--similar", placeholder="ID"),
            Param("vector", "list", "in place of words: what is near to this vector (numbers)"),
            ROOT_OPTION,
            _ROOTS,
            *_FILTERS,
            Param("mode", "str", "how to look (default: hybrid)", cli="--mode", choices=MODES),
            Param("limit", "int", "at most so many", cli="--limit", placeholder="N", minimum=1, maximum=1000),
            Param(
                "max_tokens",
                "int",
                "whole memories within this budget, as one text to paste",
                cli="--max-tokens",
                placeholder="N",
                minimum=1,
                maximum=100_000,
            ),
        ),
        (
            Field("hits", "list", "[{root, id, path, line?, title, snippet, score, why{}, type?, tags[], ...}]"),
            Field("took_ms", "float", "how long it took"),
            _FRESH,
        ),
        "read",
        False,
        one_of=("query", "similar", "vector"),
    ),
    Method(
        "memory.get",
        ("get",),
        "Print one memory, native and whole.",
        "By any id that search and list print; a bare id will do while only one memory bears it. With --touch the "
        "read is counted, where the layout counts reads. Exits with 1 when there is none.",
        "memoryd get b52e2331-1b7b-4a1b-8f0e-0d8a3f0c9c11 --touch",
        (
            _ID,
            _IN_ROOT,
            Param("touch", "bool", "count this as a use of the memory", cli="--touch"),
            Param("offset", "int", "instead of the memory its text, in parts, from this character on", minimum=0),
        ),
        (
            *_STORED[:3],
            Field("line", "int", "the line it begins on"),
            Field("memory", "object", "the memory as its agent wrote it; {text} where it is no object"),
            Field("text", "str", "the text of a memory that is no object"),
            Field("part", "str", "with `offset`: some of its text, and `next_offset` where there is more"),
            Field("archived", "bool", "whether it is archived"),
            Field("layout", "str", "the layout of its root"),
        ),
        "read",
        False,
    ),
    Method(
        "memory.list",
        ("list",),
        "List memories, newest first.",
        "Of all roots, or of one; a page at a time.",
        "memoryd list --root agents --type task --limit 20",
        (
            ROOT_OPTION,
            _ROOTS,
            *_FILTERS,
            Param("limit", "int", "at most so many", cli="--limit", placeholder="N", minimum=1, maximum=1000),
            Param("cursor", "str", "go on where the page before ended", cli="--cursor", placeholder="CURSOR"),
        ),
        (
            Field("memories", "list", "[{root, id, path, line, title, type, tags[], created, archived, layout}]"),
            Field("next_cursor", "str", "for the next page; absent on the last"),
            _FRESH,
        ),
        "read",
        False,
    ),
    Method(
        "memory.add",
        ("add",),
        "Store a new memory by the rules of its layout.",
        "Fields are NAME=VALUE: a VALUE that is JSON (a number, list, object, true, false, null, quoted text) is taken "
        "as such, any other as text; a NAME given twice makes a list. --file takes a JSON object or the text of a "
        "whole entry, from a file or from - (standard input). Acknowledged means that it is on the disk.",
        'memoryd add --root agents type=learning content="The pool needs 20 connections" tags=\'["db"]\'',
        (
            Param("root", "str", "where (needed with more than one root)", cli="--root", placeholder="ROOT"),
            Param("memory", "object", "the memory's own fields", cli="fields", required=True),
            Param("topic", "str", "markdown-topics: the topic", cli="--topic", placeholder="TOPIC"),
            Param("subtopic", "str", "markdown-topics: the file in the topic", cli="--subtopic", placeholder="NAME"),
            Param("user", "str", "user-document: whose memory it is", cli="--user", placeholder="USER"),
            Param("session", "str", "session-files: the id of the session", cli="--session", placeholder="ID"),
            _ALLOW,
        ),
        (*_STORED, _WARNINGS),
        "job",
        True,
        waits_s=60,
    ),
    Method(
        "memory.update",
        ("update",),
        "Change fields of a memory.",
        "Only the named fields change (fields and --file as for `add`; null takes a field away); what another "
        "program changes meanwhile is never overwritten.",
        "memoryd update b52e2331-1b7b-4a1b-8f0e-0d8a3f0c9c11 importance=high",
        (
            _ID,
            _IN_ROOT,
            Param("changes", "object", "the fields that change", cli="fields", required=True),
            _ALLOW,
        ),
        (*_STORED, _WARNINGS),
        "job",
        True,
        waits_s=60,
    ),
    Method(
        "memory.forget",
        ("forget",),
        "Archive a memory, or take it out and keep it aside.",
        "Nothing is lost: `unarchive` brings it back, and so does `undo` with the receipt.",
        "memoryd forget b52e2331-1b7b-4a1b-8f0e-0d8a3f0c9c11",
        (_ID, _IN_ROOT),
        _STORED,
        "job",
        True,
        waits_s=60,
    ),
    Method(
        "memory.unarchive",
        ("unarchive",),
        "Bring an archived or forgotten memory back.",
        "It stands among the live ones again, and no schedule moves it as it is.",
        "memoryd unarchive b52e2331-1b7b-4a1b-8f0e-0d8a3f0c9c11",
        (_ID, _IN_ROOT),
        _STORED,
        "job",
        True,
        waits_s=60,
    ),
)
