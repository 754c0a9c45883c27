"""Store several memories in one change: all of them or none, with one receipt.

Each is planned as if those before it were already on disk; the drafts for one file then become one action.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from memoryd.core.plan import Action, Kind, Plan
from memoryd.core.records import Document, FileStats, ParseOffset, Role
from memoryd.core.spans import Edit, Span, sha256, splice
from memoryd.layouts.protocol import Layout, LoadedFile, WritePlan, WriteView

_STRIDE = 0x9E3779B97F4A7C15  # odd, so that the random numbers of one call all differ


class Drafts:
    """The state of the files once all memories planned so far are stored."""

    def __init__(self, layout: Layout, view: WriteView) -> None:
        self._layout = layout
        self._view = view
        self._actions: dict[str, list[Action]] = {}
        self._contents: dict[str, bytes | None] = {}  # of files read after their first draft
        self._stored: list[tuple[str, str, bytes]] = []  # path, id and text of each memory
        self.warnings: tuple[str, ...] = ()

    def view(self) -> WriteView:
        """Return the view from which the next memory is planned."""
        place = len(self._stored)
        return replace(
            self._view,
            load=self._load,
            content=self._content,
            files=_DraftFiles(self._view.files, self._actions),
            number=(self._view.number + place * _STRIDE) % 2**64,
            position=place,
        )

    def add(self, stored: WritePlan) -> None:
        """Add the plan for one memory."""
        self.warnings += tuple(each for each in stored.warnings if each not in self.warnings)
        for action in stored.plan.actions:
            before = self._contents.pop(action.path, None)
            if action.kind is not Kind.APPEND:
                self._contents[action.path] = self._outcome(action, before)
            self._actions.setdefault(action.path, []).append(action)
        self._stored.append((stored.path, stored.id, self._text(stored)))

    def _outcome(self, action: Action, before: bytes | None) -> bytes | None:
        if action.kind is Kind.REMOVE:
            return None
        if action.kind is Kind.CREATE:
            return action.data
        return splice(before if before is not None else self._existing(action.path), action.edits)

    def _existing(self, path: str) -> bytes:
        content = self._content(path)
        assert content is not None, "only an existing file is rewritten"
        return content

    def plan(self) -> Plan:
        """Return a plan with one action per file; only the last one ends the group."""
        actions = [self._merge(path, actions) for path, actions in self._actions.items()]
        return Plan((*(replace(each, copy=True) for each in actions[:-1]), *actions[-1:]))

    def stored(self) -> list[tuple[str, str]]:
        """Return the final (id, path) of each memory: a later memory may have made an earlier id ambiguous."""
        current_ids: dict[str, dict[bytes, str]] = {}
        for path, _, text in self._stored:
            if text and path not in current_ids:
                content = self._existing(path)
                current_ids[path] = {each.span.of(content): each.id for each in self._parse(path).records}
        return [(current_ids.get(path, {}).get(text, identity), path) for path, identity, text in self._stored]

    # --- reading

    def _content(self, path: str) -> bytes | None:
        if path not in self._actions:
            return self._view.content(path)
        if path not in self._contents:
            content = self._view.content(path) or b""
            for action in self._actions[path]:
                content += (b"" if content.endswith(b"\n") or not content else b"\n") + action.data
            self._contents[path] = content
            return content
        return self._contents[path]

    def _load(self, path: str, ids: Collection[str] | None = None) -> LoadedFile | None:
        if path not in self._actions:
            return self._view.load(path, ids)
        if self._content(path) is None:
            return None
        return LoadedFile(self._existing(path), lambda: self._parse(path), self._view.now)

    def _parse(self, path: str) -> Document:
        return self._layout.reader.parse(
            path, self._existing(path), now=self._view.now, mtime=self._view.now, base=ParseOffset()
        )

    def _text(self, stored: WritePlan) -> bytes:
        """Return the text of a memory in layouts that derive ids from it, so that it can be found again; else b""."""
        if self._layout.require_writer().stores_id:
            return b""
        found = next((each for each in self._parse(stored.path).records if each.id == stored.id), None)
        return found.span.of(self._existing(stored.path)) if found is not None else b""

    # --- joining

    def _merge(self, path: str, actions: list[Action]) -> Action:
        first = actions[0]
        if len(actions) == 1:
            return first
        ids = tuple(dict.fromkeys(identity for action in actions for identity in action.ids))
        why = f"{first.why}; {len(actions)} in one call"
        if first.kind is Kind.APPEND:
            # Only the policy decides whether the last line ends with a newline.
            data = b"\n".join((*(action.data.removesuffix(b"\n") for action in actions[:-1]), actions[-1].data))
            return replace(first, data=data, ids=ids, why=why)
        if first.kind is Kind.CREATE:
            return replace(first, data=self._existing(path), ids=ids, why=why)
        before, after = self._view.content(path) or b"", self._content(path)
        if after is None:
            return replace(actions[-1], ids=ids, why=why, base=sha256(before))
        quarantined = tuple(_quarantined_spans(actions, before))
        return replace(
            first, edits=(_difference(before, after),), base=sha256(before), ids=ids, why=why, quarantine=quarantined
        )


def _difference(before: bytes, after: bytes) -> Edit:
    """Return a single edit that turns `before` into `after`."""
    start = _common_length(before, after, min(len(before), len(after)), lambda text, size: text[:size])
    left = min(len(before), len(after)) - start
    end = _common_length(before, after, left, lambda text, size: text[len(text) - size :])
    return Edit(Span(start, len(before) - end), after[start : len(after) - end])


def _common_length(one: bytes, other: bytes, most: int, part: Callable[[bytes, int], bytes]) -> int:
    """Return the number of equal bytes at one end, by binary search, since comparing slices is fast."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        if part(one, middle) == part(other, middle):
            low = middle
        else:
            most = middle - 1
    return low


def _quarantined_spans(actions: list[Action], before: bytes) -> Iterator[Span]:
    """Yield the replaced spans of the original file, without memories that were only added in this call."""
    content = before
    for action in actions:
        for span in action.quarantine:
            text = span.of(content)
            at = before.find(text)
            if at >= 0:
                yield Span(at, at + len(text))
        content = splice(content, action.edits)


class _DraftFiles(Mapping[str, FileStats]):
    """The statistics of each file, including the drafts."""

    def __init__(self, known: Mapping[str, FileStats], drafts: Mapping[str, list[Action]]) -> None:
        self._files = known
        self._drafts = drafts

    def __getitem__(self, path: str) -> FileStats:
        new = self._drafts.get(path, [])
        if path not in self._files and not new:
            raise KeyError(path)
        empty = FileStats(path, Role.SOURCE, 0, 0, 0, 0, {})
        known = self._files.get(path, empty)
        size = known.size + sum(map(_growth, new))
        return known._replace(size=size, units=known.units + len(new), records=known.records + len(new))

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._files), **dict.fromkeys(self._drafts)})

    def __len__(self) -> int:
        return len({*self._files, *self._drafts})


def _growth(action: Action) -> int:
    return len(action.data) + sum(len(edit.new) - (edit.span.end - edit.span.start) for edit in action.edits)
