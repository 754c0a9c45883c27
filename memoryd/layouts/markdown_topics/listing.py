"""The lists of an index: which line names which file, what is missing, what is gone. Text in, text out.

The grammar is that of the one real index there is: `### Heading` for a topic, then ``- `file.md` - description``.
Headings, order, descriptions and any other line are somebody's and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memoryd.layouts.markdown_topics.naming import heading_for, place_of, words

_ITEM = re.compile(r"[ \t]{0,3}[-*+][ \t]+`([^`]+\.md)`(?:[ \t]*[-–—:]+[ \t]*(.*))?[ \t]*")
_TOPIC = re.compile(r"###[ \t]+(.+?)[ \t]*")
_UNLISTABLE = re.compile(r"[`\x00-\x1f\x7f]")

Key = tuple[str, ...]  # what headings and topics are compared by


class Item(NamedTuple):
    """A line of a list; `at` counts the lines of the region."""

    at: int
    heading: str | None
    name: str
    description: str


@dataclass(slots=True)
class _Part:
    """The lines under one heading; new items go in before line `end`."""

    heading: str | None
    end: int
    items: list[Item] = field(default_factory=list)


def listable(path: str) -> bool:
    """A name with a backtick or a line end cannot stand in a line of the list."""
    return _UNLISTABLE.search(path) is None


def updated(lines: Sequence[str], quoted: Collection[int], files: Mapping[str, str], newline: str) -> list[str]:
    """The region with exactly `files` (path -> description of a new line) listed; equal to `lines` where nothing has
    to change. Lines carry their ends; those numbered in `quoted` lie in a code fence."""
    parts = _parts(lines, quoted)
    listed, gone = _matched([item for part in parts for item in part.items], files)
    missing = sorted(set(files) - listed, key=lambda path: (place_of(path).topic.casefold(), path))
    described = {item.name: item.description for item in gone if item.description}
    places = {_key(part.heading): part.end for part in reversed(parts)}
    added: dict[int, list[str]] = {}
    fresh: dict[str, list[str]] = {}
    for path in missing:
        name, heading = path.rpartition("/")[2], _heading(path)
        line = f"- `{name}` - {described.get(name) or files[path]}{newline}"
        end = places.get(_key(heading))
        if end is None:
            fresh.setdefault(heading or "", []).append(line)
        else:
            added.setdefault(end, []).append(line)
    kept = _merged(lines, {item.at for item in gone}, added, newline)
    return _with_sections(kept, fresh, newline)


def _heading(path: str) -> str | None:
    return heading_for(place_of(path).topic) or None


def _key(heading: str | None) -> Key | None:
    """None for what stands under no heading: the files of the base itself."""
    return (tuple(words(heading)) or ("", heading)) if heading is not None else None


def _parts(lines: Sequence[str], quoted: Collection[int]) -> list[_Part]:
    parts = [_Part(None, 0)]
    for at, line in enumerate(lines):
        text = line.rstrip("\r\n")
        topic = None if at in quoted else _TOPIC.fullmatch(text)
        item = None if at in quoted else _ITEM.fullmatch(text)
        last = parts[-1]
        if topic is not None:
            parts.append(_Part(topic[1], at + 1))
        elif item is not None:
            last.items.append(Item(at, last.heading, item[1], (item[2] or "").strip()))
            last.end = at + 1
        elif last.items and last.end == at and text.startswith((" ", "\t")) and text.strip():
            last.end = at + 1  # the item goes on in an indented line
    return parts


def _matched(items: Sequence[Item], files: Mapping[str, str]) -> tuple[set[str], list[Item]]:
    """The files that are listed, and the items whose file is gone; each item stands for one file.

    An item belongs to the file of its name in the topic of its heading, or at its own path. Under a heading that a
    person worded freely it belongs to the only file of that name which no other item names."""
    by_topic: dict[tuple[str, Key | None], list[str]] = {}
    by_name: dict[str, list[str]] = {}
    for path in files:
        name = path.rpartition("/")[2]
        by_topic.setdefault((name, _key(_heading(path))), []).append(path)
        by_name.setdefault(name, []).append(path)
    listed: set[str] = set()
    loose: list[Item] = []
    for item, exact in _own_words_first(items, files, by_topic):
        free = [path for path in exact if path not in listed]
        listed.update(free[:1])
        loose += [] if free else [item]
    gone: list[Item] = []
    for item in sorted(loose):
        free = [path for path in by_name.get(item.name, ()) if path not in listed and _akin(item.heading, path)]
        listed.update(free if len(free) == 1 else ())
        gone += [] if len(free) == 1 else [item]
    return listed, gone


def _own_words_first(
    items: Sequence[Item], files: Mapping[str, str], by_topic: Mapping[tuple[str, Key | None], list[str]]
) -> Iterator[tuple[Item, list[str]]]:
    """Each item with the files it may stand for. Two topics may share a heading (`a-b` and `a/b`): there the lines
    that describe a file in its own words choose first."""
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


def _akin(heading: str | None, path: str) -> bool:
    """Could a person have meant this file's topic? Not where the heading is the plain name of another one."""
    if heading is None or heading != heading_for(heading):
        return True
    return bool(set(words(heading)) & set(words(place_of(path).topic)))


def _merged(lines: Sequence[str], dropped: set[int], added: Mapping[int, Sequence[str]], newline: str) -> list[str]:
    last = max(added, default=-1)
    merged: list[str] = []
    for at, line in enumerate(lines):
        merged += added.get(at, ())
        if at not in dropped:
            merged.append(line if line.endswith("\n") or at >= last else line + newline)
    return [*merged, *added.get(len(lines), ())]


def _with_sections(lines: list[str], fresh: Mapping[str, Sequence[str]], newline: str) -> list[str]:
    """New topics go to the end, before the blank lines that part the region from what follows."""
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
