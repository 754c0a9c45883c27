"""Methods on memories: search, read, list, store, change, forget and restore."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from memoryd.control.methods.method_types import (
    Finite,
    GatheredResult,
    Method,
    Name,
    Option,
    Request,
    Result,
    member,
    parameter,
)
from memoryd.control.methods.shared import Receipt, RootOption
from memoryd.core.query import Mode, Rerank
from memoryd.core.records import JsonObject

# --- parameters

AllowSensitiveWords = Annotated[
    bool,
    parameter(
        "allow the words password, token, key, secret and credential in a topic file, but never an actual secret",
        Option("--allow-sensitive-words"),
    ),
]
Count = Annotated[int, Meta(ge=1, le=1000)]


class FilterRequest(Request, kw_only=True):
    """The memories that a search or a list covers."""

    root: RootOption = None
    roots: Annotated[list[str] | None, parameter("only these roots")] = None
    type: Annotated[Name | None, parameter("only memories of this type", Option("--type", "TYPE"))] = None
    tags: Annotated[
        list[str] | None,
        parameter("only memories with this tag; repeat to require several tags", Option("--tag", "TAG")),
    ] = None
    since: Annotated[
        Name | None,
        parameter(
            "only memories created since: 2026-01-31 (in UTC), a timestamp, 30d, or 'last week'", Option("--since", "D")
        ),
    ] = None
    until: Annotated[
        Name | None,
        parameter("only memories created until then, that day included; as --since", Option("--until", "D")),
    ] = None
    archived: Annotated[bool, parameter("include archived memories", Option("--archived"))] = False
    user: Annotated[
        Name | None, parameter("whose memories, in layouts that separate users", Option("--user", "USER"))
    ] = None


class SearchRequest(FilterRequest, kw_only=True):
    """A search: the query and the roots."""

    query: Annotated[str | None, parameter("what to look for", Option("argument", joined=True))] = None
    similar: Annotated[
        Name | None, parameter("search for memories like this one instead of words", Option("--similar", "ID"))
    ] = None
    vector: Annotated[list[Finite] | None, parameter("search for memories near this vector instead of words")] = None
    mode: Annotated[Mode | None, parameter("how to search (default: hybrid)", Option("--mode"))] = None
    rerank: Annotated[
        Rerank | None,
        parameter(
            "rank the best 20 results again with a better model, a quarter of a second slower (default: see [search])",
            Option("--rerank"),
        ),
    ] = None
    min_score: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        parameter("leave out results with a lower score, from 0 to 1", Option("--min-score", "X")),
    ] = None
    limit: Annotated[Count | None, parameter("maximum number of results (default: 10)", Option("--limit", "N"))] = None
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | None,
        parameter("print whole memories within this token budget, ready to paste", Option("--max-tokens", "N")),
    ] = None


class MemoryRequest(Request, kw_only=True):
    """A memory, by its id and its root."""

    id: Annotated[str, parameter("the memory, by the id that search and list print", Option("argument"))]
    root: Annotated[Name | None, parameter("the root it is in (default: search all)", Option("--root", "ROOT"))] = None


class GetRequest(MemoryRequest, kw_only=True):
    """The memory to read, or a part of it."""

    touch: Annotated[bool, parameter("count this as a use of the memory", Option("--touch"))] = False
    offset: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        parameter("return the text from this character offset, in chunks"),
    ] = None


class ListRequest(FilterRequest, kw_only=True):
    """A page of memories to list."""

    limit: Annotated[Count | None, parameter("maximum number of results (default: 50)", Option("--limit", "N"))] = None
    cursor: Annotated[Name | None, parameter("continue from the previous page", Option("--cursor", "CURSOR"))] = None
    months: Annotated[bool, parameter("count all of them as well, by the month of their creation")] = False


class AddRequest(Request, kw_only=True):
    """The memory to store and its location."""

    root: Annotated[
        Name | None, parameter("the root to store in (required if there are several)", Option("--root", "ROOT"))
    ] = None
    memory: Annotated[JsonObject | None, parameter("the memory's own fields", Option("fields"))] = None
    memories: Annotated[
        Annotated[list[JsonObject], Meta(min_length=1)] | None,
        parameter("several memories instead, all stored or none, with one receipt"),
    ] = None
    topic: Annotated[Name | None, parameter("markdown-topics: the topic", Option("--topic", "TOPIC"))] = None
    subtopic: Annotated[
        Name | None, parameter("markdown-topics: the file in the topic", Option("--subtopic", "NAME"))
    ] = None
    user: Annotated[Name | None, parameter("user-document: whose memory it is", Option("--user", "USER"))] = None
    session: Annotated[Name | None, parameter("session-files: the id of the session", Option("--session", "ID"))] = None
    allow_sensitive_words: AllowSensitiveWords = False


class UpdateRequest(MemoryRequest, kw_only=True):
    """The memory to change, and its new fields."""

    changes: Annotated[JsonObject, parameter("the fields that change", Option("fields"))]
    allow_sensitive_words: AllowSensitiveWords = False


# --- results


class MemoryRow(Struct):
    """One memory as search and list return it; `created` is UTC with `Z`."""

    root: str
    id: str
    path: str
    line: int | None
    title: str
    type: str | None
    tags: list[str]
    created: str | None
    archived: bool
    layout: str | None
    user: str | UnsetType = UNSET


class HitRow(MemoryRow, kw_only=True):
    """One search result; `why` explains its score. `confidence`: sure, likely or weak."""

    snippet: str
    score: float
    confidence: str
    why: JsonObject


class PeriodRow(Struct, kw_only=True):
    """The time that a question names: from `since` up to, but without, `until` (UTC with `Z`; None: open).

    `words`: how it was named. `empty`: no memory that the search covers is from then.
    """

    words: str
    since: str | None
    until: str | None
    empty: bool


class Freshness(Struct, kw_only=True):
    """The freshness of the results from one root.

    `state` is fresh, stale or unknown, `reason` the state of a root that is not watched now (paused, missing),
    `withheld` which results are left out, `semantic` why meanings were not compared.
    """

    state: str
    generation: int
    lag_ms: int
    reason: str | UnsetType = UNSET
    withheld: str | UnsetType = UNSET
    semantic: str | UnsetType = UNSET


Fresh = Annotated[
    dict[str, Freshness],
    member("{NAME: {state, generation, lag_ms, reason?, withheld?, semantic?}}: how current the answer is"),
]


class SearchResult(Result, kw_only=True):
    """The hits, best first."""

    hits: Annotated[
        list[HitRow], member("[{root, id, path, line?, title, snippet, score, confidence, why{}, type?, ...}]")
    ]
    embedding: Annotated[str | UnsetType, member("with `max_tokens`: the memories as one text")] = UNSET
    tokens: Annotated[int | UnsetType, member("how many tokens that is, about")] = UNSET
    missing_words: Annotated[list[str] | UnsetType, member("words of the query that no memory has, if any")] = UNSET
    period: Annotated[
        PeriodRow | UnsetType,
        member("{words, since, until, empty}: the time that the query names, if any; memories of it are preferred"),
    ] = UNSET
    took_ms: Annotated[float, member("how long it took")]
    fresh: Fresh


class GetResult(GatheredResult, kw_only=True):
    """One memory, complete or in parts. Parts with the same `sha256` belong together."""

    root: Annotated[str, member("the root")]
    id: Annotated[str, member("the memory's id")]
    path: Annotated[str, member("the file it is in now")]
    line: Annotated[int, member("the line it begins on")]
    layout: Annotated[str, member("the layout of its root")]
    archived: Annotated[bool, member("whether it is archived")]
    memory: Annotated[
        JsonObject | UnsetType, member("the memory as its agent wrote it; {text} if it is not an object")
    ] = UNSET
    text: Annotated[str | UnsetType, member("the text of a memory that is not an object")] = UNSET
    part: Annotated[
        str | UnsetType, member("with `offset`: some of its text, and `next_offset` where there is more")
    ] = UNSET
    sha256: Annotated[str | UnsetType, member("with `offset`: the hash of its whole text")] = UNSET
    offset: Annotated[int | UnsetType, member("with `offset`: where the part begins")] = UNSET
    next_offset: Annotated[int | UnsetType, member("where the text goes on; absent at its end")] = UNSET


class MonthRow(Struct):
    """The memories created in one month (UTC; null: at an unknown time): how many are live and how many archived."""

    month: str | None
    memories: int
    archived: int


class ListResult(Result, kw_only=True):
    """A page of memories, newest first."""

    memories: Annotated[
        list[MemoryRow], member("[{root, id, path, line, title, type, tags[], created, archived, layout}]")
    ]
    next_cursor: Annotated[str | UnsetType, member("for the next page; absent on the last")] = UNSET
    months: Annotated[
        list[MonthRow] | UnsetType,
        member("with `months`: [{month, memories, archived}], newest first; of every user unless one is named"),
    ] = UNSET
    fresh: Fresh


class StoredMemory(Struct):
    """One of several memories that were stored in one call."""

    id: str
    path: str


class StoredResult(Result, kw_only=True):
    """A memory that was changed."""

    root: Annotated[str, member("the root")]
    id: Annotated[str, member("the memory's id")]
    path: Annotated[str, member("the file it is in now")]
    receipt: Receipt = UNSET


class CheckedResult(StoredResult, kw_only=True):
    """A memory that was changed after its new content was checked for secrets."""

    warnings: Annotated[
        list[str] | UnsetType,
        member(
            "what looks like a secret or will be reported by `check`, although it was stored; absent if nothing does"
        ),
    ] = UNSET


class AddResult(CheckedResult, kw_only=True):
    """A memory that was stored, or several."""

    memories: Annotated[list[StoredMemory] | UnsetType, member("[{id, path}] of each, where several were stored")] = (
        UNSET
    )


METHODS: tuple[Method, ...] = (
    Method(
        "memory.search",
        ("search",),
        "Search the memories of all roots, or of one.",
        "Ranked results with location and snippet; --json adds the scoring. Any text is a valid query. --max-tokens "
        "prints whole memories within that budget, ready to paste. Exits with 1 when nothing is found.",
        "memoryd search connection pool size --type learning --limit 5",
        SearchRequest,
        SearchResult,
        one_of=("query", "similar", "vector"),
    ),
    Method(
        "memory.get",
        ("get",),
        "Print a memory exactly as stored.",
        "By any id that search and list print; the short id works if it is unique. TOPIC/SUBTOPIC prints a whole "
        "topic file. --touch counts the read in layouts that count reads. Exits with 1 if there is no such memory.",
        "memoryd get b52e2331-1b7b-4a1b-8f0e-0d8a3f0c9c11 --touch",
        GetRequest,
        GetResult,
    ),
    Method(
        "memory.list",
        ("list",),
        "List memories, newest first.",
        "From all roots or one, page by page.",
        "memoryd list --root agents --type task --limit 20",
        ListRequest,
        ListResult,
    ),
    Method(
        "memory.add",
        ("add",),
        "Store a new memory by the rules of its layout.",
        "A sentence is stored as the content, as a learning where the layout has types. Fields are NAME=VALUE: a VALUE "
        "that is JSON (a number, list, object, true, false, null, quoted text) is taken "
        "as such, any other as text; a NAME given twice makes a list. --file takes a JSON object, a list of them (all "
        "are stored or none), or the text of a whole entry, from a file or from - (standard input). When the "
        "command returns, the memory is on disk.",
        'memoryd add --root agents type=learning content="The pool needs 20" --tag db',
        AddRequest,
        AddResult,
        kind="job",
        mutates=True,
        one_of=("memory", "memories"),
        only_one=True,
        waits_s=60,
    ),
    Method(
        "memory.update",
        ("update",),
        "Change fields of a memory.",
        "Only the named fields change (fields and --file as for `add`; null removes a field); what another "
        "program changes meanwhile is never overwritten.",
        "memoryd update b52e2331-1b7b-4a1b-8f0e-0d8a3f0c9c11 importance=high",
        UpdateRequest,
        CheckedResult,
        kind="job",
        mutates=True,
        waits_s=60,
    ),
    Method(
        "memory.forget",
        ("forget",),
        "Archive a memory, or move it to the trash.",
        "The trash is for layouts without an archive. Nothing is lost: `unarchive` restores it, and so does `undo` "
        "with the receipt.",
        "memoryd forget b52e2331-1b7b-4a1b-8f0e-0d8a3f0c9c11",
        MemoryRequest,
        StoredResult,
        kind="job",
        mutates=True,
        waits_s=60,
    ),
    Method(
        "memory.unarchive",
        ("unarchive",),
        "Restore an archived or forgotten memory.",
        "It becomes live again and is exempt from scheduled archiving until it changes.",
        "memoryd unarchive b52e2331-1b7b-4a1b-8f0e-0d8a3f0c9c11",
        MemoryRequest,
        StoredResult,
        kind="job",
        mutates=True,
        waits_s=60,
    ),
)
