"""Duplicates inside one session: same type, same title, and contents that share more than 0.85 of their words. Counts
and duplicate ids over all sessions.

The memory with the higher confidence stays unchanged, in a tie the earlier one; fields are not combined. A memory with
the same title and different content stays: a later note on a subject does not duplicate the first.

Merging by the daemon is not an extraction: `extraction_count` and `last_updated` do not change, or the archiver would
treat the session as new for another sixty days. The layout has no index file; its counts are in the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from operator import itemgetter
from typing import NamedTuple

from msgspec.structs import replace

from memoryd.core.findings import Finding
from memoryd.core.json_spans import remove_elements
from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import FileChange, FileStats, Record, Role
from memoryd.core.similarity import Overlap, Tokens, overlap, same, tokens
from memoryd.core.spans import Edit, sha256
from memoryd.layouts.json_document import get_text
from memoryd.layouts.protocol import IndexResult, IndexView, LoadedFile, UpkeepView, count_memories
from memoryd.layouts.session_files.parser import Session, duplicate_key, read_session
from memoryd.layouts.session_files.schema import confidence

THRESHOLD = Fraction(17, 20)  # exclusive


class Candidate(NamedTuple):
    """A memory with its position in the array, its content and the tokens of the content."""

    position: int
    record: Record
    content: str
    words: Tokens

    def matches(self, other: Candidate, threshold: Fraction) -> bool:
        """Return True where both contents are similar above `threshold`."""
        above = (threshold.numerator, threshold.denominator)
        return same(self.content, self.words, other.content, other.words, *above)

    def overlap_with(self, other: Candidate) -> Overlap:
        """Return the overlap of both sets of words."""
        return overlap(self.words.words, other.words.words)


class Merge(NamedTuple):
    """A memory to keep, and the duplicates that it replaces, each of which matches it directly."""

    original: Candidate
    duplicates: tuple[Candidate, ...]

    @property
    def position(self) -> int:
        """The earliest position in the array, where the original goes."""
        return min(self.original.position, *(each.position for each in self.duplicates))


def dedupe(view: UpkeepView, threshold: float | None) -> Plan:
    """Plan one rewrite for each session with duplicates."""
    above = THRESHOLD if threshold is None else Fraction(str(threshold)).limit_denominator(10_000)
    actions = (_action(path, loaded, view, above) for path, loaded in view.live.items())
    return Plan(tuple(action for action in actions if action is not None))


def _action(path: str, loaded: LoadedFile, view: UpkeepView, threshold: Fraction) -> Action | None:
    facts = loaded.document.facts
    if not facts.get("twins") or facts.get("damaged"):
        return None
    session = read_session(loaded.data)
    if session is None:
        return None
    merges = [merge for group in _groups(session, loaded) for merge in find_merges(group, threshold)]
    merges = [merge for merge in merges if not _is_pinned(merge, loaded.data, view)]
    if not merges:
        return None
    removed = sorted((each, merge.original) for merge in merges for each in merge.duplicates)
    return Action(
        Kind.REWRITE,
        path,
        f"merge {len(removed)} duplicates in this session",
        tuple(each.record.id for each, _ in removed),
        tuple(_edits(loaded.data, session, merges)),
        base=sha256(loaded.data),
        reasons=tuple(_reason(each, kept) for each, kept in removed),
        quarantine=tuple(each.record.span for each, _ in removed),
    )


def _reason(duplicate: Candidate, original: Candidate) -> str:
    scores = f"confidence {confidence(duplicate.record.native):g} against {confidence(original.record.native):g}"
    return f"duplicate of {original.record.id} ({scores})"


def _is_pinned(merge: Merge, data: bytes, view: UpkeepView) -> bool:
    """Return True if an undo restored one of these; only a command merges it again."""
    texts = (each.record.span.of(data) for each in (*merge.duplicates, merge.original))
    return view.unattended and any(map(view.is_pinned, texts))


def _groups(session: Session, loaded: LoadedFile) -> Iterator[list[Candidate]]:
    positions = {span.start: position for position, span in enumerate(session.elements)}
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in loaded.document.records:
        groups.setdefault(duplicate_key(record.native), []).append(record)
    for group in groups.values():
        if len(group) > 1:
            texts = [get_text(record.native, "content") for record in group]
            yield [Candidate(positions[r.span.start], r, t, tokens(t)) for r, t in zip(group, texts, strict=True)]


def find_merges(group: Sequence[Candidate], threshold: Fraction = THRESHOLD) -> Iterator[Merge]:
    """Yield the merges among memories with the same key. The most confident come first, so that each duplicate matches
    a memory that stays, and not only another duplicate; it is merged into the most similar one."""
    duplicates: dict[int, list[Candidate]] = {}
    originals: list[Candidate] = []
    for candidate in sorted(group, key=lambda each: (-confidence(each.record.native), each.position)):
        match = most_similar(candidate, (other for other in originals if candidate.matches(other, threshold)))
        if match is None:
            originals.append(candidate)
        else:
            duplicates.setdefault(match.position, []).append(candidate)
    for original in originals:
        if original.position in duplicates:
            yield Merge(original, tuple(duplicates[original.position]))


def most_similar(candidate: Candidate, others: Iterable[Candidate]) -> Candidate | None:
    """Return the most similar of `others`, the first of equals."""
    best: Candidate | None = None
    for other in others:
        if best is None or candidate.overlap_with(other).closer_than(candidate.overlap_with(best)):
            best = other
    return best


def _edits(data: bytes, session: Session, merges: Sequence[Merge]) -> Iterator[Edit]:
    """Move the original of each merge to the earliest position, and remove the duplicates with their commas."""
    removed: set[int] = set()
    for merge in merges:
        removed |= {each.position for each in (merge.original, *merge.duplicates)} - {merge.position}
        if merge.original.position != merge.position:
            yield Edit(session.elements[merge.position], merge.original.record.span.of(data))
    yield from remove_elements(session.array, session.elements, removed)


def count_sessions(view: IndexView) -> IndexResult:
    """Count memories by type, and report sessions that are in more than one file."""
    sessions = {path: _session(each) for path, each in view.files.items()}
    return _with_duplicates(count_memories(view), sessions, tuple(_duplicate_sessions(sessions)))


def _with_duplicates(counted: IndexResult, sessions: dict[str, object], found: tuple[Finding, ...]) -> IndexResult:
    def update(changed: Mapping[str, FileChange], now: float) -> IndexResult | None:
        result = counted.update(changed, now) if counted.update else None
        same = True
        for path, each in changed.items():
            before, session = sessions.pop(path, None), _session(each.file)
            same = same and session == before
            if each.file is not None:
                sessions[path] = session
        return result and _with_duplicates(result, sessions, found if same else tuple(_duplicate_sessions(sessions)))

    return replace(counted, findings=found, update=update)


def _session(file: FileStats | None) -> object:
    """Return the session of a source file."""
    return file.facts.get("session") if file is not None and file.role is Role.SOURCE else None


def _duplicate_sessions(sessions: Mapping[str, object]) -> Iterator[Finding]:
    """Report every file of a session after the first."""
    first: dict[str, str] = {}
    for path, session in sorted(sessions.items(), key=itemgetter(0)):
        if not isinstance(session, str):
            continue
        if first.setdefault(session, path) != path:
            message = f"same session as {first[session]}; merge or rename one by hand"
            yield Finding("duplicate-session", path, message)
