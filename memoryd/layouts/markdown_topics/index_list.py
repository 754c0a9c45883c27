"""The list of topic files in `index.md`: which lines to add, and which to remove.

Existing descriptions, headings, their order and any other line belong to their authors and stay; a heading in the form
that memoryd generates comes and goes with its directory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from msgspec import Struct, field

from memoryd.layouts.markdown_topics.names import heading_for, topic_path, words

_ITEM = re.compile(r"[ \t]{0,3}[-*+][ \t]+`([^`]+\.md)`(?:[ \t]*[-–—:]+[ \t]*(.*))?[ \t]*")
_TOPIC = re.compile(r"###[ \t]+(.+?)[ \t]*")
_MIN_ABBREVIATION = 4  # letters

Key = tuple[str, ...]  # comparison key of headings and topics


class Item(NamedTuple):
    """A line of the list; `at` is its number in the region."""

    at: int
    heading: str | None
    name: str
    description: str


class _Part(Struct):
    """The lines under one heading, which is line `at` (-1: no heading); new items are inserted before line `end`.
    `other` is True where there is more than items under it."""

    heading: str | None
    at: int
    end: int
    items: list[Item] = field(default_factory=list)
    other: bool = False


def update_list(
    lines: Sequence[str],
    quoted: Collection[int],
    files: Mapping[str, str],
    newline: str,
    generated: Collection[str] = (),
) -> list[str]:
    """Return the region with exactly `files` listed (path -> description of a new line); `lines` itself where nothing
    changes. Lines include their line breaks; those numbered in `quoted` are in a code fence. `generated` are the
    headings that memoryd wrote ("" for none): what is under them follows the files alone."""
    parts = _parts(lines, quoted)
    listed, gone = _matched([item for part in parts for item in part.items], files, generated)
    missing = sorted(set(files) - listed, key=_order)
    described = {item.name: item.description for item in gone if item.description}
    places = {_key(part.heading): part for part in reversed(parts)}
    added: dict[int, list[str]] = {}
    fresh: dict[str, list[str]] = {}
    for path in missing:
        name, heading = path.rpartition("/")[2], _heading(path)
        line = f"- `{name}` - {described.get(name) or files[path]}{newline}"
        part = places.get(_key(heading))
        if part is None:
            fresh.setdefault(heading or "", []).append(line)
        else:
            added.setdefault(_insertion_line(part, name, generated), []).append(line)
    left = {item.at for item in gone}
    left |= _empty_headings(lines, parts, left, {_key(_heading(path)) for path in files}, generated)
    if 0 in added and _needs_blank_line(parts, left):
        added[0].append(newline)
    for heading in list(fresh) if _is_generated_order(parts, generated) else ():
        at = next((part.at for part in parts if part.at not in left and _order_of(part) > _words(heading)), None)
        if at is not None:
            added.setdefault(at, []).extend([f"### {heading}{newline}", *fresh.pop(heading), newline])
    return _with_sections(_merged(lines, left, added, newline), fresh, newline)


def generated_headings(
    lines: Sequence[str], quoted: Collection[int], files: Iterable[str], generated: Iterable[str]
) -> set[str]:
    """Return the present headings that memoryd words this way, or wrote earlier; "" where the lines above all headings
    list the files of the base."""
    parts = _parts(lines, quoted)
    base = {path for path in files if "/" not in path}
    above = {item.name for item in parts[0].items}
    known = {*generated, *(heading for path in files if (heading := _heading(path)))} - {""}
    there = {part.heading for part in parts if part.heading is not None}
    return (known & there) | ({""} if (above and above <= base) or (not above and "" in generated) else set())


def _order(path: str) -> tuple[Key, str]:
    return _words(_heading(path)), path


def _order_of(part: _Part) -> Key:
    return _words(part.heading)


def _words(heading: str | None) -> Key:
    return _key(heading) or ()


def _is_generated_order(parts: Sequence[_Part], generated: Collection[str]) -> bool:
    """Return True where the order of the headings is memoryd's and not an author's."""
    below = parts[1:]
    return all(part.heading in generated for part in below) and below == sorted(below, key=_order_of)


def _needs_blank_line(parts: Sequence[_Part], left: Collection[int]) -> bool:
    """Return True where a remaining heading comes first, so that a list inserted above it needs a blank line."""
    below = [part.at for part in parts[1:]]
    return below[:1] == [0] and any(at not in left for at in below)


def _insertion_line(part: _Part, name: str, generated: Collection[str]) -> int:
    if (part.heading or "") not in generated or part.items != sorted(part.items, key=lambda item: item.name):
        return part.end  # an author chose the order
    return next((item.at for item in part.items if item.name > name), part.end)


def _empty_headings(
    lines: Sequence[str],
    parts: Sequence[_Part],
    gone: Collection[int],
    topics: Collection[Key | None],
    generated: Collection[str],
) -> set[int]:
    """Return the lines of generated headings without content and topic, with their blank lines."""
    left: set[int] = set()
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        kept = part.other or any(item.at not in gone for item in part.items)
        nothing = part.heading is None and not part.items
        if kept or nothing or (part.heading or "") not in generated or _key(part.heading) in topics:
            continue
        left.update(range(max(part.at, 0), part.end if after is None else after.at))
        before = part.at - 1
        while after is None and before >= 0 and (before in left or not lines[before].strip()):
            left.add(before)
            before -= 1
    return left


def _heading(path: str) -> str | None:
    return heading_for(topic_path(path).topic) or None


@lru_cache(maxsize=1024)
def _key(heading: str | None) -> Key | None:
    """Return the comparison key of a heading; None for the files of the base, which have no heading."""
    return (tuple(words(heading)) or ("", heading)) if heading is not None else None


def _parts(lines: Sequence[str], quoted: Collection[int]) -> list[_Part]:
    parts = [_Part(None, -1, 0)]
    for at, line in enumerate(lines):
        text = line.rstrip("\r\n")
        topic = None if at in quoted else _TOPIC.fullmatch(text)
        item = None if at in quoted else _ITEM.fullmatch(text)
        last = parts[-1]
        if topic is not None:
            parts.append(_Part(topic[1], at, at + 1))
        elif item is not None:
            last.items.append(Item(at, last.heading, item[1], (item[2] or "").strip()))
            last.end = at + 1
        elif last.items and last.end == at and text.startswith((" ", "\t")) and text.strip():
            last.end = at + 1  # the item continues on an indented line
            last.other = True
        elif text.strip():
            last.other = True
    return parts


def _matched(
    items: Sequence[Item], files: Mapping[str, str], generated: Collection[str]
) -> tuple[set[str], list[Item]]:
    """Return the files that are listed, and the items whose file is missing; each item matches at most one file.

    An item matches the file of its name in the topic of its heading, or at its own path. Under a heading that memoryd
    did not write, it matches the only file of that name which no other item matches.
    """
    by_topic: dict[tuple[str, Key | None], list[str]] = {}
    by_name: dict[str, list[str]] = {}
    for path in files:
        name = path.rpartition("/")[2]
        by_topic.setdefault((name, _key(_heading(path))), []).append(path)
        by_name.setdefault(name, []).append(path)
    listed: set[str] = set()
    loose: list[Item] = []
    for item, exact in _described_first(items, files, by_topic):
        free = [path for path in exact if path not in listed]
        listed.update(free[:1])
        loose += [] if free else [item]
    gone: list[Item] = []
    for item in sorted(loose):
        same = () if (item.heading or "") in generated else by_name.get(item.name, ())
        free = [path for path in same if path not in listed and _may_match(item.heading, path)]
        listed.update(free if len(free) == 1 else ())
        gone += [] if len(free) == 1 else [item]
    return listed, gone


def _described_first(
    items: Sequence[Item], files: Mapping[str, str], by_topic: Mapping[tuple[str, Key | None], list[str]]
) -> Iterator[tuple[Item, list[str]]]:
    """Yield each item with the files it may match. Two topics may share a heading (`a-b` and `a/b`), so items whose
    description is that of a file come first."""
    others: list[tuple[Item, list[str]]] = []
    for item in items:
        path = item.name.removeprefix("./")
        exact = [path] if "/" in path and path in files else by_topic.get((item.name, _key(item.heading)), [])
        same = [each for each in exact if files[each] == item.description]
        if same:
            yield item, same
        else:
            others.append((item, exact))
    yield from others


def _may_match(heading: str | None, path: str) -> bool:
    """Return True where the heading may mean the topic of this file: not if it is the generated heading of another
    topic. `auth` abbreviates `Authentication`."""
    if heading is None or heading != heading_for(heading):
        return True
    pairs = product(words(heading), words(topic_path(path).topic))
    return any(one == other or _short_for(one, other) or _short_for(other, one) for one, other in pairs)


def _short_for(short: str, long: str) -> bool:
    return len(short) >= _MIN_ABBREVIATION and long.startswith(short) and long[len(short)].isalpha()


def _merged(lines: Sequence[str], dropped: set[int], added: Mapping[int, Sequence[str]], newline: str) -> list[str]:
    last = max(added, default=-1)
    merged: list[str] = []
    for at, line in enumerate(lines):
        merged += added.get(at, ())
        if at not in dropped:
            merged.append(line if line.endswith("\n") or at >= last else line + newline)
    return [*merged, *added.get(len(lines), ())]


def _with_sections(lines: list[str], fresh: Mapping[str, Sequence[str]], newline: str) -> list[str]:
    """Append new topics before the blank lines at the end of the region."""
    if not fresh:
        return lines
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return [*_ended(lines[:end], newline), *_sections(fresh, newline, bool(end)), *lines[end:]]


def _ended(lines: Sequence[str], newline: str) -> list[str]:
    return [line if line.endswith("\n") else line + newline for line in lines]


def _sections(fresh: Mapping[str, Sequence[str]], newline: str, parted: bool) -> Iterator[str]:
    for heading, items in fresh.items():
        if parted:
            yield newline
        yield f"### {heading}{newline}"
        yield from items
        parted = True
