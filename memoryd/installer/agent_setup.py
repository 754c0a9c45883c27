"""Add memoryd to the configuration of an agent, and take it out again.

The files belong to another program and its user. An entry is inserted by an edit that keeps every other byte; the
result is parsed, and must be what was there plus the entry, before it replaces the file. What was inserted is recorded
in the state directory, so that `undo` removes that and nothing else.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from memoryd.config.edit import append_table, cut_table, remove_config, require_unchanged, write_config
from memoryd.config.load import syntax_message
from memoryd.core.difference import compare
from memoryd.core.json_entries import (
    FIRST,
    insertion,
    removal,
    strict,
    trailing_commas,
    with_entry,
    without_entry,
)
from memoryd.core.spans import is_encodable, splice
from memoryd.errors import ConfigError, DeniedError, NotFoundError, UsageError
from memoryd.installer.agents import HOOK, NAME, Agent, Entry, entries


class Inserted(Struct, frozen=True):
    """An entry as it was inserted: its text, how many of its containers there were, and whether the file was made for
    it."""

    path: str
    keys: list[str | int]
    value: object
    text: str
    depth: int
    created: bool


class Step(Struct, frozen=True):
    """The outcome for one entry: `added`, `replaced`, `removed`, `present`, `absent`, or `kept` (it is not as setup
    wrote it, and stays)."""

    what: str
    path: str
    state: str


class Change(Struct, frozen=True):
    """The steps for an agent, the files before and after (None: no file), and what is recorded before and after."""

    steps: list[Step]
    before: dict[str, str | None]
    after: dict[str, str | None]
    recorded: list[Inserted]
    record: list[Inserted]

    @property
    def changed(self) -> list[str]:
        """Return the files that change."""
        return [path for path, text in self.after.items() if self.before[path] != text]

    def difference(self) -> str:
        """Return the lines that change, like a `diff`, without secrets."""
        before = {path: (self.before[path] or "").encode() for path in self.changed}
        return compare(before, {path: (self.after[path] or "").encode() for path in self.changed}).text


def record_path(state_dir: str, agent: Agent) -> str:
    """Return the file that records what was inserted for an agent."""
    return os.path.join(state_dir, f"setup-{agent.name}.json")


def read_record(path: str) -> list[Inserted]:
    """Return what was inserted for an agent. Raises ConfigError for a damaged record."""
    text = _read(path)
    try:
        return msgspec.json.decode(text or "[]", type=list[Inserted])
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{path}: {error}", hint="remove this file; entries of memoryd then stay as they are"
        ) from error


def plan_setup(agent: Agent, command: Sequence[str], record: Sequence[Inserted], env: Mapping[str, str]) -> Change:
    """Plan the insertion of the entries of an agent. `command`: the words that start memoryd.

    Raises NotFoundError if the agent is not installed, and ConfigError for a file that cannot be edited.
    """
    wanted = entries(agent, command, env)
    for word in (*command, *(entry.path for entry in wanted)):
        if not is_encodable(word):
            raise UsageError(f"{word}: the path is not UTF-8", hint="a configuration file cannot hold it; rename it")
    _require_installed(agent, [entry.path for entry in wanted])
    before: dict[str, str | None] = {entry.path: _read(entry.path) for entry in wanted}
    after, recorded, steps = dict(before), list(record), []
    for path, original in before.items():
        here = [entry for entry in wanted if entry.path == path]
        tree = _parse(path, original or "", here)
        states = {entry.what: _state(tree, entry, recorded) for entry in here}
        steps += [Step(entry.what, path, states[entry.what]) for entry in here]
        if not {"added", "replaced"} & set(states.values()):
            continue
        ours = [each for each in recorded if each.path == path and each.value in _values(tree, each.keys, [each.value])]
        text = remove_inserted(ours, original or "")
        created = original is None or any(each.created for each in ours)
        left = _parse(path, text, here)
        recorded = [
            each for each in recorded if each.path != path or (each not in ours and _values(left, each.keys, ()))
        ]
        for entry in here:
            if not _values(_parse(path, text, [entry]), entry.keys, [entry.value]):
                text, inserted = insert(entry, text, created=created)
                recorded.append(inserted)
        after[path] = text
    return Change(steps, before, after, list(record), recorded)


def plan_undo(record: Sequence[Inserted]) -> Change:
    """Plan the removal of what was inserted. An entry that was changed since stays. Raises ConfigError for a file that
    cannot be edited."""
    before = {each.path: _read(each.path) for each in record}
    after, steps = dict(before), []
    remaining: list[Inserted] = []
    for each in reversed(record):
        text = after[each.path] or ""
        known = _recorded(record, each.path, each.keys)
        values = _values(_parse(each.path, text, ()), each.keys, [each.value])
        state = "removed" if each.value in values else "kept" if any(it not in known for it in values) else "absent"
        steps.append(Step("session hook" if each.keys[-1] == FIRST else "MCP server", each.path, state))
        if state == "removed":
            text = remove_inserted([each], text)
            after[each.path] = None if each.created and not text else text
        elif state == "kept":
            remaining.insert(0, each)
    return Change(steps, before, after, list(record), remaining)


def carry_out(change: Change, record_file: str) -> None:
    """Write the files of a plan and the record. Until the files are written, the record names what was and what may be
    inserted, so that undo finds either after a crash or a failure. Raises ConflictError for a file, or the record, that
    was changed since it was read."""
    both = [*change.recorded, *(each for each in change.record if each not in change.recorded)]
    _write_record(record_file, change.recorded, both)
    for path in change.changed:
        before, text = change.before[path], change.after[path]
        if text is None:
            remove_config(path, before or "")
        else:
            write_config(path, text, guard=partial(_require_same, path, before))
    _write_record(record_file, both, change.record)


def _write_record(path: str, before: Sequence[Inserted], after: Sequence[Inserted]) -> None:
    def guard() -> None:
        require_unchanged(path, read_record(path) == before)

    if after != before and after:
        write_config(path, msgspec.json.encode(after).decode(), guard=guard)
    elif after != before:
        guard()
        os.unlink(path)


def _require_same(path: str, before: str | None) -> None:
    require_unchanged(path, _read(path) == before)


def _require_installed(agent: Agent, paths: Sequence[str]) -> None:
    top = os.path.dirname(paths[-1])  # of its hook, if it has one: a file of its servers may be in the home directory
    if not any(map(os.path.exists, [top, *paths])):
        raise NotFoundError(
            f"{agent.title} was not found: there is no directory {top}",
            hint="start the agent once, or create the directory, and try again",
        )


def _read(path: str) -> str | None:
    """Return the text of a file as it is, None if there is none. Raises DeniedError or ConfigError."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ConfigError(f"{path} is not a regular file", hint="nothing was changed")
        return Path(path).read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8", hint="convert the file to UTF-8 and try again") from error
    except PermissionError as error:
        raise DeniedError(f"{path} cannot be read: {error.strerror}", hint="nothing was changed") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", hint="nothing was changed") from error


def _parse(path: str, text: str, wanted: Sequence[Entry]) -> object:
    """Decode a file. Raises ConfigError, with what to paste, for one that the wanted entries cannot be inserted in."""
    try:
        tree = _decode(path, text)
        for entry in wanted:
            with_entry(tree, entry.keys, entry.value)
    except json.JSONDecodeError as error:
        raise _refused(f"{path}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}", wanted) from error
    except tomllib.TOMLDecodeError as error:
        raise _refused(syntax_message(str(error), text, path), wanted) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(f"{path}: {error}", wanted) from error
    return tree


def _decode(path: str, text: str) -> object:
    """Decode a file; an empty one is an empty table. Raises ValueError or RecursionError."""
    if path.endswith(".toml"):
        return tomllib.loads(text)
    plain = strict(text.encode()).decode().removeprefix("\ufeff")
    return json.loads(plain) if plain.strip() else {}


def _tree_of(path: str, text: str) -> object:
    """Decode a file; None for one that is not valid."""
    try:
        return _decode(path, text)
    except (ValueError, RecursionError):
        return None


def _refused(message: str, wanted: Sequence[Entry]) -> ConfigError:
    hint = "nothing was changed; correct the file and try again"
    if wanted:
        hint = "\n".join([f"{hint}, or add this by hand:", *map(snippet, wanted)])
    return ConfigError(message, hint=hint)


def _values(tree: object, keys: Sequence[str | int], known: Sequence[object]) -> list[object]:
    """Return what is at the keys of an entry: one value or none, or the hooks in a list that are known or look like a
    hook of memoryd."""
    for key in keys:
        if key == FIRST and isinstance(tree, list):
            texts = zip(tree, map(json.dumps, tree), strict=True)
            return [each for each, text in texts if each in known or (NAME in text and " ".join(HOOK) in text)]
        if not isinstance(tree, dict) or key not in tree:
            return []
        tree = tree[key]
    return [tree]


def _recorded(record: Sequence[Inserted], path: str, keys: Sequence[str | int]) -> list[object]:
    """Return the values that were inserted at the keys of an entry."""
    return [each.value for each in record if each.path == path and [*each.keys] == [*keys]]


def _state(tree: object, entry: Entry, record: Sequence[Inserted]) -> str:
    ours = _recorded(record, entry.path, entry.keys)
    values = _values(tree, entry.keys, [entry.value, *ours])
    if entry.value in values:
        return "present"
    if any(each in values for each in ours):
        return "replaced"
    return "kept" if values else "added"


def _with_entry(text: str, entry: Entry) -> tuple[str, str, int]:
    """Insert an entry into the text of its file. Returns the text, what was inserted, and how many of the containers of
    the entry there were."""
    if entry.path.endswith(".toml"):
        assert isinstance(entry.value, Mapping)
        new = append_table(text, f"[{'.'.join(map(str, entry.keys))}]", entry.value)
        return new, new[len(text) :], 0
    data = text.encode()
    edit, depth = insertion(data, entry.keys, entry.value)
    return splice(data, [edit]).decode(), edit.new.decode(), depth


def snippet(entry: Entry) -> str:
    """Return an entry as a whole file, to paste from."""
    return _with_entry("", entry)[0].strip("\n")


def insert(entry: Entry, text: str, *, created: bool) -> tuple[str, Inserted]:
    """Return the text with an entry, and what was inserted. Raises ConfigError if the entry cannot be inserted."""
    tree = _parse(entry.path, text, [entry])
    new, inserted, depth = _with_entry(text, entry)
    if _tree_of(entry.path, new) != with_entry(tree, entry.keys, entry.value):
        raise _refused(f"{entry.path}: memoryd cannot edit this file safely", [entry])
    return new, Inserted(entry.path, [*entry.keys], entry.value, inserted, depth, created)


def remove_inserted(ours: Sequence[Inserted], text: str) -> str:
    """Return the text without these entries, which are there as they were inserted. The last one goes first: it may
    separate the others from what they were inserted before."""
    for each in reversed(ours):
        tree = _parse(each.path, text, ())
        wanted = with_entry(without_entry(tree, each.keys, each.value), each.keys, each.value)
        commas = trailing_commas(text.encode())
        for new in _cuts(each, text):
            found = _tree_of(each.path, new)
            strict_too = each.path.endswith(".toml") or trailing_commas(new.encode()) <= commas
            gone = found not in (None, tree)  # else the text was a copy of the entry, in a comment
            if strict_too and gone and with_entry(found, each.keys, each.value) == wanted:
                text = new
                break
        else:
            raise ConfigError(f"{each.path}: memoryd cannot edit this file safely", hint="remove its entry by hand")
    return text


def _cuts(each: Inserted, text: str) -> Iterator[str]:
    """Yield the text without exactly what was inserted, if that is there, and without the entry as it is there now."""
    if text.count(each.text) == 1:
        yield text.replace(each.text, "")
    if each.path.endswith(".toml"):
        new = cut_table(text, tuple(each.keys))
    else:
        data = text.encode()
        new = splice(data, removal(data, each.keys, each.value, each.depth)).decode()
    yield "" if each.created and not new.strip("{} \t\r\n") else new
